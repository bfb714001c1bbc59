package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/truegreen-dev/truegreen/forge"
	"github.com/truegreen-dev/truegreen/store"
	"github.com/truegreen-dev/truegreen/verifier"
)

const tagRef = "refs/tags/"

// releaseTag is the tag that mode gate decides on: the input's, or that of the event; ""
// where there is neither, and the evidence for the event is verified.
func (s *ciStep) releaseTag() string {
	if s.in.tag != "" {
		return s.in.tag
	}
	if tag, ok := strings.CutPrefix(s.getenv("GITHUB_REF"), tagRef); ok {
		return tag
	}
	return ""
}

// gateRelease is mode gate for a release: what truegreen gate does, in the repository that
// the job has checked out, with what the forge has of its commits.
func (s *ciStep) gateRelease(ctx context.Context) error {
	f := gateFlags{repo: s.getenv("GITHUB_WORKSPACE"), repository: s.repository(), tag: s.releaseTag()}
	if f.repo == "" {
		f.repo = "."
	}
	if branch := s.job.DefaultBranch(s.event); branch != "" { // as a checkout of all branches has it
		f.branch = "refs/remotes/origin/" + branch
	}
	r, err := s.openRelease(ctx, &f)
	if err != nil {
		return err
	}
	defer r.repo.Close()
	g := &r.gate
	if s.in.tag == "" { // what the event is about, whatever the tag names by now
		c, err := r.repo.Resolve(ctx, s.job.SHA)
		if err != nil {
			return err
		}
		g.Tag.Expected = c.ID
	}
	g.Policy.Isolation = max(g.Policy.Isolation, s.in.isolation)
	if s.in.maxAge > 0 && (g.Policy.MaxAge == 0 || s.in.maxAge < g.Policy.MaxAge) {
		g.Policy.MaxAge = s.in.maxAge
	}
	places, err := s.places(ctx, r, f.tag)
	if err != nil {
		return err
	}
	asked := *s.app // stores take the token from the environment, and the step has it as an input
	asked.getenv = func(name string) string {
		if name == "GITHUB_TOKEN" {
			return s.in.token
		}
		return s.getenv(name)
	}
	if err := asked.readEvidence(ctx, r, places); err != nil {
		return err
	}
	return s.showDecision(g.Decide())
}

// maxAsked is how many commits the forge is asked about: each takes a few requests, of
// which a job has a thousand an hour.
const maxAsked = 200

// places are where the evidence for a release is looked for: where the inputs say, at the
// release, and in the artifacts of this run and of the pushes of its commits.
func (s *ciStep) places(ctx context.Context, r *release, tag string) (list []string, err error) {
	if s.in.bundle != "" {
		if _, err := os.Stat(s.in.bundle); err == nil {
			list = append(list, store.Place{Kind: store.Path, Path: s.in.bundle}.String())
		} else if !errors.Is(err, fs.ErrNotExist) { // the job that makes it may have left none
			return nil, err
		}
	}
	list = append(list, s.in.bundles...)
	switch _, err := s.client.Assets(ctx, tag); {
	case err == nil:
		list = append(list, store.Place{Kind: store.Release, Repository: s.job.Repository, Tag: tag}.String())
	case !errors.Is(err, forge.ErrNoRelease): // it may be made by what this job lets pass
		return nil, forgeError(err)
	}
	list = append(list, store.Place{Kind: store.Artifact, Repository: s.job.Repository, Run: s.job.RunID}.String())
	for i, c := range r.gate.Commits {
		if i == maxAsked {
			fmt.Fprintf(s.out, "truegreen: the forge is asked about the first %d of %d commits; name places with the evidence for others in the input bundles\n", maxAsked, len(r.gate.Commits))
			break
		}
		list = append(list, store.Place{Kind: store.Artifact, Repository: s.job.Repository, Commit: c.ID}.String())
	}
	return list, nil
}

// showDecision shows a decision in log, summary and outputs.
func (s *ciStep) showDecision(d verifier.Decision) error {
	var text bytes.Buffer
	plain := app{out: &text, err: s.err, getenv: s.getenv}
	plain.printDecision(d, false)
	if s.json {
		if err := s.printJSON(d); err != nil {
			return err
		}
	} else if err := s.logQuoted(text.Bytes()); err != nil {
		return err
	}
	if err := s.appendSummary(func(budget int) string { return decisionSummary(text.String(), budget) }); err != nil {
		return err
	}
	tag, _ := d.Tag()
	out := ciOutputs{"verdict": string(d.Verdict()), "tested": tag.Commit}
	out.because(d.Reasons())
	if err := s.outputs(out); err != nil {
		return err
	}
	return exitWithVerdict(d.Verdict())
}

// logQuoted writes text to the job's log in which no line is a command.
func (s *ciStep) logQuoted(text []byte) error {
	w, err := forge.StopCommands(s.out, rand.Reader)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return errors.Join(err, w.Close())
}

// decisionSummary is a decision in Markdown, of at most budget bytes: an indented block,
// in which nothing means anything.
func decisionSummary(text string, budget int) string {
	const (
		head = "### truegreen: release gate\n\n"
		cut  = "    the rest is in the log\n"
	)
	var b strings.Builder
	b.WriteString(head)
	for line := range strings.Lines(text) {
		if b.Len()+len(line)+len("    ")+len(cut) > budget {
			b.WriteString(cut)
			break
		}
		b.WriteString("    " + line)
	}
	if b.Len() > budget {
		return ""
	}
	return b.String()
}
