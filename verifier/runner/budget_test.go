package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
)

// runRepo makes a run of the repository's HEAD and verifies its bundle. It skips the
// test where nothing can be isolated.
func runRepo(t *testing.T, ctx context.Context, g *gitRepo, progress func(Event)) verifier.Report {
	t.Helper()
	secret := bytes.Repeat([]byte{7}, 32)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, secret, 0o600); err != nil {
		t.Fatal(err)
	}
	done, err := Run(ctx, Options{
		Repo: g.dir, State: t.TempDir(), Out: filepath.Join(t.TempDir(), "b.tar.zst"), Progress: progress, Now: time.Now,
		Key: func() (*os.File, error) { return os.Open(key) }, Getenv: os.Getenv, Environ: os.Environ(),
	})
	var refused *sandbox.RefusedError
	if errors.As(err, &refused) {
		t.Skip("this host cannot isolate: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer done.Close()
	f, err := os.Open(done.Bundle)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		t.Fatal(err)
	}
	o := done.Expect
	o.Keys, o.Now = []verifier.KeyAnchor{{Secret: secret, Who: "the test's key"}}, time.Now()
	report, err := verifier.Verify(f, size, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// sleepers is a repository with so many entries, each of which sleeps on either side.
func sleepers(t *testing.T, evidence string, commands ...string) *gitRepo {
	g := newRepo(t)
	config := "evidence:\n" + evidence + "test:\n"
	for i, c := range commands {
		config += "  - name: e" + string(rune('1'+i)) + "\n    run: [sh, -c, \"" + c + "\"]\n    timeout: 60s\n"
	}
	g.write(".truegreen.yaml", config)
	g.write("a_test.py", "a = 1\nb = 1\n")
	g.commit("one")
	g.write("code.py", "a = 1\nb = 1\n")
	g.write("a_test.py", "a = 2\nb = 1\n")
	g.commit("two")
	return g
}

// TestBudget: the budget cuts what is worth the least first, and never the head; what
// it cuts is named, and the claim does without it.
func TestBudget(t *testing.T) {
	t.Parallel()
	g := sleepers(t, "  level: L2\n  budget: 2s\n", "sleep 4", "sleep 1", "true")
	report := runRepo(t, context.Background(), g, nil)
	f := report.Findings()
	if report.Verdict() != verifier.Verified || f.Claim.Level != verifier.LevelRan {
		t.Errorf("%v, L%d, %s", report.Reasons(), f.Claim.Level, report.Sentence())
	}
	var named []string
	for i := range f.Findings {
		if x := &f.Findings[i]; x.Code == verifier.FindNotMeasured {
			named = append(named, x.Test.Entry+" "+x.Detail)
		}
	}
	cut := 0
	for _, step := range report.Steps() {
		if step.Args == nil || step.Args.Tool != receipts.ToolTest {
			continue
		}
		state, wall := step.Result.State, time.Duration(step.Args.Sandbox.Wall)*time.Second
		if step.Args.Side == verifier.SideHead {
			if state != receipts.StateExited || wall != time.Minute {
				t.Errorf("the head of %s: %s, %v", step.Args.Name, state, wall)
			}
			continue
		}
		if state == receipts.StateExited {
			continue
		}
		cut++
		if state == receipts.StateTimeout && wall > 2*time.Second || state == receipts.StateNotRun && string(step.Result.Why) != verifier.SkipBudget {
			t.Errorf("%s on %s: %s after %v, %q", step.Args.Name, step.Args.Side, state, wall, step.Result.Why)
		}
		if want := step.Args.Name + " " + step.Args.Side + ": the budget was used up"; !slices.Contains(named, want) {
			t.Errorf("not named: %s; of %v", want, named)
		}
	}
	// The base of the first entry does not come to its end, and no hybrid run has time.
	if cut < 4 || cut != len(named) {
		t.Errorf("%d runs cut, %v named", cut, named)
	}
	if strings.Contains(report.Sentence(), "fails on base") {
		t.Error(report.Sentence())
	}
}

// TestBudgetEnough: the same with time for all.
func TestBudgetEnough(t *testing.T) {
	t.Parallel()
	report := runRepo(t, context.Background(), sleepers(t, "  level: L1\n  budget: 1m\n", "true", "true"), nil)
	if f := report.Findings(); report.Verdict() != verifier.Verified || f.Claim.Level != verifier.LevelNoRegression {
		t.Errorf("%v, L%d, %s", report.Reasons(), f.Claim.Level, report.Sentence())
	}
}

// TestInterruptedBatch: a run that is interrupted while its calls overlap leaves a
// sound bundle, with the calls that had ended and without those that had not.
func TestInterruptedBatch(t *testing.T) {
	t.Parallel()
	for _, after := range []int32{1, 2} {
		g := sleepers(t, "  level: L1\n", "true", "sleep 30", "true")
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		var ended atomic.Int32
		report := runRepo(t, ctx, g, func(e Event) {
			if e.Step == receipts.ToolTest && e.Done && ended.Add(1) == after {
				cancel(errors.New("received a signal"))
			}
		})
		if r := report.Reasons(); !report.Sound() || report.Verdict() != verifier.Unproven || !report.Has(verifier.Interrupted) {
			t.Errorf("after %d: %v", after, r)
		}
		if n := len(report.Findings().Runs); n > 0 {
			t.Errorf("after %d: findings of %d runs, of a run that came to no end", after, n)
		}
	}
}

// TestBatchDoesNotStart: where a call of a batch cannot be started, those beside it
// come to their end, and the run failed. It is not parallel: it looks for its trees
// by this process's id.
func TestBatchDoesNotStart(t *testing.T) {
	g := sleepers(t, "  level: L2\n", "sleep 1")
	var broken atomic.Bool
	report := runRepo(t, context.Background(), g, func(e Event) {
		if e.Step != receipts.ToolTest || !e.Done || broken.Load() {
			return
		}
		// The mixed tree cannot be written where there is something else.
		dirs, _ := filepath.Glob(filepath.Join(treeMemory, fmt.Sprintf("%s%d-*", treesPrefix, os.Getpid())))
		for _, dir := range dirs {
			if os.WriteFile(filepath.Join(dir, verifier.SideHybrid), []byte("x"), 0o600) == nil {
				broken.Store(true)
			}
		}
	})
	if !broken.Load() {
		t.Skip("the trees are not in memory")
	}
	if r := report.Reasons(); !report.Sound() || !report.Has(verifier.RunFailed) || report.Verdict() != verifier.Unproven {
		t.Errorf("%v", r)
	}
}

// TestOddTrees: links, gitlinks, files that are binary and modes that change are part
// of a patch like any other, whatever there is to read of them.
func TestOddTrees(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.write(".truegreen.yaml", "test:\n  - name: e1\n    run: [\"true\"]\n")
	g.write("script.sh", "echo\n")
	g.write("binary", "a\x00b\n")
	g.write("becomes-link", "x\ny\n")
	g.write("same_test.go", "package x\n")
	g.commit("one")
	g.write("binary", "a\x00c\n")
	g.write("large", strings.Repeat("0123456\n", 1<<17+1))
	for _, name := range []string{"becomes-link", "link_test.go"} {
		os.Remove(filepath.Join(g.dir, name))
		if err := os.Symlink("same_test.go", filepath.Join(g.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	g.git("add", "-A")
	g.git("update-index", "--chmod=+x", "script.sh")
	g.git("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+",module")
	g.git("commit", "-q", "-m", "two")
	report := runRepo(t, context.Background(), g, nil)
	if report.Verdict() != verifier.Verified {
		t.Errorf("%v", report.Reasons())
	}
}
