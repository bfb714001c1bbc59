package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/store"
	"github.com/truegreen-dev/truegreen/verifier"
	"github.com/truegreen-dev/truegreen/verifier/runner"
)

const waiverSuffix = ".waiver"

// A source is a candidate, with the place that has it.
type source struct {
	place store.Place
	store store.Store
	store.Candidate
}

// open opens the candidate. Where nothing is wrong with its place, but with it alone, the
// code says what; on this machine a file that cannot be read is the user's mistake.
func (s *source) open(ctx context.Context) (*store.Evidence, verifier.Code, error) {
	e, err := s.store.Open(ctx, s.Candidate)
	if err == nil {
		return e, "", nil
	}
	if code := problemCode(err); code != "" && s.place.Kind != store.Path {
		return nil, code, err
	}
	return nil, "", placeError(s.place, err)
}

// sources returns what is in places, each once.
func (a *app) sources(ctx context.Context, names []string, temp string) (list []source, err error) {
	seen := map[string]bool{}
	for _, name := range names {
		place, err := store.Parse(name)
		if err != nil {
			return nil, usage("%v", err)
		}
		s, err := store.Open(place, a.storeOptions(temp))
		if err != nil {
			return nil, usage("%v", err)
		}
		candidates, err := s.List(ctx)
		if err != nil {
			return nil, placeError(place, err)
		}
		for _, c := range candidates {
			if !seen[c.Name] {
				seen[c.Name] = true
				list = append(list, source{place, s, c})
			}
		}
	}
	return list, nil
}

// readEvidence verifies the bundles and reads the waivers that are in places.
func (a *app) readEvidence(ctx context.Context, r *release, names []string) error {
	temp, err := os.MkdirTemp("", "truegreen-gate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	sources, err := a.sources(ctx, names, temp)
	if err != nil {
		return err
	}
	var bundles []source
	for _, s := range sources {
		if !s.Waiver {
			bundles = append(bundles, s)
		} else if err := a.readWaiver(ctx, r, s); err != nil {
			return err
		}
	}
	return r.verifyAll(ctx, bundles)
}

// verifyAll verifies bundles, a few at a time: of what is downloaded, no more than these
// lie on the disk.
func (r *release) verifyAll(ctx context.Context, bundles []source) error {
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	var (
		group sync.WaitGroup
		free  = make(chan struct{}, min(runtime.GOMAXPROCS(0), 4))
		found = make([]verifier.GateBundle, len(bundles))
		errs  = make([]error, len(bundles))
	)
	for i, s := range bundles {
		free <- struct{}{}
		group.Go(func() {
			defer func() { <-free }()
			found[i], errs[i] = r.verify(ctx, s)
		})
	}
	group.Wait()
	r.gate.Bundles = append(r.gate.Bundles, found...)
	return errors.Join(errs...)
}

// readWaiver reads a waiver. By one that is none, nothing is waived.
func (a *app) readWaiver(ctx context.Context, r *release, s source) error {
	e, code, err := s.open(ctx)
	if err != nil && code == "" {
		return err
	}
	var text []byte
	if err == nil {
		defer e.Close()
		text, err = io.ReadAll(io.NewSectionReader(e, 0, min(e.Size, store.MaxWaiver)))
	}
	var w verifier.Waiver
	if err == nil {
		w, err = verifier.ParseWaiver(text)
	}
	if err != nil {
		fmt.Fprintf(a.err, "truegreen: %s: %s\n", oneLine(s.Name), oneLine(err.Error()))
		return nil
	}
	r.gate.Waivers = append(r.gate.Waivers, verifier.GateWaiver{Name: s.Name, Waiver: w})
	r.inputs[s.Name] = receipts.Sum(text)
	return nil
}

// treeSums are the hashes of trees in Git's SHA-256 object format. A tree that has the
// SHA-1 of another one is another one.
type treeSums struct {
	mu    sync.Mutex
	known map[string]string
}

// of returns the hash of a tree of the repository, whose files it reads once.
func (t *treeSums) of(ctx context.Context, repo *runner.Repository, tree string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if sum, ok := t.known[tree]; ok {
		return sum, nil
	}
	list, err := repo.List(ctx, tree, io.Discard)
	if err != nil {
		return "", err
	}
	if t.known == nil {
		t.known = map[string]string{}
	}
	t.known[tree] = list.SHA256.String()
	return t.known[tree], nil
}

// errOtherTree ends the verification of a bundle that no commit needs.
var errOtherTree = errors.New("of another tree")

// verify verifies one bundle by what the protected branch says at its base. What is not
// to be had as it should be is no evidence, and is shown as what it is.
func (r *release) verify(ctx context.Context, s source) (verifier.GateBundle, error) {
	e, code, err := s.open(ctx)
	switch {
	case code != "":
		return verifier.GateBundle{Name: s.Name, Report: verifier.NoBundle(code, strings.TrimPrefix(err.Error(), s.Name+": "))}, nil
	case err != nil:
		return verifier.GateBundle{Name: s.Name}, err
	}
	defer e.Close()
	return r.verifyAbout(s.Name, e, func(p verifier.Patch, o *verifier.Options) error {
		if !r.needed[p.Tree.Git] {
			return errOtherTree
		}
		var err error
		if o.Tree, err = r.sums.of(ctx, r.repo, p.Tree.Git); err != nil {
			return err
		}
		c, ok, err := r.configs.at(ctx, p.Base)
		switch {
		case err != nil:
			return err
		case !ok: // the gate refuses a base that is not protected
			o.PolicySource = "as sealed: the base is not on the protected branch"
		case c.bad != nil:
			o.Config, o.PolicySource = []byte{}, "which cannot be read: "+c.bad.Error()
		default:
			o.Config, o.Detected, o.PolicySource = c.doc, c.detected, "compared with base "+short(p.Base)
		}
		return nil
	})
}

// verifyAbout verifies a bundle, with its sidecars.
func (r *release) verifyAbout(name string, e *store.Evidence, about func(verifier.Patch, *verifier.Options) error) (verifier.GateBundle, error) {
	b, o := verifier.GateBundle{Name: name}, r.options
	o.MinLevel, o.MaxAge = r.gate.Policy.Isolation, r.gate.Policy.MaxAge
	for _, s := range e.Sidecars {
		o.Sidecars = append(o.Sidecars, verifier.Sidecar(s))
	}
	o.About = func(p verifier.Patch, o *verifier.Options) error {
		b.Tree = p.Tree.Git
		return about(p, o)
	}
	var err error
	b.Report, err = verifier.Verify(e, e.Size, o)
	if errors.Is(err, errOtherTree) {
		b.Report, b.Skipped, err = verifier.Report{}, true, nil
	}
	if err != nil {
		return b, fmt.Errorf("%s: %w", name, err)
	}
	if !b.Skipped && r.stated {
		var digest receipts.Digest
		sum := sha256.New()
		if _, err := io.Copy(sum, io.NewSectionReader(e, 0, e.Size)); err != nil {
			return b, err
		}
		copy(digest[:], sum.Sum(nil))
		r.mu.Lock()
		r.inputs[name] = digest
		r.mu.Unlock()
	}
	return b, nil
}
