package verifier

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

const maxCases = 256

// CasePass is what a [GateCase] wants where the release is to pass.
const CasePass = "verified"

// A GateCase is an example of what a policy lets pass or not.
type GateCase struct {
	Name    string
	Bundles []string // file names
	Waivers []string
	Tree    string    // where there is no bundle whose tree it could be
	Changed []string  // paths
	Time    time.Time // zero: now
	Want    []string  // CasePass, or the codes of the reasons
}

// ParseGateCases reads the examples of a policy. The evidence in them is bundles, as
// reports cannot be read back:
//
//	cases:
//	  - name: two signers                # unique
//	    bundles: [a.tar.zst, b.tar.zst]  # of one tree, which is the commit's
//	    waivers: [w.waiver]
//	    tree: 0123…                      # the commit's, where there is no bundle
//	    changed: [release/notes.md]      # what the commit changes
//	    time: "2026-12-31T00:00:00Z"     # of the release; default: now
//	    want: [verified]                 # or the codes of the reasons, the gravest first
//
// name and want are required, and bundles or tree.
func ParseGateCases(name string, file []byte) ([]GateCase, error) {
	root, err := parseYAML(name, file)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, fmt.Errorf("%s:1: nothing is in it: want the key cases", name)
	}
	d := configDecoder{lines: make(map[string]int)}
	var cases []GateCase
	top := yamlValue{root, ""}
	d.mapping(top, map[string]func(yamlValue){"cases": func(v yamlValue) {
		for _, item := range d.list(v) {
			c := d.gateCase(item)
			if slices.ContainsFunc(cases, func(o GateCase) bool { return o.Name == c.Name }) {
				d.fail(item, "name %q: there twice", c.Name)
			}
			cases = append(cases, c)
		}
		if len(cases) > maxCases {
			d.fail(v, "more than %d cases", maxCases)
		}
	}})
	if len(cases) == 0 {
		d.fail(top, "no case: want the key cases")
	}
	var field *fieldError
	if errors.As(d.err, &field) {
		return nil, fmt.Errorf("%s:%d: %w", name, d.line(field.field), d.err)
	}
	return cases, nil
}

func (d *configDecoder) gateCase(v yamlValue) (c GateCase) {
	d.mapping(v, map[string]func(yamlValue){
		"name":    func(v yamlValue) { c.Name = d.string(v) },
		"bundles": func(v yamlValue) { c.Bundles = d.strings(v) },
		"waivers": func(v yamlValue) { c.Waivers = d.strings(v) },
		"tree": func(v yamlValue) {
			if c.Tree = d.string(v); !isObjectID(c.Tree) {
				d.fail(v, "not a full object id")
			}
		},
		"changed": func(v yamlValue) { c.Changed = d.strings(v) },
		"time": func(v yamlValue) {
			var err error
			if c.Time, err = time.Parse(time.RFC3339, d.string(v)); err != nil {
				d.fail(v, "not a time as in 2026-12-31T00:00:00Z")
			}
		},
		"want": func(v yamlValue) {
			c.Want = d.strings(v)
			for _, w := range c.Want {
				if _, err := CauseOf(Code(w)); err != nil && (w != CasePass || len(c.Want) > 1) {
					d.fail(v, "%q is neither verified nor the code of a reason", w)
				}
			}
		},
	})
	switch {
	case c.Name == "":
		d.fail(v, "name is required")
	case c.Want == nil:
		d.fail(v, "want is required")
	case (c.Bundles == nil) == (c.Tree == ""):
		d.fail(v, "want bundles or a tree")
	}
	return c
}
