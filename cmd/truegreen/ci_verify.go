package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/forge"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// A found bundle is one that a step was given, with its sidecars.
type found struct {
	path, sha256 string
	sidecars     []string
	missing      *verifier.Report // instead: the report on a bundle that is not to be had
	remove       func()
}

func without(code verifier.Code, format string, args ...any) found {
	r := verifier.NoBundle(code, fmt.Sprintf(format, args...))
	return found{missing: &r, remove: func() {}}
}

// verify is mode verify, report or gate.
func (s *ciStep) verify(ctx context.Context) error {
	t, err := s.target(ctx)
	if err != nil {
		return err
	}
	page, out := s.page(t), ciOutputs{"tested": t.Tested}
	for i := range s.in.projects {
		if err := s.verifyProject(ctx, page, &s.in.projects[i], out, false); err != nil {
			return err
		}
	}
	if err := s.log(page); err != nil {
		return err
	}
	problems := s.show(ctx, page, out.done(page))
	if err := s.outputs(out); err != nil {
		return err
	}
	if err := exitWithVerdict(page.Verdict()); err != nil {
		return err
	}
	if problems > 0 && s.in.strict {
		return forgeError(fmt.Errorf("the report could not be shown in %d places, and strict-report is true", problems))
	}
	return nil
}

// verifyProject verifies the bundle of a project, and adds it to the page. With sign,
// the seal of one that is sound is signed on the way.
func (s *ciStep) verifyProject(ctx context.Context, page *forge.Page, p *project, out ciOutputs, sign bool) error {
	t := &page.Target
	b, err := s.find(ctx, t, p)
	if err != nil {
		return err
	}
	defer b.remove()
	o, notes, err := s.expect(ctx, t, p)
	if err != nil {
		return err
	}
	if sign {
		if err := s.sign(ctx, &b, o, out); err != nil {
			return err
		}
	}
	if err := s.anchor(ctx, t, &o); err != nil {
		return err
	}
	report, err := s.check(&b, o)
	if err != nil {
		return err
	}
	out.of(report)
	if b.path != "" && s.in.artifact == "" {
		out.add("bundle-path", b.path)
	}
	if b.path != "" {
		out.add("bundle-sha256", b.sha256)
	}
	page.Sections = append(page.Sections, s.section(t, p, &b, report, notes))
	return nil
}

func (s *ciStep) target(ctx context.Context) (forge.Target, error) {
	t, err := s.client.Target(ctx, s.event, forge.TargetOptions{Tree: s.in.tree, Tested: s.in.tested, Workflows: s.in.workflows})
	if err != nil {
		return forge.Target{}, forgeError(err)
	}
	return t, nil
}

// find finds the bundle, in a file or folder that an earlier step has left, or in the
// artifact of another run.
func (s *ciStep) find(ctx context.Context, t *forge.Target, p *project) (found, error) {
	b, err := s.locate(ctx, t, p)
	if err != nil || b.path == "" {
		return b, err
	}
	if b.sha256, err = fileSHA256(b.path); err != nil {
		b.remove()
		return found{}, err
	}
	if want := p.sha256; want != "" && want != b.sha256 {
		b.remove()
		return without(verifier.WrongBundle, "its SHA-256 is %s, and the job that made it said %s", b.sha256, want), nil
	}
	return b, nil
}

func (s *ciStep) locate(ctx context.Context, t *forge.Target, p *project) (found, error) {
	if s.in.artifact != "" {
		return s.download(ctx, t)
	}
	path := s.in.bundle
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return without(verifier.NoEvidence, "no bundle at %s: the job that makes it has left none", path), nil
	case err != nil:
		return found{}, err
	case !info.IsDir() && len(s.in.projects) > 1:
		return found{}, usage("input bundle: %s is a file, and there are several projects: want the folder with their bundles", path)
	case !info.IsDir():
		b := found{path: path, remove: func() {}}
		for _, suffix := range []string{".oidc", ".sig"} {
			beside := strings.TrimSuffix(path, bundleSuffix) + suffix
			if _, err := os.Stat(beside); err == nil {
				b.sidecars = append(b.sidecars, beside)
			}
		}
		return b, nil
	}
	return inFolder(path, s.only(p, t.Head))
}

// only returns the beginning of the name of a project's bundle, "" where there is one
// project, whose bundle may have any name.
func (s *ciStep) only(p *project, head string) string {
	if len(s.in.projects) == 1 {
		return ""
	}
	return p.bundleName(head)
}

const bundleSuffix = ".tar.zst"

