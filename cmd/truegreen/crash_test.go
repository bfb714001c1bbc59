package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// TestKilledAnywhere kills a run at many points. Whatever it leaves is one of:
// nothing; the whole bundle; or a log that the next run seals as interrupted. It
// is never a bundle that is broken, nor one that is verified and not whole.
func TestKilledAnywhere(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux runs tests")
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "truegreen")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	d := demoRepository{ctx: t.Context(), dir: filepath.Join(dir, "repository")}
	d.git("init", "--quiet", "--initial-branch=main", d.dir)
	d.commit("one", map[string]string{"a": "1\n"})
	d.commit("two", map[string]string{"a": "2\n"})
	if d.err != nil {
		t.Skip(d.err)
	}
	state := filepath.Join(dir, "state")
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(bin, args...)
		cmd.Env = append(os.Environ(), "TRUEGREEN_STATE="+state)
		return cmd
	}
	run := func(out string) *exec.Cmd {
		return command("run", "--repo", d.dir, "--out", out, "--", "sh", "-c", "sleep 0.05")
	}
	verdict := func(path string) string {
		text, err := command("verify", "--json", path).Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		var report struct {
			Verdict string
			Reasons []struct{ Code string }
		}
		if err := json.Unmarshal(text, &report); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if report.Verdict == "unproven" && len(report.Reasons) > 0 {
			return report.Reasons[0].Code
		}
		return report.Verdict
	}
	start := time.Now()
	if out, err := run(filepath.Join(dir, "whole.tar.zst")).CombinedOutput(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 2 {
			t.Skipf("this host cannot isolate: %s", out)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	whole := time.Since(start)
	const points = 20
	found := map[string]int{}
	var killed []int
	for i := range points {
		out := filepath.Join(dir, "killed.tar.zst")
		cmd := run(out)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(whole * time.Duration(i) / points)
		cmd.Process.Kill()
		cmd.Wait()
		killed = append(killed, cmd.Process.Pid)
		if _, err := os.Stat(out); err == nil {
			if got := verdict(out); got != "verified" {
				t.Errorf("killed at %d/%d: the bundle is %s", i, points, got)
			}
			found["whole"]++
			os.Remove(out)
		}
	}
	// What the killed process was about to execute has its lock until then, and is
	// left to the run after the next.
	for range 2 {
		if out, err := run(filepath.Join(dir, "last.tar.zst")).CombinedOutput(); err != nil {
			t.Fatalf("the run after: %v\n%s", err, out)
		}
		os.Remove(filepath.Join(dir, "last.tar.zst"))
	}
	resealed, err := filepath.Glob(filepath.Join(state, "bundles", "*.tar.zst"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range resealed {
		got := verdict(path)
		if got != "interrupted" && got != "verified" { // all was recorded, and only the bundle was missing
			t.Errorf("%s: %s", filepath.Base(path), got)
		}
		found[got]++
	}
	left, err := os.ReadDir(filepath.Join(state, "runs"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for _, pid := range killed {
		if left, err := filepath.Glob(fmt.Sprintf("/dev/shm/truegreen-trees-%d-*", pid)); err != nil || len(left) > 0 {
			t.Errorf("left in memory: %v, %v", left, err)
		}
	}
	t.Logf("%d points over %s: %v", points, whole, found)
	if found["interrupted"] == 0 {
		t.Error("no run was interrupted after its log began: the points are badly chosen")
	}
}
