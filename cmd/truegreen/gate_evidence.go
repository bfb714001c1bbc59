package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

const waiverSuffix = ".waiver"

// evidenceFiles returns the bundles and waivers that the paths name: files as they are,
// of folders those with the names of either.
func evidenceFiles(paths []string) (bundles, waivers []string, err error) {
	seen := map[string]bool{}
	take := func(path string) {
		path = filepath.Clean(path)
		if seen[path] {
			return
		}
		seen[path] = true
		if strings.HasSuffix(path, waiverSuffix) {
			waivers = append(waivers, path)
		} else {
			bundles = append(bundles, path)
		}
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, nil, err
		}
		if !info.IsDir() {
			take(path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, nil, err
		}
		for _, e := range entries {
			if e.Type().IsRegular() && (strings.HasSuffix(e.Name(), bundleSuffix) || strings.HasSuffix(e.Name(), waiverSuffix)) {
				take(filepath.Join(path, e.Name()))
			}
		}
	}
	return bundles, waivers, nil
}

// readEvidence verifies the bundles and reads the waivers.
func (a *app) readEvidence(ctx context.Context, r *release, paths []string) error {
	bundles, waivers, err := evidenceFiles(paths)
	if err != nil {
		return err
	}
	for _, path := range waivers {
		text, err := readSmall(path)
		if err != nil {
			return err
		}
		w, err := verifier.ParseWaiver(text)
		if err != nil { // then nothing is waived by it
			fmt.Fprintf(a.err, "truegreen: %s: %s\n", oneLine(path), oneLine(err.Error()))
			continue
		}
		r.gate.Waivers = append(r.gate.Waivers, verifier.GateWaiver{Name: path, Waiver: w})
		r.inputs[path] = receipts.Sum(text)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	var (
		group sync.WaitGroup
		free  = make(chan struct{}, min(runtime.GOMAXPROCS(0), 4))
		found = make([]verifier.GateBundle, len(bundles))
		errs  = make([]error, len(bundles))
	)
	for i, path := range bundles {
		free <- struct{}{}
		group.Go(func() {
			defer func() { <-free }()
			found[i], errs[i] = r.verify(ctx, path)
		})
	}
	group.Wait()
	r.gate.Bundles = found
	return errors.Join(errs...)
}

// errOtherTree ends the verification of a bundle that no commit needs.
var errOtherTree = errors.New("of another tree")

// verify verifies one bundle by what the protected branch says at its base.
func (r *release) verify(ctx context.Context, path string) (verifier.GateBundle, error) {
	return r.verifyAbout(path, func(p verifier.Patch, o *verifier.Options) error {
		if !r.needed[p.Tree.Git] {
			return errOtherTree
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

// verifyAbout verifies a bundle, with the sidecars beside it.
func (r *release) verifyAbout(path string, about func(verifier.Patch, *verifier.Options) error) (verifier.GateBundle, error) {
	b, o := verifier.GateBundle{Name: path}, r.options
	o.MinLevel, o.MaxAge = r.gate.Policy.Isolation, r.gate.Policy.MaxAge
	begin := strings.TrimSuffix(path, bundleSuffix)
	for _, suffix := range []string{".oidc", ".sig"} {
		text, err := readSmall(begin + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return b, err
		}
		o.Sidecars = append(o.Sidecars, verifier.Sidecar{Name: filepath.Base(begin + suffix), Bytes: text})
	}
	o.About = func(p verifier.Patch, o *verifier.Options) error {
		b.Tree = p.Tree.Git
		return about(p, o)
	}
	file, size, err := openBundle(path)
	if err != nil {
		return b, err
	}
	defer file.Close()
	b.Report, err = verifier.Verify(file, size, o)
	if errors.Is(err, errOtherTree) {
		b.Report, b.Skipped, err = verifier.Report{}, true, nil
	}
	if err != nil {
		return b, fmt.Errorf("%s: %w", path, err)
	}
	if !b.Skipped && r.stated {
		var digest receipts.Digest
		sum := sha256.New()
		if _, err := io.Copy(sum, io.NewSectionReader(file, 0, size)); err != nil {
			return b, err
		}
		copy(digest[:], sum.Sum(nil))
		r.mu.Lock()
		r.inputs[path] = digest
		r.mu.Unlock()
	}
	return b, nil
}
