package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/internal/prepush"
	"github.com/truegreen-dev/truegreen/verifier/runner"
)

// maxHook is the size of a hook that is looked at.
const maxHook = 1 << 20

// hookFiles are the hook and what it was installed in front of.
type hookFiles struct {
	runner.HooksFolder
	hook, before string
}

func findHook(ctx context.Context, repo string) (hookFiles, error) {
	folder, err := runner.FindHooks(ctx, repo, os.Environ())
	if err != nil {
		return hookFiles{}, err
	}
	return hookFiles{folder, filepath.Join(folder.Path, prepush.HookName), filepath.Join(folder.Path, prepush.ChainName)}, nil
}

// read returns the installed hook; ours says that it is there and truegreen's. What is not
// a small file is somebody else's.
func (h hookFiles) read() (s prepush.Script, ours, there bool, err error) {
	info, err := os.Lstat(h.hook)
	if errors.Is(err, fs.ErrNotExist) {
		return prepush.Script{}, false, false, nil
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxHook {
		return prepush.Script{}, false, true, err
	}
	text, err := os.ReadFile(h.hook)
	if err != nil {
		return prepush.Script{}, false, true, err
	}
	s, ours = prepush.ReadScript(string(text))
	return s, ours, true, nil
}

// chained reports whether a hook is kept.
func (h hookFiles) chained() bool {
	_, err := os.Lstat(h.before)
	return err == nil
}

// managed says who owns the folder, and writes it again when it likes; "" for nobody.
func (h hookFiles) managed() string {
	if filepath.Base(h.Path) == "_" && filepath.Base(filepath.Dir(h.Path)) == ".husky" {
		return `husky writes this folder again at each install: add the line   truegreen hook pre-push "$@"   to .husky/pre-push instead`
	}
	return ""
}

func (a *app) hookInstall(ctx context.Context, repo string, s prepush.Script) error {
	h, err := findHook(ctx, repo)
	if err != nil {
		return err
	}
	if why := h.managed(); why != "" {
		return usage("%s: %s", h.Path, why)
	}
	if s.Program, err = program(); err != nil {
		return err
	}
	old, ours, there, err := h.read()
	if err != nil {
		return err
	}
	if there && !ours {
		if h.chained() {
			return usage("%s: another hook has taken the place of truegreen's, and %s is what was there before: remove one of the two", h.hook, h.before)
		}
		// Both names have it for a moment: there is no time without a hook.
		if err := keep(h.hook, h.before); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(h.Path, 0o755); err != nil {
		return err
	}
	if err := writeHook(h.hook, s.Text()); err != nil {
		return err
	}
	switch {
	case ours && old == s:
		fmt.Fprintf(a.out, "kept   %s, mode %s\n", oneLine(h.hook), s.Mode)
	default:
		fmt.Fprintf(a.out, "wrote  %s, mode %s\n", oneLine(h.hook), s.Mode)
	}
	if h.chained() {
		fmt.Fprintf(a.out, "       calls %s afterwards, which was there\n", oneLine(h.before))
	}
	switch h.Scope {
	case "", "local", "worktree":
	default:
		fmt.Fprintf(a.out, "       core.hooksPath is set in the %s configuration: it is the hook of all your repositories\n", oneLine(h.Scope))
	}
	if rel, err := filepath.Rel(h.Top, h.Path); h.Top != "" && err == nil && filepath.IsLocal(rel) && !strings.HasPrefix(filepath.ToSlash(rel)+"/", ".git/") {
		fmt.Fprintf(a.out, "       it is in the work tree, and names a path of this machine: do not commit it\n")
	}
	fmt.Fprintln(a.out, "       to remove it: truegreen hook uninstall")
	// The first push need not open all bundles that there are. If this fails, it does.
	if state, err := a.state(); err == nil {
		if err := runner.IndexBundles(ctx, state, time.Now()); err != nil {
			fmt.Fprintf(a.err, "truegreen: %s\n", oneLine(err.Error()))
		}
	}
	return nil
}

// program returns the absolute path by which this program was called. Where that is a
// link, an update changes what it leads to.
func program() (string, error) {
	path, err := exec.LookPath(os.Args[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		if path, err = os.Executable(); err != nil {
			return "", err
		}
	}
	if strings.ContainsAny(path, "\n\r\x00") {
		return "", usage("%q: a path with a line end cannot be in a hook", path)
	}
	return filepath.Abs(path)
}

// keep gives a hook a second name, which nothing has.
func keep(hook, before string) error {
	err := os.Link(hook, before)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	// There are file systems without hard links, and some systems follow symbolic ones.
	if _, statErr := os.Lstat(before); !errors.Is(statErr, fs.ErrNotExist) {
		return cmp.Or(statErr, err)
	}
	return os.Rename(hook, before)
}

// writeHook writes the hook whole, or not at all.
func writeHook(path, text string) error {
	tmp := path + ".truegreen-" + rand.Text()
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Chmod(0o755), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

func (a *app) hookUninstall(ctx context.Context, repo string) error {
	h, err := findHook(ctx, repo)
	if err != nil {
		return err
	}
	_, ours, there, err := h.read()
	switch {
	case err != nil:
		return err
	case there && !ours && h.chained():
		return usage("%s: is not truegreen's; %s is what was there when truegreen's was installed", h.hook, h.before)
	case there && !ours:
		fmt.Fprintf(a.out, "%s is not truegreen's, and stays\n", oneLine(h.hook))
		return nil
	case h.chained():
		// It takes the place of ours, with its mode and all that it is.
		if err := os.Rename(h.before, h.hook); err != nil {
			return err
		}
		fmt.Fprintf(a.out, "removed the hook; %s is what it was before\n", oneLine(h.hook))
		return nil
	case !there:
		fmt.Fprintln(a.out, "there is no hook")
		return nil
	}
	if err := os.Remove(h.hook); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "removed %s\n", oneLine(h.hook))
	return nil
}

type hookReport struct {
	Hook      string       `json:"hook"`
	Scope     string       `json:"core_hooks_path,omitempty"` // where it is set
	Installed bool         `json:"installed"`
	Other     bool         `json:"other,omitempty"`  // a hook that is not truegreen's
	Edited    bool         `json:"edited,omitempty"` // or of another version
	Mode      prepush.Mode `json:"mode,omitempty"`
	Notes     bool         `json:"notes,omitempty"`
	Program   string       `json:"program,omitempty"`
	Gone      bool         `json:"program_gone,omitempty"`
	Before    string       `json:"calls,omitempty"`
}

func (a *app) hookStatus(ctx context.Context, repo string) error {
	h, err := findHook(ctx, repo)
	if err != nil {
		return err
	}
	s, ours, there, err := h.read()
	if err != nil {
		return err
	}
	r := hookReport{Hook: h.hook, Scope: h.Scope, Installed: ours, Other: there && !ours, Edited: ours && s == prepush.Script{}, Mode: s.Mode, Notes: s.Notes, Program: s.Program}
	if ours && s.Program != "" {
		_, err := os.Stat(s.Program)
		r.Gone = err != nil
	}
	if ours && h.chained() {
		r.Before = h.before
	}
	if a.json {
		return a.printJSON(r)
	}
	a.printHook(r)
	return nil
}

func (a *app) printHook(r hookReport) {
	switch {
	case r.Other:
		fmt.Fprintf(a.out, "not installed: %s is another hook; truegreen hook install goes in front of it\n", oneLine(r.Hook))
	case !r.Installed:
		fmt.Fprintf(a.out, "not installed: there is no %s\n", oneLine(r.Hook))
	case r.Edited:
		fmt.Fprintf(a.out, "installed   %s, which was edited, or is of another version\n", oneLine(r.Hook))
	default:
		fmt.Fprintf(a.out, "installed   %s\nmode        %s\nprogram     %s\n", oneLine(r.Hook), r.Mode, oneLine(r.Program))
	}
	if r.Gone {
		fmt.Fprintln(a.out, "            is gone: the hook looks for truegreen on the PATH")
	}
	if r.Notes {
		fmt.Fprintf(a.out, "notes       %s\n", runner.NotesRef)
	}
	if r.Before != "" {
		fmt.Fprintf(a.out, "calls       %s\n", oneLine(r.Before))
	}
	if r.Scope != "" {
		fmt.Fprintf(a.out, "note        core.hooksPath is set, %s\n", oneLine(r.Scope))
	}
}
