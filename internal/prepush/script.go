package prepush

import (
	"fmt"
	"strings"
)

// The names of hooks in their folder.
const (
	HookName  = "pre-push"
	ChainName = "pre-push.before-truegreen" // what was there when ours was installed
)

// marker begins the second line of the installed hook.
const marker = "# The pre-push hook of truegreen, version 1."

// A Script is what the installed hook is to do.
type Script struct {
	Mode    Mode
	Notes   bool   // attach a note to what passes
	Program string // absolute path
}

// Text returns the hook. It finds the program by its absolute path, because programs with
// windows start Git with another PATH than a shell has, and else on the PATH, because a
// path goes stale. Git's input is not read by it, so that whoever is called gets all of it.
func (s Script) Text() string {
	var b strings.Builder
	notes := ""
	if s.Notes {
		notes = " --notes"
	}
	fmt.Fprintf(&b, `#!/bin/sh
%s
# To remove it, and put back what was here before: truegreen hook uninstall
mode=%s
program=%s
before="${0%%/*}/%s"
if ! test -x "$program"; then
	program=$(command -v truegreen) || program=
fi
if test -n "$program"; then
	exec "$program" hook pre-push --mode "$mode"%s --chain "$before" -- "$@"
fi
echo "truegreen: the program is gone: it is neither where the hook was installed from nor on the PATH" >&2
echo "truegreen: install it again, or remove the hook $0" >&2
if test "$mode" != warn; then
	echo "truegreen: the push is blocked, since the mode of the hook is $mode" >&2
	exit 2
fi
if test -x "$before"; then
	exec "$before" "$@"
fi
`, marker, s.Mode, shellQuoted(s.Program), ChainName, notes)
	return b.String()
}

// shellQuoted returns a word that is s in a shell.
func shellQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// ReadScript reads an installed hook; ok says that it is one of ours. What is not as
// Text writes it, because someone has edited it, has a zero value.
func ReadScript(text string) (_ Script, ok bool) {
	_, rest, _ := strings.Cut(text, "\n")
	line, rest, _ := strings.Cut(rest, "\n")
	if line != marker {
		return Script{}, false
	}
	var s Script
	for line := range strings.Lines(rest) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		switch key {
		case "mode":
			s.Mode = Mode(value)
		case "program":
			s.Program = strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(value, "'"), "'"), `'\''`, "'")
		}
	}
	for _, s.Notes = range []bool{false, true} {
		if _, err := ParseMode(string(s.Mode)); err == nil && s.Text() == text {
			return s, true
		}
	}
	return Script{}, true
}
