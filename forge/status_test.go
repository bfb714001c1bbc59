package forge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/truegreen-dev/truegreen/internal/githubtest"
)

// mikepenz#522, CoursIA#10492: on the head, whatever commit the job runs on.
func TestStatusOnHead(t *testing.T) {
	f := newForgeTest(t)
	f.job.Event, f.job.SHA = "workflow_run", m3
	target := f.mustTarget(t, runEvent(nil), TargetOptions{})
	if err := f.client(t).PostStatus(t.Context(), target.Commit, false, Status{State: StateFailure, Description: "1 of 3 failed", URL: "https://example.com/run"}); err != nil {
		t.Fatal(err)
	}
	want := githubtest.Status{Commit: h1, State: "failure", Context: "truegreen", Description: "1 of 3 failed", URL: "https://example.com/run"}
	if !slices.Equal(f.Statuses, []githubtest.Status{want}) {
		t.Errorf("got %+v", f.Statuses)
	}
}

// dorny#60: cut between characters.
func TestStatusCut(t *testing.T) {
	f := newForgeTest(t)
	for _, text := range []string{"", strings.Repeat("a", 140), strings.Repeat("é", 140), strings.Repeat("漢", 141), strings.Repeat("a", 1000)} {
		if err := f.client(t).PostStatus(t.Context(), h1, false, Status{State: StatePending, Context: "truegreen/go", Description: text}); err != nil {
			t.Fatal(err)
		}
		got := f.Statuses[len(f.Statuses)-1].Description
		n := utf8.RuneCountInString(text)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) != min(n, 140) || (got == text) != (n <= 140) {
			t.Errorf("%d characters became %q", n, got)
		}
	}
	if err := f.client(t).PostStatus(t.Context(), h1, false, Status{State: StateNeutral}); err != nil || f.Statuses[len(f.Statuses)-1].State != StatePending {
		t.Errorf("neutral: %+v, %v", f.Statuses[len(f.Statuses)-1], err)
	}
	for _, s := range []Status{{State: "green"}, {State: ""}} {
		if err := f.client(t).PostStatus(t.Context(), h1, false, s); err == nil {
			t.Errorf("%+v", s)
		}
	}
	if err := f.client(t).PostStatus(t.Context(), "main", false, Status{State: StateError}); err == nil {
		t.Error("of a branch")
	}
}

func TestCheckConclusion(t *testing.T) {
	for verdict, want := range map[string]string{
		"verified": "success", "failed": "failure", "broken": "failure", "unproven": "action_required", "none": "action_required", "": "action_required", "neutral": "action_required",
	} {
		t.Run(verdict, func(t *testing.T) {
			f := newForgeTest(t)
			url, err := f.client(t).PostCheck(t.Context(), false, Check{Commit: h1, Verdict: verdict, URL: "https://example.com/"})
			if err != nil || url == "" || len(f.Checks) != 1 || f.Checks[0].Conclusion != want || f.Checks[0].Status != "completed" || f.Checks[0].Commit != h1 {
				t.Errorf("%s: %+v, %v", url, f.Checks, err)
			}
		})
	}
}

// dorny#143: more than fifty annotations in one request lose all of them.
func TestCheckChunks(t *testing.T) {
	for n, want := range map[int][]int{0: {0}, 1: {1}, 50: {50}, 51: {50, 1}, 100: {50, 50}, 120: {50, 50, 20}} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			f := newForgeTest(t)
			k := Check{Commit: h1, Verdict: "failed"}
			for i := range n {
				k.Annotations = append(k.Annotations, Annotation{Path: "a_test.go", Line: i + 1, Level: "error", Title: "t", Message: "m"})
			}
			if _, err := f.client(t).PostCheck(t.Context(), false, k); err != nil {
				t.Fatal(err)
			}
			if got := f.Checks[0]; !slices.Equal(got.Updates, want) || got.Annotations != n || got.Conclusion != "failure" {
				t.Errorf("got %+v, want %v", got, want)
			}
		})
	}
	// A run that is cut off is never green.
	t.Run("cut off", func(t *testing.T) {
		f := newForgeTest(t)
		f.Fault("PATCH /repos/{owner}/{repo}/check-runs/{id}", 0, githubtest.Fault{Status: 422})
		if _, err := f.client(t).PostCheck(t.Context(), false, Check{Commit: h1, Verdict: "verified"}); err == nil || f.Checks[0].Conclusion != "" {
			t.Errorf("%+v, %v", f.Checks[0], err)
		}
	})
	t.Run("502, made", func(t *testing.T) {
		f := newForgeTest(t)
		f.Fault("POST /repos/{owner}/{repo}/check-runs", 1, githubtest.Fault{Status: 502, After: true})
		if _, err := f.client(t).PostCheck(t.Context(), false, Check{Commit: h1, Verdict: "verified"}); err != nil || len(f.Checks) != 1 || f.Checks[0].Conclusion != "success" {
			t.Errorf("%d check runs, %v", len(f.Checks), err)
		}
	})
}

// dorny#57: the limit is one of bytes.
func TestCheckBytes(t *testing.T) {
	f := newForgeTest(t)
	for _, n := range []int{65535 / 3, 65535/3 + 1, 100_000} {
		k := Check{Commit: h1, Verdict: "failed", Summary: strings.Repeat("漢", n), Text: strings.Repeat("漢", n)}
		if _, err := f.client(t).PostCheck(t.Context(), false, k); err != nil {
			t.Fatal(err)
		}
		got := f.Checks[len(f.Checks)-1].Summary
		if !utf8.ValidString(got) || len(got) != min(3*n, 65535) || strings.HasSuffix(got, "…") != (3*n > 65535) {
			t.Errorf("%d bytes became %d", 3*n, len(got))
		}
	}
}
