package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/forge"
	"github.com/truegreen-dev/truegreen/verifier"
)

func (a *app) ciCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ci", Short: "Be the step of a GitHub Actions job that action.yml describes", Args: cobra.NoArgs,
		Long: `ci is what the GitHub Action runs. It takes the action's inputs from variables
such as INPUT_MODE and INPUT_BUNDLE_SHA256, the job and its event from those that
GitHub sets, and writes the action's outputs. docs/recipes.md has workflows.

  run     test the patch of the event in a sandbox, and write a bundle
  seal    verify a bundle, and sign its seal with this job's OIDC token
  verify  verify a bundle for the event
  report  verify it, and show it on the pull request
  gate    decide on the release of a tag, as truegreen gate does; without a tag,
          verify the bundle for the event`,
		Example: "  INPUT_MODE=verify INPUT_BUNDLE=evidence truegreen ci",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.ci(cmd.Context()) },
	}
	a.jsonFlag(cmd)
	return cmd
}

// The modes of the action.
const (
	modeRun    = "run"
	modeSeal   = "seal"
	modeVerify = "verify"
	modeReport = "report"
	modeGate   = "gate"
)

// ciInputs are the inputs of the action.
type ciInputs struct {
	mode, bundle, artifact, output, tree, tested, evidence string
	tag                                                    string
	bundles, receipts                                      []string
	key, author, status                                    string
	projects                                               []project
	workflows                                              []string
	comment                                                forge.Commenting
	isolation                                              int
	enforce, checkRun, strict, discloseNow                 bool
	maxAge                                                 time.Duration
	token                                                  string
}

// A project is a part of the repository that is tested by a configuration of its own
// and has a bundle of its own.
type project struct {
	config       string // path of the configuration
	name         string // for people; "" where there is one
	sha256, seal string // that the bundle must have; "" for any
}

// A ciStep is one step of a job.
type ciStep struct {
	*app
	in      ciInputs
	job     forge.Job
	event   []byte
	client  *forge.Client
	expires time.Time // the last of the tokens that this step got
}

func (a *app) ci(ctx context.Context) error {
	if !a.json {
		fmt.Fprintf(a.out, "truegreen %s, %s\n", version(), oneLine(cmp.Or(a.getenv("TRUEGREEN_FROM"), "of this machine")))
	}
	s := &ciStep{app: a}
	if err := s.open(); err != nil {
		return err
	}
	var err error
	switch {
	case s.in.mode == modeRun:
		err = s.run(ctx)
	case s.in.mode == modeSeal:
		err = s.seal(ctx)
	case s.in.mode == modeGate && s.releaseTag() != "":
		err = s.gateRelease(ctx)
	default:
		err = s.verify(ctx)
	}
	if err == nil || s.in.enforce {
		return err
	}
	code := exitCode(2)
	if !errors.As(err, &code) {
		code = exitCode(a.fail(err))
	}
	fmt.Fprintf(a.out, "::notice title=truegreen: report only::This step would have ended with exit code %d. The input enforce is false.\n", code)
	return nil
}

// open reads inputs, job and event.
func (s *ciStep) open() error {
	if err := s.inputs(); err != nil {
		return err
	}
	var err error
	if s.job, err = forge.ReadJob(s.getenv); err != nil {
		return usage("this is no job of GitHub Actions: %v", err)
	}
	f, err := os.Open(s.getenv("GITHUB_EVENT_PATH"))
	if err != nil {
		return usage("GITHUB_EVENT_PATH: %v", err)
	}
	defer f.Close()
	if s.event, err = forge.ReadEvent(f); err != nil {
		return usage("%v", err)
	}
	if err := s.job.Complete(s.event); err != nil {
		return usage("%v", err)
	}
	if s.in.mode == modeRun {
		return nil // which asks nobody
	}
	if s.client, err = forge.NewClient(s.job, forge.Options{Token: s.in.token, CommentAuthor: s.in.author, UserAgent: "truegreen/" + version()}); err != nil {
		return usage("%v", err)
	}
	return nil
}