// inFolder finds the one bundle of a folder whose name begins so, with its sidecars.
// Nothing but bundles and sidecars may be there.
func inFolder(dir, begins string) (found, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return found{}, err
	}
	b := found{remove: func() {}}
	for _, e := range entries {
		path, mine := filepath.Join(dir, e.Name()), strings.HasPrefix(e.Name(), begins)
		switch {
		case !e.Type().IsRegular():
			return without(verifier.UnsafeArchive, "%s is not a file", e.Name()), nil
		case !mine && (strings.HasSuffix(e.Name(), bundleSuffix) || strings.HasSuffix(e.Name(), ".oidc") || strings.HasSuffix(e.Name(), ".sig")):
		case strings.HasSuffix(e.Name(), bundleSuffix) && b.path != "":
			return without(verifier.UnsafeArchive, "several bundles in %s", dir), nil
		case strings.HasSuffix(e.Name(), bundleSuffix):
			b.path = path
		case strings.HasSuffix(e.Name(), ".oidc"), strings.HasSuffix(e.Name(), ".sig"):
			b.sidecars = append(b.sidecars, path)
		default:
			return without(verifier.UnsafeArchive, "%s is neither a bundle nor a sidecar", e.Name()), nil
		}
	}
	if b.path == "" {
		return without(verifier.NoEvidence, "no bundle %s in %s", begins, dir), nil
	}
	return b, nil
}

// download gets the bundle out of the artifact of the run that the event is about.
// Everything in it is that run's word.
func (s *ciStep) download(ctx context.Context, t *forge.Target) (found, error) {
	name := fmt.Sprintf("%s-a%d", s.in.artifact, t.RunAttempt)
	artifact, err := s.client.Artifact(ctx, t.Run, name)
	switch {
	case errors.Is(err, forge.ErrNoArtifact):
		return without(verifier.NoEvidence, "run %d: %v", t.Run, err), nil
	case err != nil:
		return found{}, forgeError(err)
	}
	dir, err := os.MkdirTemp(s.getenv("RUNNER_TEMP"), "truegreen-artifact-")
	if err != nil {
		return found{}, err
	}
	remove := func() { os.RemoveAll(dir) }
	b, err := s.unpack(ctx, artifact, dir, remove)
	if err != nil || b.path == "" {
		remove()
	}
	return b, err
}

func (s *ciStep) unpack(ctx context.Context, artifact forge.Artifact, dir string, remove func()) (found, error) {
	zip, err := os.CreateTemp(s.getenv("RUNNER_TEMP"), "truegreen-artifact-*.zip")
	if err != nil {
		return found{}, err
	}
	defer os.Remove(zip.Name())
	defer zip.Close()
	err = s.client.Download(ctx, artifact, "", maxArtifact, zip)
	switch {
	case errors.Is(err, forge.ErrExpired):
		return without(verifier.EvidenceExpired, "run %d: %v", artifact.Run, err), nil
	case errors.Is(err, forge.ErrDigest):
		return without(verifier.WrongBundle, "%v", err), nil
	case err != nil:
		return found{}, forgeError(err)
	}
	info, err := zip.Stat()
	if err != nil {
		return found{}, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return found{}, err
	}
	defer root.Close()
	files, err := forge.Unpack(zip, info.Size(), root, forge.ArchiveLimits{})
	switch {
	case errors.Is(err, forge.ErrNoBundle):
		return without(verifier.NoEvidence, "%v", err), nil
	case errors.Is(err, forge.ErrArchive):
		return without(verifier.UnsafeArchive, "%v", err), nil
	case err != nil:
		return found{}, err
	}
	b := found{path: filepath.Join(dir, files.Bundle), remove: remove}
	for _, name := range files.Sidecars {
		b.sidecars = append(b.sidecars, filepath.Join(dir, name))
	}
	return b, nil
}

// maxArtifact is the largest artifact that is downloaded: a bundle and its sidecars.
const maxArtifact = 2<<30 + 1<<20

// expect says what the bundle has to be about, and what it was to be tested by.
func (s *ciStep) expect(ctx context.Context, t *forge.Target, p *project) (o verifier.Options, notes []string, err error) {
	o = verifier.Options{
		Repository: s.repository(), Head: t.Head, Tree: t.Tree, Base: t.Base, NoBase: t.BaseKnown && t.Base == "",
		Unattested: t.Unattested, MinLevel: s.in.isolation, MaxAge: s.in.maxAge, Now: time.Now(),
	}
	if p.seal != "" {
		if o.Sealed, err = receipts.ParseDigest(p.seal); err != nil {
			return o, nil, usage("input seal: %v", err)
		}
	}
	// What the patch starts from is on the protected branch, which is what policy is
	// taken from; a group in a merge queue can start from one that has not landed.
	commit := t.Base
	if commit == "" || s.job.Event == "merge_group" {
		commit = t.Policy
	}
	c := verifier.DefaultConfig()
	text, err := s.client.File(ctx, s.job.Repository, p.config, commit, 64<<10)
	switch {
	case errors.Is(err, fs.ErrNotExist) && p.config == verifier.ConfigFile:
		o.PolicySource = fmt.Sprintf("no %s at %s: the commands were detected, and all else is the default", p.config, short(commit))
		notes = append(notes, fmt.Sprintf("config-absent-on-base: %s is not at %s; truegreen init writes one", p.config, short(commit)))
	case err != nil:
		return o, nil, forgeError(err)
	default:
		if c, err = verifier.ParseConfig(text); err != nil {
			return o, nil, &codeError{verifier.BadConfig, fmt.Errorf("%s at %s: %w", p.config, short(commit), err)}
		}
		o.PolicySource = fmt.Sprintf("compared with %s at %s, on %s", p.config, short(commit), t.Branch)
	}
	o.Detected = len(c.Test) == 0
	o.Config, err = c.Document()
	return o, notes, err
}

