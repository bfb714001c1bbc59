package verifier

import (
	"fmt"
	"io"
)

// MixTrees returns the tree whose test-side files are those of tests and whose
// others are those of code: with the base's code and the head's tests it is
// the tree on which a new test has to fail, the other way round the one that
// shows whether old tests still pass.
//
// An entry of tests is in the result if testSide holds for its path, one of
// code if it does not; it is the whole entry, so modes, symbolic links and
// gitlinks are those of the side that it comes from. testSide has to give the
// same answer whenever it is asked about a path.
//
// Both trees are as in a listing: paths strictly ascend, and none lies below
// another. So it is with the result. It is an error if a tree is not, or if a
// file of one side would lie where the other has a folder. Only paths are
// compared: [TreeOf] checks the rest.
func MixTrees(code, tests []TreeEntry, testSide func(path string) bool) ([]TreeEntry, error) {
	n := 0
	for _, side := range []struct {
		name    string
		entries []TreeEntry
		tests   bool
	}{{"code", code, false}, {"tests", tests, true}} {
		var order treeHasher
		for i := range side.entries {
			path := side.entries[i].Path
			if err := order.place(path); err != nil {
				return nil, fmt.Errorf("mixed tree: %s: %w", side.name, err)
			}
			if testSide(path) == side.tests {
				n++
			}
		}
	}
	mixed := make([]TreeEntry, 0, n)
	var order treeHasher
	for len(code) > 0 || len(tests) > 0 {
		from, wanted := &code, false
		if len(code) == 0 || len(tests) > 0 && tests[0].Path < code[0].Path {
			from, wanted = &tests, true
		}
		e := (*from)[0]
		*from = (*from)[1:]
		if testSide(e.Path) != wanted {
			continue
		}
		if err := order.place(e.Path); err != nil {
			return nil, fmt.Errorf("mixed tree: %w", err)
		}
		mixed = append(mixed, e)
	}
	return mixed, nil
}

// TreeOf returns what a listing of the entries, in a repository of the given
// object format, amounts to. It refuses what [ReadTree] refuses, within the
// default [TreeLimits].
func TreeOf(entries []TreeEntry, format string) (Tree, error) {
	w, err := NewTreeWriter(io.Discard, format, TreeLimits{})
	if err != nil {
		return Tree{}, err
	}
	for _, e := range entries {
		if err := w.Add(e); err != nil {
			return Tree{}, err
		}
	}
	return w.Close()
}
