package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// The index of the bundles in the state folder, in its folder cache/trees, says which
// tree each is about, so that among hundreds those for one tree are found without opening
// the others. An entry is an empty file
//
//	DIGEST-NAME
//
// where NAME is that of the bundle, and the digest is of repository and tree. It is a cache
// and nothing more: whatever it says, a bundle is verified to be what is asked for, and one
// that no entry names is opened to see. The tree is in it by Git's id, because asking by it
// costs nothing; that the trees are the same in SHA-256 is compared afterwards, for the few
// that are found.
const (
	treesDir  = "trees"
	noTree    = "none" // for the digest, of a bundle that is about nothing
	maxBundle = 1 << 16
)

func treeKey(repository, tree string) string {
	return receipts.Sum(fmt.Appendf(nil, "truegreen/v1 tree\x00%s\x00%s", repository, tree)).String()
}

// IndexBundle enters a bundle in the index, if it is one of the state folder's.
func IndexBundle(state, path string, r verifier.Report) error {
	if filepath.Dir(path) != filepath.Join(state, bundlesDir) {
		return nil
	}
	key := noTree
	if p := r.Patch(); r.Sound() {
		key = treeKey(string(p.Repository), p.Tree.Git)
	}
	dir := filepath.Join(state, cacheDir, treesDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, key+"-"+filepath.Base(path)), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// bundlesOf returns the bundles that the index has for a key, and those that it does not
// have at all, the newest first: their names begin with the time.
func bundlesOf(state, key string) (found, unknown []string, err error) {
	names, err := namesIn(filepath.Join(state, bundlesDir))
	if err != nil {
		return nil, nil, err
	}
	index := filepath.Join(state, cacheDir, treesDir)
	entries, err := namesIn(index)
	if err != nil {
		return nil, nil, err
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = strings.HasSuffix(name, bundleExt)
	}
	known := make(map[string]bool, len(entries))
	for _, e := range entries {
		k, name, _ := strings.Cut(e, "-")
		if !there[name] {
			os.Remove(filepath.Join(index, e)) // the bundle is gone
			continue
		}
		known[name] = true
		if k == key {
			found = append(found, name)
		}
	}
	for name, isBundle := range there {
		if isBundle && !known[name] {
			unknown = append(unknown, name)
		}
	}
	for _, list := range [][]string{found, unknown} {
		slices.SortFunc(list, func(a, b string) int { return strings.Compare(b, a) })
		for i := range list {
			list[i] = filepath.Join(state, bundlesDir, list[i])
		}
	}
	return found, unknown, nil
}

// namesIn returns the names in a folder, none where there is no folder.
func namesIn(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxBundle)
	if err == io.EOF {
		err = nil
	}
	return names, err
}

// Evidence is what the bundles of the state folder say about a tip.
type Evidence struct {
	Bundle string // the newest that counts; "" where none does
	Report verifier.Report
	// SameBase: the base has the same tree too. Where it has not, what was compared with a
	// base says nothing here, and only that the tests ran is left.
	SameBase bool
	Passed   []string // why newer ones for the tree do not count, one line each
}

// maxPassed is how many bundles for one tree are looked at.
const maxPassed = 16

// Evidence looks for a run that tested the tree of s, in the same repository and by the
// configuration of the base of s, no matter for which commit. The newest one counts that
// came to verified or failed: what was interrupted, or is trusted by nobody, says neither.
// The options say who is trusted; sidecars reads what is beside a bundle.
//
// Where the receipt key made the seal, its evidence document is believed and not made
// again from what the tests printed: it was made, and compared, by this program, and the
// process of the tests never was in reach of the key. Whoever has the key needs no hook to
// be lied to. Everything else is verified in full.
func (p *Push) Evidence(ctx context.Context, s *Selection, state string, o verifier.Options, sidecars func(bundle string) ([]verifier.Sidecar, error)) (Evidence, error) {
	var err error
	if o.Config, err = s.Config.Document(); err != nil {
		return Evidence{}, err
	}
	o.Repository, o.Tree = p.repo.Name(), s.Head.Tree
	o.PolicySource = "compared with base " + shortBase(s.Base)
	// Where there is no base, the commands are the head's in any case.
	o.AllowCommand = s.Base.ID == ""
	key := treeKey(o.Repository, o.Tree)
	found, unknown, err := bundlesOf(state, key)
	if err != nil {
		return Evidence{}, err
	}
	e, err := p.newest(ctx, s, found, o, sidecars)
	if err != nil || e.Bundle != "" || len(unknown) == 0 {
		return e, err
	}
	for _, path := range unknown {
		if ctx.Err() != nil {
			return Evidence{}, ctx.Err()
		}
		r, err := verifyFile(path, verifier.Options{Quick: true, Now: o.Now})
		if err == nil {
			err = IndexBundle(state, path, r)
		}
		if err != nil {
			e.Passed = append(e.Passed, err.Error())
		}
	}
	again, _, err := bundlesOf(state, key)
	if err != nil || len(again) == len(found) {
		return e, err
	}
	return p.newest(ctx, s, again, o, sidecars)
}

