package verifier

import (
	"path"

	"github.com/truegreen-dev/truegreen/bundle"
)

// Blobs returns how many blobs the log names and the bundle holds.
func (r Report) Blobs() int {
	if run := r.get().run; run != nil {
		return len(bundle.Named(run))
	}
	return 0
}

// Tracked reports whether the tested tree has a file, or a symbolic link, of this
// path, which is relative to its root and has slashes.
func (r Report) Tracked(name string) bool {
	trees := r.get().findings.trees
	if trees == nil {
		return false
	}
	e, ok := find(trees.entries[SideHead], name)
	return ok && !e.Gitlink()
}

// A Home is where a test lives in the tested tree.
type Home struct {
	Dir  string // the folder that the paths in its output are relative to, "." for the root
	File string // that declares it, from the root; "" where that is not known
	Line int
}

// Home returns where a test of the head lives. That of a Go test is the folder of
// its package, which the tree's go.mod files tell, not the test's output; that of
// any other is the folder that its command runs in.
func (r Report) Home(t TestName) (Home, bool) {
	f := r.get().findings
	if f.config == nil {
		return Home{}, false
	}
	for i := range f.config.Test {
		e := &f.config.Test[i]
		if e.Name != t.Entry {
			continue
		}
		if e.Format != FormatGo {
			return Home{Dir: path.Clean(e.Dir)}, true
		}
		if f.trees == nil {
			return Home{}, false
		}
		for _, p := range f.trees.covered(e, parseGoTest(e), SideHead) {
			if p.ImportPath != t.Suite {
				continue
			}
			home := Home{Dir: p.Dir}
			for _, test := range p.Tests {
				if test.Name == rootName(t.Name) {
					home.File, home.Line = test.File, test.Line
				}
			}
			return home, true
		}
	}
	return Home{}, false
}
