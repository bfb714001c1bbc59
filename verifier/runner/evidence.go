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
	"time"

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

// keyOf returns the key of what a report is about.
func keyOf(r verifier.Report) string {
	if !r.Sound() {
		return noTree
	}
	p := r.Patch()
	return treeKey(string(p.Repository), p.Tree.Git)
}

// IndexBundle enters a bundle in the index, if it is one of the state folder's.
func IndexBundle(state, path string, r verifier.Report) error {
	if filepath.Dir(path) != filepath.Join(state, bundlesDir) {
		return nil
	}
	dir := filepath.Join(state, cacheDir, treesDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, keyOf(r)+"-"+filepath.Base(path)), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// A candidate is a bundle that may be about a tree.
type candidate struct {
	path  string
	known bool // the index says that it is; else the index does not have it
}

// candidates returns the bundles that the index has for a key, and those that it does not
// have at all, the newest first: their names begin with the time.
func candidates(state, key string) ([]candidate, error) {
	names, err := namesIn(filepath.Join(state, bundlesDir))
	if err != nil {
		return nil, err
	}
	index := filepath.Join(state, cacheDir, treesDir)
	entries, err := namesIn(index)
	if err != nil {
		return nil, err
	}
	keys := make(map[string]string, len(names)) // of bundles, "" where there is no entry
	for _, name := range names {
		if strings.HasSuffix(name, bundleExt) {
			keys[name] = ""
		}
	}
	for _, e := range entries {
		k, name, _ := strings.Cut(e, "-")
		if had, ok := keys[name]; !ok {
			os.Remove(filepath.Join(index, e)) // the bundle is gone
		} else if had != key {
			keys[name] = k
		}
	}
	var list []candidate
	for name, k := range keys {
		if k == key || k == "" {
			list = append(list, candidate{filepath.Join(state, bundlesDir, name), k != ""})
		}
	}
	slices.SortFunc(list, func(a, b candidate) int { return strings.Compare(b.path, a.path) })
	return list, nil
}

// IndexBundles enters the bundles that the index does not have.
func IndexBundles(ctx context.Context, state string, now time.Time) error {
	list, err := candidates(state, noTree)
	if err != nil {
		return err
	}
	for _, c := range list {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !c.known {
			if _, err := c.enter(state, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// enter opens a bundle that the index does not have, enters it, and returns its key.
func (c candidate) enter(state string, now time.Time) (key string, err error) {
	r, err := verifyFile(c.path, verifier.Options{Quick: true, Now: now})
	if errors.Is(err, errNoFile) {
		err = nil // and r is about nothing
	}
	if err != nil {
		return "", err
	}
	return keyOf(r), IndexBundle(state, c.path, r)
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
	list, err := candidates(state, key)
	if err != nil {
		return Evidence{}, err
	}
	var e Evidence
	looked := 0
	for _, c := range list {
		if ctx.Err() != nil {
			return Evidence{}, ctx.Err()
		}
		if !c.known {
			if k, err := c.enter(state, o.Now); err != nil || k != key {
				continue // what cannot be read is no evidence
			}
		}
		if looked++; looked > maxPassed {
			e.Passed = append(e.Passed, "older ones were not looked at")
			break
		}
		err := p.weigh(ctx, s, c.path, o, sidecars, &e)
		if err == nil || ctx.Err() != nil {
			return e, ctx.Err()
		}
		e.Passed = append(e.Passed, filepath.Base(c.path)+": "+err.Error())
	}
	return e, nil
}

func shortBase(b Base) string {
	if b.ID == "" {
		return "the empty tree"
	}
	return short(b.ID)
}

// weigh makes a bundle the evidence, or says why it does not count.
func (p *Push) weigh(ctx context.Context, s *Selection, path string, o verifier.Options, sidecars func(string) ([]verifier.Sidecar, error), e *Evidence) error {
	var err error
	if o.Sidecars, err = sidecars(path); err != nil {
		return err
	}
	r, err := trusted(path, o)
	if err != nil {
		return err
	}
	if err := counts(r, s); err != nil {
		return err
	}
	same, err := p.sameTrees(ctx, s, r)
	if err != nil {
		return err
	}
	e.Bundle, e.Report, e.SameBase = path, r, same
	return nil
}

// trusted verifies a bundle, in full unless the receipt key made it.
func trusted(path string, o verifier.Options) (verifier.Report, error) {
	o.Quick = true
	r, err := verifyFile(path, o)
	if err != nil || r.MACsChecked() || !decided(r) {
		return r, err
	}
	o.Quick = false
	return verifyFile(path, o)
}

// counts says why a report does not count, nil if it does.
func counts(r verifier.Report, s *Selection) error {
	switch source := r.Plan().Source; {
	case !decided(r):
		return fmt.Errorf("%s: %s", r.Verdict(), r.Reasons()[0])
	case source == verifier.SourceCommand:
		return errors.New("its command was given by hand")
	case s.Base.ID != "" && source == verifier.SourceHead:
		return errors.New("its commands are those of the tree itself")
	}
	return nil
}

func decided(r verifier.Report) bool {
	v := r.Verdict()
	return v == verifier.Verified || v == verifier.Failed
}

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
	ok, err := same(s.Head.Tree, patch.Tree)
	if err == nil && !ok {
		err = errors.New("its tree has the same id and other contents")
	}
	if err != nil {
		return false, err
	}
	return same(s.Base.Tree, patch.BaseTree)
}

var errNoFile = errors.New("is not a file")

func verifyFile(path string, o verifier.Options) (verifier.Report, error) {
	info, err := os.Stat(path)
	if err != nil {
		return verifier.Report{}, err
	}
	if !info.Mode().IsRegular() {
		return verifier.Report{}, errNoFile
	}
	f, err := os.Open(path)
	if err != nil {
		return verifier.Report{}, err
	}
	defer f.Close()
	return verifier.Verify(f, info.Size(), o)
}
