package verifier_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/verifier"
)

func TestCauses(t *testing.T) {
	t.Parallel()
	kebab := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := map[verifier.Code]bool{}
	last := -1
	for _, c := range verifier.Causes() {
		if !kebab.MatchString(string(c.Code)) || seen[c.Code] {
			t.Errorf("code %q: not in kebab-case, or twice", c.Code)
		}
		seen[c.Code] = true
		for _, text := range []string{c.Cause, c.Remedy} {
			if !strings.HasSuffix(text, ".") || strings.TrimSpace(text) != text {
				t.Errorf("%s: %q is no sentence", c.Code, text)
			}
		}
		group := strings.Index("broken unproven failed ", string(c.Verdict)+" ")
		if c.Verdict == "" {
			group = 100
		}
		if group < last {
			t.Errorf("%s: not in the group of its verdict", c.Code)
		}
		last = group
		if got, err := verifier.CauseOf(c.Code); err != nil || got != c {
			t.Errorf("%s: %+v, %v", c.Code, got, err)
		}
	}
	if _, err := verifier.CauseOf("all-is-well"); err == nil {
		t.Error("an unknown code has a cause")
	}
	// What package bundle refuses with is documented here.
	for _, code := range []string{bundle.NotABundle, bundle.Truncated, bundle.LimitExceeded, bundle.MalformedMember, bundle.BlobMismatch} {
		if c, err := verifier.CauseOf(verifier.Code(code)); err != nil || c.Verdict != verifier.Broken {
			t.Errorf("%s: %+v, %v", code, c, err)
		}
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for v, want := range map[verifier.Verdict]int{verifier.Verified: 0, verifier.Failed: 1, verifier.Unproven: 3, verifier.Broken: 4, "": 3, "fine": 3} {
		if got := v.Exit(); got != want {
			t.Errorf("%q exits %d, want %d", v, got, want)
		}
	}
}

var update = flag.Bool("update", false, "write docs/reasons.md and the golden files")

// TestReasonsPage: docs/reasons.md is what the code says.
func TestReasonsPage(t *testing.T) {
	t.Parallel()
	const path = "../docs/reasons.md"
	want := reasonsPage()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/reasons.md is not what the code says: go test ./verifier -run ReasonsPage -update")
	}
}

func reasonsPage() []byte {
	var b bytes.Buffer
	b.WriteString(`# Reasons

Whatever is not verified has a reason. A reason is a code that does not change, a
detail, and where it applies the member of the bundle that it lies in. The codes
are the same in what truegreen prints, in its JSON and in what it posts; scripts
match codes and not sentences.

Of several reasons the gravest decides: broken, then unproven, then failed. All of
them are shown. ` + "`truegreen selftest`" + ` makes every one happen.

This page is written by a test of package verifier out of the table that the
program uses.
`)
	sections := []struct {
		verdict verifier.Verdict
		title   string
	}{
		{verifier.Broken, "Broken, exit code 4\n\nThe evidence contradicts itself, or what the verifier was told to expect, or is no\nbundle at all."},
		{verifier.Unproven, "Unproven, exit code 3\n\nNothing contradicts itself, and something is missing that verified needs."},
		{verifier.Failed, "Failed, exit code 1\n\nThe evidence is intact and trusted, and the patch did not meet the policy."},
		{"", "No verdict, exit code 2\n\nThe command could not begin."},
	}
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n", s.title)
		for _, c := range verifier.Causes() {
			if c.Verdict == s.verdict {
				fmt.Fprintf(&b, "\n### %s\n\n%s\n\n*What to do.* %s\n", c.Code, c.Cause, c.Remedy)
			}
		}
	}
	return b.Bytes()
}
