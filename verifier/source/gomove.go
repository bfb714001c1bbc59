package source

import (
	"cmp"
	"path"
	"slices"
)

// moves finds the folders of tests that are elsewhere on head: a folder that has no
// tests any more, and one that had none before and has four fifths of the names at
// least. It returns the folders of head by those of base. Comparing all with all
// costs as much as their product; beyond a bound of it none is found.
func moves(bases []*goDir, heads map[string]*goDir, env GoEnv) map[*goDir]*goDir {
	var gone, fresh []*goDir
	were := make(map[string]bool)
	for _, b := range bases {
		were[b.dir] = true
		if b.reached && heads[b.dir] == nil {
			gone = append(gone, b)
		}
	}
	for _, h := range heads {
		if h.reached && !were[h.dir] {
			fresh = append(fresh, h)
		}
	}
	if len(gone) == 0 || len(fresh) == 0 || len(gone)*len(fresh) > maxGoPairs {
		return nil
	}
	slices.SortFunc(fresh, func(a, b *goDir) int { return cmp.Compare(a.dir, b.dir) })
	names := make([]map[string]bool, len(fresh))
	for i, h := range fresh {
		names[i] = h.testNames(env)
	}
	type match struct {
		from, to *goDir
		common   int
		alike    bool // the last element of the path is the same
	}
	var matches []match
	for _, b := range gone {
		tests := b.testNames(env)
		for i, h := range fresh {
			common := 0
			for name := range tests {
				if names[i][name] {
					common++
				}
			}
			if common > 0 && 5*common >= 4*len(tests) {
				matches = append(matches, match{b, h, common, path.Base(b.dir) == path.Base(h.dir)})
			}
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int {
		if a.common == b.common && a.alike != b.alike {
			if a.alike {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.common, a.common)
	})
	moved, taken := make(map[*goDir]*goDir), make(map[*goDir]bool)
	for _, m := range matches {
		if moved[m.from] == nil && !taken[m.to] {
			moved[m.from], taken[m.to] = m.to, true
		}
	}
	return moved
}

// testNames returns the names of the tests of a folder that go test runs.
func (d *goDir) testNames(env GoEnv) map[string]bool {
	p, _ := d.read(env)
	names := make(map[string]bool)
	for _, t := range p.Tests {
		names[t.Name] = true
	}
	return names
}