func shortBase(b Base) string {
	if b.ID == "" {
		return "the empty tree"
	}
	return short(b.ID)
}

// newest returns the first of the bundles that counts.
func (p *Push) newest(ctx context.Context, s *Selection, bundles []string, o verifier.Options, sidecars func(string) ([]verifier.Sidecar, error)) (e Evidence, err error) {
	for i, path := range bundles {
		if i == maxPassed {
			e.Passed = append(e.Passed, fmt.Sprintf("%d more were not looked at", len(bundles)-i))
			break
		}
		if ctx.Err() != nil {
			return Evidence{}, ctx.Err()
		}
		o.Sidecars, err = sidecars(path)
		var r verifier.Report
		if err == nil {
			r, err = trusted(path, o)
		}
		if err != nil {
			e.Passed = append(e.Passed, filepath.Base(path)+": "+err.Error())
			continue
		}
		if why := passedOver(r, s); why != "" {
			e.Passed = append(e.Passed, filepath.Base(path)+": "+why)
			continue
		}
		same, err := p.sameTrees(ctx, s, r)
		if errors.Is(err, errOtherTree) {
			e.Passed = append(e.Passed, filepath.Base(path)+": "+err.Error())
			continue
		}
		e.Bundle, e.Report, e.SameBase = path, r, same
		return e, err
	}
	return e, nil
}

// trusted verifies a bundle, in full unless the receipt key made it.
func trusted(path string, o verifier.Options) (verifier.Report, error) {
	o.Quick = true
	r, err := verifyFile(path, o)
	if err != nil || r.MACsChecked() || r.Verdict() == verifier.Broken {
		return r, err
	}
	o.Quick = false
	return verifyFile(path, o)
}

// passedOver says why a report does not count, "" if it does.
func passedOver(r verifier.Report, s *Selection) string {
	switch v := r.Verdict(); {
	case v != verifier.Verified && v != verifier.Failed:
		return string(v) + ": " + r.Reasons()[0].String()
	case r.Plan().Source == verifier.SourceCommand:
		return "its command was given by hand"
	case s.Base.ID != "" && r.Plan().Source == verifier.SourceHead:
		return "its commands are those of the tree itself"
	}
	return ""
}

var errOtherTree = errors.New("its tree has the same id and other contents")

// sameTrees compares the trees of a report with those of s by all that is in them, and
// reports whether the bases are the same. The id of a tree is no more than the first look:
// in most repositories it is made with SHA-1.
func (p *Push) sameTrees(ctx context.Context, s *Selection, r verifier.Report) (sameBase bool, err error) {
	same := func(tree string, want verifier.TreeID) (bool, error) {
		if tree != want.Git {
			return false, nil
		}
		l, err := p.repo.List(ctx, tree, io.Discard)
		return l.SHA256 == want.SHA256, err
	}
	patch := r.Patch()
	if ok, err := same(s.Head.Tree, patch.Tree); err != nil || !ok {
		return false, errors.Join(err, map[bool]error{true: errOtherTree}[err == nil])
	}
	return same(s.Base.Tree, patch.BaseTree)
}

func verifyFile(path string, o verifier.Options) (verifier.Report, error) {
	info, err := os.Stat(path)
	if err != nil {
		return verifier.Report{}, err
	}
	if !info.Mode().IsRegular() {
		return verifier.Report{}, fmt.Errorf("%s: is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return verifier.Report{}, err
	}
	defer f.Close()
	return verifier.Verify(f, info.Size(), o)
}
