// Package recipes holds the workflows that docs/recipes.md explains. They are used as
// they are, but for the names in them: see [Place].
package recipes

import (
	"embed"
	"strings"
)

//go:embed *.yml
var files embed.FS

// A Place says where a recipe goes. What is empty stays as the recipe has it.
type Place struct {
	Repository string // OWNER/NAME
	Branch     string // the default branch, whose jobs are trusted
	Action     string // what uses: names
}

// What the recipes have where a [Place] is empty.
const (
	Repository = "OWNER/REPOSITORY"
	Branch     = "main"
	Action     = "truegreen-dev/truegreen@v1"
)

// Workflow returns a recipe by the name of its file, for this place. The names of a
// place have to be plain: they are not quoted.
func (p Place) Workflow(name string) (string, error) {
	text, err := files.ReadFile(name)
	if err != nil {
		return "", err
	}
	var change []string
	if p.Action != "" {
		change = append(change, "uses: "+Action+"\n", "uses: "+p.Action+"\n")
	}
	if p.Branch != "" {
		change = append(change, "branches: ["+Branch+"]", "branches: ["+p.Branch+"]", ".yml@"+Branch+" ", ".yml@"+p.Branch+" ")
	}
	if p.Repository != "" {
		change = append(change, Repository, p.Repository)
	}
	return strings.NewReplacer(change...).Replace(string(text)), nil
}
