package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/store"
	"github.com/truegreen-dev/truegreen/verifier"
)

// memory is a store of one bundle under many names.
type memory []byte

func (m memory) List(context.Context) ([]store.Candidate, error) { return nil, nil }

func (m memory) Open(context.Context, store.Candidate) (*store.Evidence, error) {
	return &store.Evidence{ReaderAt: bytes.NewReader(m), Size: int64(len(m))}, nil
}

// TestGateThousand: to verify a thousand bundles takes no longer than to hash them twice,
// where they are not so small that what a bundle takes besides is all there is.
func TestGateThousand(t *testing.T) {
	if testing.Short() || raceEnabled || os.Getenv("TRUEGREEN_FULL") == "" {
		t.Skip("measures, and takes long: TRUEGREEN_FULL=1 includes it, not with -short or -race")
	}
	const n = 1000
	noise := make([]byte, 16<<20) // which does not compress
	rand.NewChaCha8([32]byte{}).Read(noise)
	run := fixture.New()
	run.Output = func(p verifier.PlannedRun) fixture.Output {
		o := fixture.Green(p)
		if p.Side == verifier.SideHead {
			o.Stderr = string(noise)
		}
		return o
	}
	file, err := run.Bundle(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := run.Config.Document()
	if err != nil {
		t.Fatal(err)
	}
	report, err := verifier.Verify(bytes.NewReader(file), int64(len(file)), run.Options())
	if err != nil || report.Verdict() != verifier.Verified {
		t.Fatal(report.Reasons(), err)
	}
	p := report.Patch()
	r := &release{
		needed: map[string]bool{p.Tree.Git: true}, sums: treeSums{known: map[string]string{p.Tree.Git: p.Tree.SHA256.String()}}, options: verifier.Options{Repository: run.Repository, Keys: run.Options().Keys, Now: run.Options().Now},
		configs: configs{trees: map[string]string{p.Base: "tree"}, known: map[string]config{"tree": {doc: doc}}},
	}
	bundles := make([]source, n)
	for i := range bundles {
		bundles[i] = source{store: memory(file), Candidate: store.Candidate{Name: fmt.Sprint(i)}}
	}
	begin := processorTime(t)
	if err := r.verifyAll(t.Context(), bundles); err != nil {
		t.Fatal(err)
	}
	took := processorTime(t) - begin
	for _, b := range r.gate.Bundles {
		if b.Skipped || b.Report.Verdict() != verifier.Verified {
			t.Fatalf("%s: %v", b.Name, b.Report.Reasons())
		}
	}
	if len(r.gate.Bundles) != n {
		t.Fatalf("%d bundles", len(r.gate.Bundles))
	}
	begin = processorTime(t)
	for range n {
		sha256.Sum256(file)
	}
	once := processorTime(t) - begin
	t.Logf("%d bundles of %d bytes: verified in %s, hashed in %s", n, len(file), took, once)
	if took > 2*once {
		t.Errorf("%d bundles are verified in %s, and hashed in %s", n, took, once)
	}
}

// processorTime is what this process has used of the processors: the time on a clock is
// also that of whatever else the machine does.
func processorTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestGateTreeSum: a bundle counts for a commit only if its tree is the commit's by
// SHA-256, and not by the id alone, which is SHA-1 in most repositories.
func TestGateTreeSum(t *testing.T) {
	t.Parallel()
	run := fixture.New()
	file, err := run.Bundle(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	report, err := verifier.Verify(bytes.NewReader(file), int64(len(file)), run.Options())
	if err != nil {
		t.Fatal(err)
	}
	p := report.Patch()
	doc, err := run.Config.Document()
	if err != nil {
		t.Fatal(err)
	}
	for sum, want := range map[string]bool{p.Tree.SHA256.String(): false, p.BaseTree.SHA256.String(): true} {
		r := &release{
			needed: map[string]bool{p.Tree.Git: true}, sums: treeSums{known: map[string]string{p.Tree.Git: sum}}, options: run.Options(),
			configs: configs{trees: map[string]string{p.Base: "tree"}, known: map[string]config{"tree": {doc: doc}}},
		}
		got, err := r.verify(t.Context(), source{store: memory(file)})
		if err != nil || got.Report.Has(verifier.WrongPatch) != want {
			t.Errorf("tree %s: %v, %v", sum, got.Report.Reasons(), err)
		}
	}
}
