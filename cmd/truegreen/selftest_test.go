package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/verifier"
)

// TestSelftest makes every reason happen.
func TestSelftest(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{out: &out, err: &out, getenv: func(string) string { return "" }, json: true}
	err := a.selftest()
	var got struct {
		OK, Of int
		Codes  []tried
	}
	if jsonErr := json.Unmarshal(out.Bytes(), &got); jsonErr != nil {
		t.Fatalf("%v (%v): %s", jsonErr, err, out.Bytes())
	}
	if err != nil {
		t.Errorf("selftest: %v", err)
	}
	if got.Of != len(verifier.Causes()) || len(got.Codes) != got.Of {
		t.Errorf("%d of %d codes", len(got.Codes), got.Of)
	}
	good := 0
	for i, c := range verifier.Causes() {
		switch r := got.Codes[i]; {
		case r.Code != c.Code || r.Verdict != c.Verdict:
			t.Errorf("line %d is about %s, %s: want %s, %s", i, r.Code, r.Verdict, c.Code, c.Verdict)
		case r.Skipped != "":
			if required() {
				t.Errorf("%s: skipped: %s", r.Code, r.Skipped)
			}
			t.Logf("%s: skipped: %s", r.Code, r.Skipped)
		case !r.OK:
			t.Errorf("%s: %+v %s", r.Code, r.Got, r.Error)
		default:
			good++
		}
	}
	if good != got.OK {
		t.Errorf("%d codes are ok, it says %d", good, got.OK)
	}
}

// TestSelftestComplete: every code has its trial, and every trial its code.
func TestSelftestComplete(t *testing.T) {
	t.Parallel()
	of := bundleTrials()
	for _, more := range []map[verifier.Code]trial{gateTrials(), commandTrials()} {
		for code, trial := range more {
			if of[code] != nil {
				t.Errorf("%s has two trials", code)
			}
			of[code] = trial
		}
	}
	for _, c := range verifier.Causes() {
		if of[c.Code] == nil {
			t.Errorf("nothing makes %s happen", c.Code)
		}
		delete(of, c.Code)
	}
	for code := range of {
		t.Errorf("%s is not documented", code)
	}
}

// TestSelftestSees: a code that does not happen, happens beside another, or with
// another verdict is not ok.
func TestSelftestSees(t *testing.T) {
	t.Parallel()
	cause := verifier.Cause{Code: verifier.NoTests, Verdict: verifier.Unproven}
	for name, test := range map[string]struct {
		got observed
		err error
		ok  bool
	}{
		"right":        {observed{[]verifier.Code{verifier.NoTests}, verifier.Unproven, 3}, nil, true},
		"no code":      {observed{nil, verifier.Unproven, 3}, nil, false},
		"other code":   {observed{[]verifier.Code{verifier.Stale}, verifier.Unproven, 3}, nil, false},
		"two codes":    {observed{[]verifier.Code{verifier.NoTests, verifier.Stale}, verifier.Unproven, 3}, nil, false},
		"verified":     {observed{[]verifier.Code{verifier.NoTests}, verifier.Verified, 0}, nil, false},
		"exit code":    {observed{[]verifier.Code{verifier.NoTests}, verifier.Unproven, 0}, nil, false},
		"error":        {observed{}, os.ErrPermission, false},
		"not possible": {observed{}, skip("no such system"), false},
	} {
		r := try(cause, func(string) (observed, error) { return test.got, test.err }, filepath.Join(t.TempDir(), "x"))
		if r.OK != test.ok || r.OK && (r.Got != nil || r.Error != "") || !r.OK && r.Got == nil && r.Error == "" && r.Skipped == "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := try(cause, nil, t.TempDir()); r.OK || r.Error == "" {
		t.Errorf("no trial: %+v", r)
	}
	if r := try(cause, func(string) (observed, error) { panic("x") }, filepath.Join(t.TempDir(), "x")); r.OK || !strings.Contains(r.Error, "panic") {
		t.Errorf("panic: %+v", r)
	}
}

// TestSelftestText runs the command as users do.
func TestSelftestText(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "selftest")
	cmd.Args[0] = "truegreen"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Errorf("selftest: %v\n%s%s", err, out, stderr.Bytes())
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if n := len(verifier.Causes()); len(lines) != n+1 || !strings.HasSuffix(lines[n], " codes") {
		t.Errorf("%d lines, want %d:\n%s", len(lines), n+1, out)
	}
	if left, err := os.ReadDir(strings.TrimPrefix(cmd.Env[1], "TMPDIR=")); err != nil || len(left) > 0 {
		t.Errorf("it left %v behind (%v)", left, err)
	}
}
