package forge

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/verifier"
)

var update = flag.Bool("update", false, "write the golden pages again")

const marker = "<!-- truegreen v1 key=default -->"

// paged returns a page as a job on a pull request makes it.
func paged(sections ...Section) *Page {
	head := "7e229c5a31f00000000000000000000000000000"
	if len(sections) > 0 && sections[0].Report.Sound() {
		head = sections[0].Report.Patch().Head
	}
	return &Page{
		Job:      Job{Server: "https://git.example.com", Repository: "acme/calc", RunID: 4242, Attempt: 2},
		Target:   Target{Commit: head},
		Sections: sections,
		Elapsed:  3*time.Minute + 12*time.Second,
		Links:    []Link{{Text: "run", URL: "https://git.example.com/acme/calc/actions/runs/4242"}},
	}
}

func section(r verifier.Report) Section {
	return Section{
		Report: r, File: "evidence.tar.zst", SHA256: strings.Repeat("5e", 32),
		Links: []Link{{Text: "evidence", URL: "https://git.example.com/acme/calc/actions/runs/4242/artifacts/7", Expires: time.Date(2027, 2, 28, 0, 0, 0, 0, time.UTC)}},
	}
}

func named(name string, r verifier.Report) Section {
	s := section(r)
	s.Name = name
	return s
}

// pages are the pages of which every place where they are shown has a golden file.
func pages(t *testing.T) map[string]*Page {
	noKey := func(o *verifier.Options) { o.Keys = nil }
	withdrawn := paged(section(red(t, nil)))
	withdrawn.ReportOnly = true
	fork := paged(section(red(t, noKey)))
	fork.Target.Unattested = true
	greenFork := paged(section(green(t)))
	greenFork.Target.Unattested = true
	changed := paged(section(green(t)))
	changed.Previous = &Before{Verdict: verifier.Failed, Passed: 3, Failed: 2, Head: "61867f2843d00000000000000000000000000000"}
	old := paged(section(green(t)))
	old.Newer = "90135dd3441c0000000000000000000000000000"
	old.Target.Notes = []string{"the base is refs/heads/main@{1} of @acme"}
	return map[string]*Page{
		"green": paged(section(green(t))), "red": paged(section(red(t, nil))), "broken": paged(section(broken(t))), "unproven": paged(section(red(t, noKey))),
		"unattested": fork, "unattested-green": greenFork, "none": paged(), "report-only": withdrawn, "changed": changed, "superseded": old,
		"projects": paged(named("server", green(t)), named("client", red(t, nil)), named("docs", verifier.Report{})),
	}
}

// TestGolden compares every page with its golden files.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, p := range pages(t) {
		var log strings.Builder
		if err := p.Log(&log, "0123456789abcdef"); err != nil {
			t.Fatal(err)
		}
		state, description := p.Status()
		lines := []string{"status " + state + ": " + description}
		for _, a := range p.Annotations() {
			lines = append(lines, a.String())
		}
		for file, got := range map[string]string{
			name + ".comment.md": p.Comment(marker), name + ".summary.md": p.Summary(1_000_000), name + ".log.txt": log.String(), name + ".lines.txt": strings.Join(lines, "\n") + "\n",
		} {
			file = filepath.Join("testdata", "page", file)
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s is another one:\n%s", file, got)
			}
		}
	}
}
