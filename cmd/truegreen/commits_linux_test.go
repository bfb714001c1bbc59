package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A fix is a commit of somebody else's, and what is known of it.
type fix struct {
	repository string // owner/name
	id         string
	proves     []string // "kind test", sorted
	base, head counts   // zero: not compared
	both       int      // pass on both; zero: not compared
	removed    []string // tests, "renamed to" as well
	regressed  int
	verdict    string
	findings   []string // "code detail" that must be there
	clean      bool     // none may be there that says something is wrong
	asRoot     int      // tests that fail for root, as whom the list was made, and pass in a sandbox
}

type counts struct{ Pass, Fail, Skip int }

// fixes are those that the list of the vectors does not have: their tests that
// prove the fix, and what was skipped, deleted or never stable.
var fixes = []fix{
	{repository: "caddyserver/certmagic", id: "cdc4eb24e7ec1d14fe3a8f71f6069212dae9c265", verdict: "failed", // nine tests ask for DNS
		proves: []string{"assertion TestGetACMEChallenge_IPv6Brackets", "assertion TestHostOnly", "assertion TestMatchWildcard"}, both: 54, clean: true},
	{repository: "expr-lang/expr", id: "d3805b027f16501b4326bd4400040243d0879951", verdict: "verified",
		proves: []string{"assertion TestBuiltin_get_runtime_args_check"}, clean: true},
	{repository: "pelletier/go-toml", id: "bb026cae89ad5bdd861d6ed8134a2e1b86cd3dc0", verdict: "verified",
		proves: []string{"panic TestUnmarshal_Floats", "panic TestUnmarshal_Floats/float_zero_without_decimals"}, both: 1967, clean: true},
	{repository: "prometheus/common", id: "a1600af967b7eaa77360339b402b447855c24915", verdict: "verified",
		proves: []string{"panic TestTextParseError"}, both: 442, clean: true}, // 5 of them in a module of its own
	{repository: "stretchr/testify", id: "fdc68949798a447974dabd56ab074c58825c6dd6", verdict: "verified",
		proves: []string{"assertion TestSuiteWithSkipInSetupAndStats", "assertion TestSuiteWithSkipInSetupAndStats/skipSuite"}, clean: true},

	// Tests that were skipped or deleted.
	{repository: "go-chi/chi", id: "25eb15cdd4f644896eac2ac05d4e3e932f34a188", verdict: "failed",
		removed: []string{"TestThrottleRetryAfter"}, findings: []string{"removed", "weakened commented-out"}},
	{repository: "caddyserver/certmagic", id: "1bdc8fd84104404c36f6076fffc782e2174c7907", verdict: "failed",
		removed:  []string{"TestLookupNameserversOK/books.google.com.ng.", "TestLookupNameserversOK/www.google.com."},
		findings: []string{"removed", "weakened rows-fewer"}},
	{repository: "gotestyourself/gotestsum", id: "b9afca8fa3c5761df7dc976fa1c3a2628571ebea", verdict: "failed",
		findings: []string{"newly-skipped", "weakened skip-added"}}, // it fails on the base
}

// TestCommits runs fixes of other people, level L2, and compares what they prove
// with what is known of them. TRUEGREEN_REPOS is a folder with clones, each named
// as the last part of its repository; those that are not there are left out.
func TestCommits(t *testing.T) {
	folder := os.Getenv("TRUEGREEN_REPOS")
	if folder == "" {
		t.Skip("TRUEGREEN_REPOS, a folder with clones of other projects, is not set")
	}
	dir := t.TempDir()
	truegreen := build(t, dir, "truegreen", ".")
	for _, c := range slices.Concat(fixes, listedCommits(t)) {
		t.Run(c.repository+"/"+c.id[:7], func(t *testing.T) {
			repo := filepath.Join(folder, filepath.Base(c.repository))
			if err := exec.Command("git", "-C", repo, "cat-file", "-e", c.id+"^{commit}").Run(); err != nil {
				t.Skipf("no clone with it in %s", repo)
			}
			bundle := filepath.Join(t.TempDir(), "bundle")
			out, memory := watched(t, dir, truegreen, "run", "--json", "--repo", repo, "--base", c.id+"^", "--head", c.id, "--evidence", "L2", "--out", bundle)
			var got ran
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s: %s; %d MB", got.Report.Verdict, got.Report.Sentence, memory>>10)
			c.compare(t, &got)
			if memory > 200<<10 {
				t.Errorf("run took %d MB of memory, want less than 200", memory>>10)
			}
			if _, memory := watched(t, dir, truegreen, "verify", bundle); memory > 200<<10 {
				t.Errorf("verify took %d MB of memory, want less than 200", memory>>10)
			}
		})
	}
}

