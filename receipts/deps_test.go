package receipts

import (
	"os/exec"
	"strings"
	"testing"
)

// Whoever checks evidence needs little to do it: the standard library, the tree
// proofs of x/mod, and this module's JSON.
func TestDependencies(t *testing.T) {
	t.Parallel()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command")
	}
	const module = "github.com/truegreen-dev/truegreen/"
	list, err := exec.Command(goTool, "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".", "./dsse").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(list)) {
		switch path {
		case module + "receipts", module + "receipts/dsse", module + "internal/strictjson", "golang.org/x/mod/sumdb/tlog":
		default:
			t.Errorf("depends on %s", path)
		}
	}
	imports, err := exec.Command(goTool, "list", "-deps", ".", "./dsse").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(imports)) {
		if path == "os/exec" || path == "net" {
			t.Errorf("depends on %s", path)
		}
	}
}
