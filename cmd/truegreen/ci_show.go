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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/forge"
	"github.com/truegreen-dev/truegreen/verifier"
)

// page is what a step has to show of one report.
func (s *ciStep) page(t forge.Target, section forge.Section) *forge.Page {
	run := fmt.Sprintf("%s/%s/actions/runs/%d", s.job.Server, s.job.Repository, s.job.RunID)
	p := &forge.Page{
		Job: s.job, Target: t, Sections: []forge.Section{section}, ReportOnly: !s.in.enforce,
		Links: []forge.Link{{Text: "run", URL: fmt.Sprintf("%s/attempts/%d", run, s.job.Attempt)}},
	}
	if section.File != "" {
		link := forge.Link{Text: "evidence", URL: run + "#artifacts"}
		if days, err := strconv.Atoi(s.getenv("GITHUB_RETENTION_DAYS")); err == nil && days > 0 && days < 1000 {
			link.Expires = time.Now().AddDate(0, 0, days)
		}
		p.Sections[0].Links = []forge.Link{link}
	}
	return p
}

// log shows the page in the job's log.
func (s *ciStep) log(p *forge.Page) error {
	if s.json {
		return s.printJSON(p.Sections[0].Report)
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
func (s *ciStep) summarise(p *forge.Page) error {
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
	if err := forge.AppendSummary(f, info.Size(), p.Summary(forge.SummaryBudget(info.Size()))); err != nil {
		return err
	}
	return f.Close()
}

// reported are the outputs that say what a report says.
func reported(r verifier.Report) map[string]string {
	out := map[string]string{"verdict": string(r.Verdict())}
	var codes []string
	for _, reason := range r.Reasons() {
		if !slices.Contains(codes, string(reason.Code)) {
			codes = append(codes, string(reason.Code))
		}
	}
	out["reasons"] = strings.Join(codes, ",")
	if r.Sound() {
		p := forge.Page{Sections: []forge.Section{{Report: r}}}
		passed, failed, skipped := p.Counts()
		out["tests-passed"], out["tests-failed"], out["tests-skipped"] = strconv.Itoa(passed), strconv.Itoa(failed), strconv.Itoa(skipped)
		_, seal := r.Seal()
		out["seal"] = seal.String()
	}
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

// verifyCommand is how anyone verifies the bundle that a job reports on.
func (s *ciStep) verifyCommand(t forge.Target, name string) string {
	var b strings.Builder
	if s.in.artifact == "" {
		fmt.Fprintf(&b, "gh run download %d -R %s -n truegreen-a%d && ", s.job.RunID, s.job.Repository, s.job.Attempt)
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