// inputs reads the inputs. GitHub passes none to a composite action by itself: what
// action.yml does not map is "".
func (s *ciStep) inputs() error {
	r := inputReader{get: s.getenv}
	in := &s.in
	in.mode = r.oneOf("mode", "", modeRun, modeSeal, modeVerify, modeReport, modeGate)
	in.bundle, in.artifact, in.output = r.text("bundle"), r.text("artifact"), r.text("output")
	in.tree = r.oneOf("tree", forge.TreeMerge, forge.TreeHead)
	in.tag, in.bundles = r.text("tag"), strings.Fields(r.text("bundles"))
	in.receipts = r.lines("receipts")
	in.tested, in.evidence = r.text("tested"), r.text("evidence")
	in.workflows = strings.Fields(r.text("workflows"))
	in.key, in.author, in.status = cmp.Or(r.text("comment-key"), "default"), r.text("comment-author"), r.text("status")
	in.comment.Mode = r.oneOf("comment", forge.CommentUpdate, forge.CommentRecreate, forge.CommentMinimise, forge.CommentOff)
	in.comment.On = r.oneOf("comment-on", forge.OnAlways, forge.OnFailure, forge.OnChange)
	in.isolation = r.number("isolation")
	in.enforce = r.oneOf("enforce", "true", "false") == "true"
	in.checkRun = r.oneOf("check-run", "false", "true") == "true"
	in.strict = r.oneOf("strict-report", "false", "true") == "true"
	in.discloseNow = r.oneOf("oidc-disclose", "auto", "now") == "now"
	in.maxAge = r.duration("max-age")
	in.token = r.text("github-token")
	in.projects = r.projects()
	if r.err != nil {
		return r.err
	}
	gate := in.mode == modeGate && s.releaseTag() != ""
	switch {
	case (in.tag != "" || len(in.bundles) > 0) && !gate:
		return usage("inputs tag and bundles: they are for mode gate and a release")
	case gate && (in.artifact != "" || r.text("bundle-sha256")+r.text("seal") != "" || r.text("config") != ""):
		return usage("inputs artifact, bundle-sha256, seal and config: a release has evidence of many runs; name the places of more in bundles")
	case gate:
	case in.mode != modeRun && len(in.receipts) > 0:
		return usage("input receipts: it is for mode run, which puts them into the bundle")
	case len(in.receipts) > 0 && len(in.projects) > 1:
		return usage("input receipts: it is for a run of one project")
	case in.mode == modeRun && in.bundle != "":
		return usage("input bundle: mode run makes one")
	case in.mode != modeRun && (in.bundle == "") == (in.artifact == ""):
		return usage("mode %s: want one of the inputs bundle and artifact", in.mode)
	case in.artifact != "" && (s.getenv("GITHUB_EVENT_NAME") != "workflow_run" || len(in.workflows) == 0):
		return usage("input artifact: it is for the event workflow_run, and goes with workflows")
	case in.artifact != "" && len(in.projects) > 1:
		return usage("input config: the artifact of another run has one bundle")
	case in.artifact != "" && in.mode == modeSeal:
		return usage("input artifact: what another run left is not sealed")
	}
	return checkLevel(in.isolation)
}

// An inputReader keeps the first error.
type inputReader struct {
	get func(string) string
	err error
}

func (r *inputReader) text(name string) string {
	return r.get("INPUT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
}

func (r *inputReader) fail(name, format string, args ...any) {
	if r.err == nil {
		r.err = usage("input %s: %s", name, fmt.Sprintf(format, args...))
	}
}

// oneOf reads a word; the first is the default, "" for none.
func (r *inputReader) oneOf(name string, words ...string) string {
	v := cmp.Or(r.text(name), words[0])
	if v == "" || !slices.Contains(words, v) {
		r.fail(name, "%q is none of %s", v, strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", "))
	}
	return v
}

func (r *inputReader) number(name string) int {
	n, err := strconv.Atoi(cmp.Or(r.text(name), "0"))
	if err != nil {
		r.fail(name, "%q is no number", r.text(name))
	}
	return n
}

func (r *inputReader) duration(name string) time.Duration {
	d, err := time.ParseDuration(cmp.Or(r.text(name), "0"))
	if err != nil || d < 0 {
		r.fail(name, "%q is no duration such as 720h", r.text(name))
	}
	return d
}

// lines reads lines, without empty ones and space around them.
func (r *inputReader) lines(name string) (list []string) {
	for l := range strings.Lines(r.text(name)) {
		if l = strings.TrimSpace(l); l != "" {
			list = append(list, l)
		}
	}
	return list
}

// digests reads one digest for each of n projects, or none.
func (r *inputReader) digests(name string, n int) []string {
	list := strings.Fields(r.text(name))
	if len(list) != n && len(list) != 0 {
		r.fail(name, "%d digests for %d projects", len(list), n)
	}
	for _, v := range list {
		if len(v) != 64 || !isObjectID(v) {
			r.fail(name, "%q is not a SHA-256 in 64 lower-case hexadecimal digits", v)
		}
	}
	return list
}

