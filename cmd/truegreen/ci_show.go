package main

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/forge"
	"github.com/truegreen-dev/truegreen/internal/lazy"
	"github.com/truegreen-dev/truegreen/verifier"
)

// page is what a step has to show, without sections.
func (s *ciStep) page(t forge.Target) *forge.Page {
	return &forge.Page{
		Job: s.job, Target: t, ReportOnly: !s.in.enforce,
		Links: []forge.Link{{Text: "run", URL: fmt.Sprintf("%s/attempts/%d", s.runURL(), s.job.Attempt)}},
	}
}

func (s *ciStep) runURL() string {
	return fmt.Sprintf("%s/%s/actions/runs/%d", s.job.Server, s.job.Repository, s.job.RunID)
}

// section is what a step has to show of a bundle.
func (s *ciStep) section(t *forge.Target, p *project, b *found, r verifier.Report, notes []string) forge.Section {
	section := forge.Section{Name: p.name, Report: r, Notes: notes, SHA256: b.sha256}
	if b.path == "" {
		return section
	}
	section.File = filepath.Base(b.path)
	section.Verify = s.verifyCommand(*t, section.File)
	link := forge.Link{Text: "evidence", URL: s.runURL() + "#artifacts"}
	if days, err := strconv.Atoi(s.getenv("GITHUB_RETENTION_DAYS")); err == nil && days > 0 && days < 1000 {
		link.Expires = time.Now().AddDate(0, 0, days)
	}
	section.Links = []forge.Link{link}
	return section
}

// log shows the page in the job's log.
func (s *ciStep) log(p *forge.Page) error {
	if s.json {
		for _, section := range p.Sections {
			if err := s.printJSON(section.Report); err != nil {
				return err
			}
		}
		return nil
	}
	return p.Log(s.out, rand.Text())
}

// annotate shows the page at lines of files.
func (s *ciStep) annotate(p *forge.Page) {
	for _, a := range p.Annotations() {
		fmt.Fprintln(s.out, a)
	}
}

// summarise adds the page to the job's summary.
func (s *ciStep) summarise(p *forge.Page) error { return s.appendSummary(p.Summary) }

// appendSummary adds Markdown of at most so many bytes to the job's summary.
func (s *ciStep) appendSummary(text func(budget int) string) error {
	path := s.getenv("GITHUB_STEP_SUMMARY")
	if path == "" {
		return nil // there is none on this platform
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := forge.AppendSummary(f, info.Size(), text(forge.SummaryBudget(info.Size()))); err != nil {
		return err
	}
	return f.Close()
}

// ciOutputs are outputs of a step. What there is one of for each bundle has a line
// for each.
type ciOutputs map[string]string

func (out ciOutputs) add(name, line string) {
	if out[name] != "" {
		line = out[name] + "\n" + line
	}
	out[name] = line
}

// of adds what a report says.
func (out ciOutputs) of(r verifier.Report) {
	out.because(r.Reasons())
	if r.Sound() {
		_, seal := r.Seal()
		out.add("seal", seal.String())
	}
}

// because adds the codes of reasons, each once.
func (out ciOutputs) because(reasons []verifier.Reason) {
	for _, reason := range reasons {
		if code := string(reason.Code); !slices.Contains(strings.Split(out["reasons"], ","), code) {
			out["reasons"] = strings.TrimPrefix(out["reasons"]+","+code, ",")
		}
	}
}

// done adds what a page says of all its reports.
func (out ciOutputs) done(p *forge.Page) ciOutputs {
	out["verdict"] = string(p.Verdict())
	passed, failed, skipped := p.Counts()
	out["tests-passed"], out["tests-failed"], out["tests-skipped"] = strconv.Itoa(passed), strconv.Itoa(failed), strconv.Itoa(skipped)
	return out
}

// outputs writes outputs of the step.
func (s *ciStep) outputs(values map[string]string) error {
	path := s.getenv("GITHUB_OUTPUT")
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := forge.WriteOutput(f, rand.Reader, name, values[name]); err != nil {
			return err
		}
	}
	return f.Close()
}

func fileSHA256(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

var ofAttempt = lazy.Regexp(`-a([1-9][0-9]{0,5})\.tar\.zst$`)

// verifyCommand is how anyone verifies the bundle that a job reports on.
func (s *ciStep) verifyCommand(t forge.Target, name string) string {
	var b strings.Builder
	if s.in.artifact == "" {
		// Jobs of an earlier attempt may have made it, which is in its name.
		attempt := strconv.Itoa(s.job.Attempt)
		if m := ofAttempt().FindStringSubmatch(name); m != nil {
			attempt = m[1]
		}
		fmt.Fprintf(&b, "gh run download %d -R %s -n truegreen-a%s && ", s.job.RunID, s.job.Repository, attempt)
	} else {
		fmt.Fprintf(&b, "gh run download %d -R %s -n %s-a%d && ", t.Run, s.job.Repository, s.in.artifact, t.RunAttempt)
	}
	fmt.Fprintf(&b, "truegreen verify --repository %s", s.repository())
	for _, id := range []struct{ flag, value string }{{"base", t.Base}, {"head", t.Head}, {"tree", t.Tree}} {
		if id.value != "" {
			fmt.Fprintf(&b, " --%s %s", id.flag, id.value)
		}
	}
	if !t.Unattested {
		fmt.Fprintf(&b, " --trust %s --jwks %s", verifier.TrustFile, verifier.KeysFile)
	}
	fmt.Fprintf(&b, " %s", cmp.Or(name, "BUNDLE"))
	return b.String()
}