// anchor trusts whom the protected branch names now: who was taken out of it since the
// patch began is not trusted any more. What was pushed to the branch does not name its
// own.
func (s *ciStep) anchor(ctx context.Context, t *forge.Target, o *verifier.Options) error {
	at := cmp.Or(t.Tip, t.Policy)
	if s.job.Event == "push" {
		at = t.Policy
	}
	o.OIDC = &verifier.OIDCAnchor{RepositoryID: s.job.RepositoryID, Run: s.job.RunID, Commits: []string{s.job.SHA}}
	for _, file := range trustFiles(o, func() *verifier.OIDCAnchor { return o.OIDC }) {
		text, err := s.client.File(ctx, s.job.Repository, file.path, at, 1<<20)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return forgeError(err)
		}
		if err := file.parse(text); err != nil {
			return &codeError{verifier.BadConfig, fmt.Errorf("%s at %s: %w", file.path, short(at), err)}
		}
	}
	return nil
}

// check verifies the bundle, if there is one.
func (s *ciStep) check(b *found, o verifier.Options) (verifier.Report, error) {
	if b.missing != nil {
		return *b.missing, nil
	}
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	for _, path := range b.sidecars {
		text, err := readSmall(path)
		if err != nil {
			return verifier.Report{}, err
		}
		o.Sidecars = append(o.Sidecars, verifier.Sidecar{Name: filepath.Base(path), Bytes: text})
	}
	f, size, err := openBundle(b.path)
	if err != nil {
		return verifier.Report{}, err
	}
	defer f.Close()
	return verifier.Verify(f, size, o)
}

// show shows a page where the mode says, and returns in how many places it could not.
// The verdict does not depend on it.
func (s *ciStep) show(ctx context.Context, p *forge.Page, out ciOutputs) (problems int) {
	problem := func(where string, err error) {
		problems++
		text := err.Error()
		var no *forge.PermissionError
		if errors.As(err, &no) {
			text += "\n" + no.Fix()
		}
		fmt.Fprintln(s.out, forge.Annotation{Level: "warning", Title: "truegreen: not shown in the " + where, Message: text})
	}
	if s.in.mode == modeReport {
		s.post(ctx, p, out, problem)
	} else if s.in.mode == modeVerify {
		s.annotate(p)
	}
	if err := s.summarise(p); err != nil {
		problem("summary", err)
	}
	if s.in.mode == modeReport {
		out["reported"] = fmt.Sprint(problems == 0)
	}
	return problems
}

// post shows a page on the commit and on its pull requests.
func (s *ciStep) post(ctx context.Context, p *forge.Page, out ciOutputs, problem func(string, error)) {
	t := &p.Target
	fork := len(t.Pulls) > 0 && t.Pulls[0].Fork
	run := p.Links[0].URL
	passed, failed, _ := p.Counts()
	mark := forge.Mark{
		Key: s.in.key, Head: t.Head, Run: s.job.RunID, Attempt: s.job.Attempt,
		Verdict: string(p.Verdict()), Passed: passed, Failed: failed,
	}
	for _, pull := range t.Pulls {
		url, outcome, err := s.client.PostComment(ctx, pull, mark, func(previous *forge.Mark) string {
			p.Previous = before(previous)
			return p.Comment("")
		}, s.in.comment)
		if err != nil {
			problem("comment", err)
			continue
		}
		fmt.Fprintf(s.out, "truegreen: comment on pull request %d: %s %s\n", pull.Number, outcome, oneLine(url))
		if url != "" && out["comment-url"] == "" {
			out["comment-url"] = url
		}
	}
	if s.in.status != "" {
		state, text := p.Status()
		if err := s.client.PostStatus(ctx, t.Commit, fork, forge.Status{State: state, Context: s.in.status, Description: text, URL: run}); err != nil {
			problem("status", err)
		}
	}
	if s.in.checkRun {
		_, title := p.Status()
		_, err := s.client.PostCheck(ctx, fork, forge.Check{
			Commit: t.Commit, Name: s.in.status, Verdict: string(p.Verdict()), Title: title, Summary: p.Summary(65535), URL: run, Annotations: p.Annotations(),
		})
		if err != nil {
			problem("check run", err)
		}
	}
}

// before is what a comment of ours says that is there already.
func before(m *forge.Mark) *forge.Before {
	if m == nil {
		return nil
	}
	return &forge.Before{Verdict: verifier.Verdict(m.Verdict), Passed: m.Passed, Failed: m.Failed, Head: m.Head}
}
