//go:build amd64 || arm64

package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// What output can do to whoever shows it. The sandbox passes it on unchanged:
// what it means is decided, once, where it is shown.
const (
	workflowCommands = "::set-env name=PATH::/tmp\n::add-mask::ok\n::add-matcher::/tmp/m.json\n::stop-commands::t\nx ##[add-path]/tmp\n\t::error::no\n"
	terminalCommands = "\x1b[2J\x1b[1A\x1b[2K\x1b]8;;http://198.51.100.53\x07ok\x1b]8;;\x07\x1b]52;c;b2s=\x07\x9b2J--- FAIL: TestX\r--- PASS: TestX\r\n\u202egnp\u2066\u200b\x00\xff\xfe\xc0\x80\n\n"
)

func channelRows() []Row {
	addTo := func(in *Inside) string { return open(in.File, unix.O_WRONLY|unix.O_APPEND) }
	create := func(in *Inside) string {
		return open(filepath.Join(in.Dir, "evidence/x.tar.zst"), unix.O_CREAT|unix.O_WRONLY)
	}
	plantDir := func(o *Outside) string {
		dir := filepath.Join(o.Dir, "evidence")
		if err := mkdir(dir, 0o777); err != nil {
			return ended(err)
		}
		return create(&Inside{Outside: *o})
	}
	runner := func(*Inside) string {
		for _, p := range []string{"/github/file_commands", "/github/workflow", "/home/runner/work/_temp/_runner_file_commands"} {
			if got := open(p, unix.O_RDONLY|unix.O_DIRECTORY); got != "ENOENT" {
				return got
			}
		}
		return "ENOENT"
	}
	rows := []Row{
		outputRow("90", "workflow commands in the output", workflowCommands),
		{ID: "91a", Name: "append to a file of the caller, as GITHUB_ENV is one", Level: sandbox.LevelRestricted, Want: []string{"ENOENT", "EACCES"}, Why: absentOrDenied, Try: addTo, Control: here(addTo)},
		{ID: "91b", Name: "find a CI runner's command files", Level: sandbox.LevelRestricted, Want: []string{"ENOENT"}, Try: runner, Control: mayRefuse(here(runner)),
			Why: "each place where GitHub's runner has them"},
		outputRow("92", "terminal commands in the output", terminalCommands),
		changeRow("96", "delete and add tests in the tree", "later_test.go", func(p string) error {
			return errors.Join(os.Remove(p), os.WriteFile(filepath.Join(filepath.Dir(p), "own_test.go"), nil, 0o644))
		}),
		{ID: "97", Name: "make a file beside the evidence", Level: sandbox.LevelRestricted, Want: []string{"ENOENT", "EACCES"}, Why: absentOrDenied, Try: create, Control: plantDir},
	}
	for i := range rows {
		rows[i].Group = "channel"
	}
	return rows
}

// outputRow writes text to standard output.
func outputRow(id, name, text string) Row {
	var got *bytes.Buffer
	return Row{
		ID: id, Name: name, Level: sandbox.LevelRestricted, Want: []string{"unchanged"}, Own: true,
		Why: "no control: the sandbox passes on what it reads; conformance.Elsewhere lists the tests of what is shown",
		Try: func(*Inside) string {
			if _, err := io.WriteString(os.Stdout, text); err != nil {
				return ended(err)
			}
			return "ok"
		},
		Spec: func(_ *Outside, spec *sandbox.Spec) {
			got = new(bytes.Buffer)
			spec.Stdout = got
		},
		Check: func(r *sandbox.Result) string {
			if why := exited(r, 0); why != "" {
				return why
			}
			if want := text + id + "\tok\n"; got.String() != want {
				return fmt.Sprintf("%q", got)
			}
			return "unchanged"
		},
	}
}

// changeRow changes a file in the directory that the command may change, which
// must work, and changes what it sees and nothing else.
func changeRow(id, name, file string, change func(p string) error) Row {
	at := func(in *Inside) string { return filepath.Join(in.Work, givenPrefix+id, file) }
	return Row{
		ID: id, Name: name, Level: walls, Want: []string{"ok"},
		Why: "it may be done, and must not be seen outside; below this level the runner makes a new tree for each command instead",
		Control: func(o *Outside) string {
			p := at(&Inside{Outside: *o})
			if err := give(filepath.Dir(p), p, o.Secret); err != nil {
				return ended(err)
			}
			return "ok"
		},
		Try: func(in *Inside) string { return ended(change(at(in))) },
		After: func(o *Outside) string {
			p := at(&Inside{Outside: *o})
			b, err := os.ReadFile(p)
			if err != nil {
				return ended(err)
			}
			list, err := os.ReadDir(filepath.Dir(p))
			if err != nil {
				return ended(err)
			}
			if string(b) != o.Secret || len(list) != 1 {
				return "outside it is changed"
			}
			return "ok"
		},
	}
}

// givenPrefix begins the names of what controls put into the work folder.
const givenPrefix = "row"

// give makes a directory with a file that sandboxes may change.
func give(dir, p, content string) error {
	if err := mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		return err
	}
	uid, gid, chown := sandbox.Owner()
	if !chown {
		return nil
	}
	var st unix.Stat_t // of the tree, whose owner the command is
	if err := unix.Stat(filepath.Dir(dir), &st); err != nil {
		return err
	}
	if st.Uid != 0 {
		uid, gid = int(st.Uid), int(st.Gid)
	}
	return errors.Join(os.Chown(dir, uid, gid), os.Chown(p, uid, gid))
}

// lastLine shortens what a program said.
func lastLine(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}
