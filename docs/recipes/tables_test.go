package recipes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// TestTables compares the tables of docs/recipes.md with action.yml, or writes them.
func TestTables(t *testing.T) {
	t.Parallel()
	action, err := os.ReadFile(filepath.Join(moduleRoot, "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := parseWorkflow("action.yml", string(action))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(moduleRoot, "docs/recipes.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, kind := range []string{"inputs", "outputs"} {
		start, end := "<!-- "+kind+": written by go test ./docs/recipes -update -->\n\n", "\n<!-- end -->"
		before, rest, ok1 := strings.Cut(text, start)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok1 || !ok2 {
			t.Fatalf("%s: no place for the %s", path, kind)
		}
		text = before + start + table(at(w.root, kind), kind == "inputs") + end + after
	}
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text != string(page) {
		t.Errorf("%s: the tables are not what action.yml says: write them with -update", path)
	}
}

// table writes the members of a mapping, in its order.
func table(list *yaml.Node, defaults bool) string {
	var b strings.Builder
	if defaults {
		b.WriteString("| input | default | |\n|---|---|---|\n")
	} else {
		b.WriteString("| output | |\n|---|---|\n")
	}
	for i := 0; i < len(list.Content); i += 2 {
		name, member := list.Content[i].Value, list.Content[i+1]
		fmt.Fprintf(&b, "| `%s` | ", name)
		switch def := at(member, "default"); {
		case !defaults:
		case value(member, "required") == "true":
			b.WriteString("required | ")
		case def.Value == "":
			b.WriteString("none | ")
		default:
			fmt.Fprintf(&b, "`%s` | ", def.Value)
		}
		description := strings.Join(strings.Fields(value(member, "description")), " ")
		fmt.Fprintf(&b, "%s |\n", strings.ReplaceAll(description, "<", "&lt;")) // a page would take it for a tag
	}
	return b.String()
}