// projects reads which configurations there are.
func (r *inputReader) projects() []project {
	list := []project{{config: verifier.ConfigFile}}
	if paths := strings.Fields(r.text("config")); len(paths) > 0 {
		list = nil
		for _, path := range paths {
			p := project{config: path, name: projectName(path)}
			if !fs.ValidPath(path) || !filepath.IsLocal(path) {
				r.fail("config", "%q is no path of the repository", path)
			}
			if slices.ContainsFunc(list, func(o project) bool { return o.name == p.name }) {
				r.fail("config", "two projects are called %s", p.name)
			}
			list = append(list, p)
		}
	}
	if len(list) == 1 {
		list[0].name = ""
	}
	sums, seals := r.digests("bundle-sha256", len(list)), r.digests("seal", len(list))
	for i := range list {
		if i < len(sums) {
			list[i].sha256 = sums[i]
		}
		if i < len(seals) {
			list[i].seal = seals[i]
		}
	}
	return list
}

// projectName is the folder of a configuration, as a word.
func projectName(config string) string {
	dir := path.Dir(config)
	if dir == "." {
		return "root"
	}
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' {
			return r
		}
		return '-'
	}, dir)
}

// bundleName is the beginning of the name of the bundle of a project.
func (p *project) bundleName(head string) string {
	name := "truegreen-"
	if p.name != "" {
		name += p.name + "-"
	}
	return name + short(head) + "-a"
}

// repository is the name that patches of the job's repository have.
func (s *ciStep) repository() string {
	_, host, _ := strings.Cut(s.job.Server, "://")
	return host + "/" + s.job.Repository
}

// forgeError is the error of a forge that could not be asked.
func forgeError(err error) error {
	var no *forge.PermissionError
	if errors.As(err, &no) {
		err = fmt.Errorf("%w\n%s", err, no.Fix())
	}
	return &codeError{verifier.ForgeFailed, err}
}

// run makes a run of the event's patch, for each project.
func (s *ciStep) run(ctx context.Context) error {
	c, err := s.job.Checkout(s.event, s.in.tree, s.in.tested)
	if err != nil {
		return usage("%v", err)
	}
	dir := cmp.Or(s.in.output, filepath.Join(s.getenv("RUNNER_TEMP"), "truegreen-evidence"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if forge.OIDCInReach(s.getenv) {
		fmt.Fprintln(s.out, "::warning title=truegreen: oidc-beside-tests::This job can ask for OIDC tokens. Take id-token: write from it: only a job that runs no code of the project should sign.")
	}
	page, out := s.page(forge.Target{Commit: c.Head, Head: c.Head}), ciOutputs{}
	for i := range s.in.projects {
		p := &s.in.projects[i]
		f := runFlags{evidence: s.in.evidence, receipts: s.in.receipts}
		o := &f.o
		o.Repo, o.Name = cmp.Or(s.getenv("GITHUB_WORKSPACE"), "."), s.repository()
		o.Head, o.Base, o.Onto, o.Merge = c.Head, c.Base, c.Onto, c.Merge
		o.MinLevel, o.Attempt = s.in.isolation, s.job.Attempt
		o.Out = filepath.Join(dir, p.bundleName(c.Head)+strconv.Itoa(s.job.Attempt)+bundleSuffix)
		if p.config != verifier.ConfigFile {
			o.Config = p.config
		}
		section, tested, err := s.runProject(ctx, &f)
		if err != nil {
			return err
		}
		section.Name = p.name
		page.Sections = append(page.Sections, section)
		out.of(section.Report)
		out.add("bundle-path", o.Out)
		out.add("bundle-sha256", section.SHA256)
		page.Target.Tested, out["tested"] = tested, tested
	}
	if err := s.outputs(out.done(page)); err != nil {
		return err
	}
	if err := s.log(page); err != nil {
		return err
	}
	s.annotate(page)
	return exitWithVerdict(page.Verdict())
}

func (s *ciStep) runProject(ctx context.Context, f *runFlags) (section forge.Section, tested string, err error) {
	if err := s.setUpRun(f); err != nil {
		return section, "", err
	}
	done, anchor, err := s.makeRun(ctx, f)
	if err != nil {
		return section, "", err
	}
	defer done.Close()
	section.File = filepath.Base(done.Bundle)
	if section.Report, err = s.verifyRun(&f.o, done, anchor); err != nil {
		return section, "", err
	}
	section.SHA256, err = fileSHA256(done.Bundle)
	return section, done.Tested, err
}