// listedCommits are those of the vectors.
func listedCommits(t *testing.T) []fix {
	dir := os.Getenv("TRUEGREEN_VECTORS")
	if dir == "" {
		t.Log("TRUEGREEN_VECTORS is not set: without the commits that it lists")
		return nil
	}
	text, err := os.ReadFile(filepath.Join(dir, "patches", "real-patches.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Go []struct {
			GitHub  string
			Head    string
			Base    counts            `json:"base_run"`
			HeadRun counts            `json:"head_run"`
			Proves  map[string]string `json:"f2p_kind"`
			Absent  []string          `json:"n2p"`
			Removed []string
			Broken  []string `json:"p2f"`
			Skipped []string `json:"newly_skipped"`
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	name := func(s string) string { _, test, _ := strings.Cut(s, " "); return test }
	var all []fix
	for _, l := range list.Go {
		c := fix{
			repository: l.GitHub, id: l.Head, base: l.Base, head: l.HeadRun, regressed: len(l.Broken), verdict: "verified",
		}
		kinds := map[string]string{"assert": "assertion", "panic": "panic"}
		for test, kind := range l.Proves {
			c.proves = append(c.proves, kinds[kind]+" "+name(test))
		}
		for _, test := range l.Absent {
			c.proves = append(c.proves, "did-not-compile "+name(test))
		}
		slices.Sort(c.proves)
		for _, test := range l.Removed {
			c.removed = append(c.removed, name(test))
		}
		switch {
		case l.GitHub == "spf13/cobra":
			c.asRoot = 1 // TestFailGenFishCompletionFile: root may write everywhere
		case l.GitHub == "gin-gonic/gin":
			// The list has the second test as an assertion. It panics as well.
			for i := range c.proves {
				c.proves[i] = strings.Replace(c.proves[i], "assertion ", "panic ", 1)
			}
		case l.HeadRun.Fail > 0:
			c.verdict = "failed" // a test that fails on both is none that passes
		}
		// TestVersion7FromReader of uuid lost two of its checks, and says so.
		c.clean = len(l.Removed)+len(l.Skipped) == 0 && l.GitHub != "google/uuid"
		all = append(all, c)
	}
	return all
}

// ran is what truegreen run --json says, as far as it is compared.
type ran struct {
	Report struct {
		Verdict  string
		Sentence string
		Reasons  []struct{ Code, Detail string }
		Runs     []ranRun
		Claim    struct {
			FailToPass []struct {
				Test           struct{ Name string }
				Kind           string
				Failed, Passed int
				FailedRuns     int `json:"failed_runs"`
				PassedRuns     int `json:"passed_runs"`
			} `json:"fail_to_pass"`
			PassBoth int `json:"pass_both"`
		}
		Findings []struct {
			Code   string
			Test   struct{ Suite, Name string }
			Path   string
			Detail string
		}
		Compared struct {
			Regressed    []struct{ Name string }
			NewlySkipped []struct{ Name string } `json:"newly_skipped"`
			Removed      []struct{ Name string }
			Renamed      []struct{ From struct{ Name string } }
		}
	}
}

type ranRun struct {
	Side, Purpose                string
	Round                        int
	Pass, Fail, Skip, Unfinished int
	Signals                      []string
}

// accusations are the findings and signals that say that something is wrong.
var accusations = []string{
	"canary-missing", "canary-not-failing", "ghost-test", "silent-test", "weakened", "harness-code", "test-aware", "order-dependent",
	"unstable", "removed", "newly-skipped", "never-run", "no-control", "not-measured", "fails-base-tests",
}

func (c *fix) compare(t *testing.T, got *ran) {
	t.Helper()
	r := &got.Report
	if c.verdict != "" && r.Verdict != c.verdict {
		t.Errorf("verdict %s %v, want %s", r.Verdict, r.Reasons, c.verdict)
	}
	var proves []string
	for _, p := range r.Claim.FailToPass {
		if p.Failed < p.FailedRuns || p.Passed < p.PassedRuns {
			t.Logf("%s is not stable on this machine", p.Test.Name)
			continue
		}
		proves = append(proves, p.Kind+" "+p.Test.Name)
		if p.Kind != "did-not-compile" && (p.FailedRuns < 5 || p.PassedRuns < 5) {
			t.Errorf("%s was run %d and %d times, want 5", p.Test.Name, p.FailedRuns, p.PassedRuns)
		}
	}
	if c.both > 0 && r.Claim.PassBoth != c.both {
		t.Errorf("%d tests pass on both, want %d", r.Claim.PassBoth, c.both)
	}
	slices.Sort(proves)
	if !slices.Equal(proves, c.proves) {
		t.Errorf("the change is proved by %q, want %q", proves, c.proves)
	}
	var removed []string
	for _, n := range r.Compared.Removed {
		removed = append(removed, n.Name)
	}
	for _, n := range r.Compared.Renamed {
		removed = append(removed, n.From.Name)
	}
	if !slices.Equal(removed, c.removed) {
		t.Errorf("removed %q, want %q", removed, c.removed)
	}
	if n := len(r.Compared.Regressed); n != c.regressed {
		t.Errorf("%d tests regressed, want %d", n, c.regressed)
	}
	said := map[string]bool{}
	for _, f := range r.Findings {
		said[f.Code+" "+f.Detail] = true
	}
	slices.SortStableFunc(r.Runs, func(a, b ranRun) int { return strings.Compare(a.Side, b.Side) }) // the base first
	base := map[string]bool{}
	for _, run := range r.Runs {
		if run.Round == 1 && run.Purpose == "" {
			want, ok := map[string]counts{"base": c.base, "head": c.head}[run.Side]
			want.Pass, want.Fail = want.Pass+c.asRoot, want.Fail-c.asRoot
			if got := (counts{run.Pass, run.Fail, run.Skip}); ok && want.Pass > 0 && got != want || run.Unfinished > 0 {
				t.Errorf("%s: %+v and %d unfinished, want %+v", run.Side, got, run.Unfinished, want)
			}
		}
		for _, code := range run.Signals {
			if run.Side == "base" {
				base[code] = true // what it has as well is no accusation
			} else if run.Side == "head" && !base[code] {
				said[code] = true
			}
		}
	}
	texts := slices.Sorted(maps.Keys(said))
	for _, want := range c.findings {
		if !slices.ContainsFunc(texts, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("does not say %q; it says %q", want, texts)
		}
	}
	for _, s := range texts {
		if code, _, _ := strings.Cut(s, " "); c.clean && slices.Contains(accusations, code) {
			t.Errorf("says %q", s)
		}
	}
}

// watched runs a command and returns what it wrote, and the most memory in KiB that
// the process itself had. What it starts does not count: a compiler takes more.
func watched(t *testing.T, state string, command ...string) ([]byte, int) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append(os.Environ(), "TRUEGREEN_STATE="+state)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	most := 0
	for {
		select {
		case err := <-done:
			if code := cmd.ProcessState.ExitCode(); code != 0 && code != 1 {
				t.Fatalf("%s: %v\n%s", command, err, &stderr)
			}
			return stdout.Bytes(), most
		case <-time.After(50 * time.Millisecond):
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if err != nil {
			continue
		}
		if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok {
			if n, err := strconv.Atoi(strings.Fields(rest)[0]); err == nil {
				most = max(most, n)
			}
		}
	}
}
