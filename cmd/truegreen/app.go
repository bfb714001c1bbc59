package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/truegreen-dev/truegreen/forge"
	"github.com/truegreen-dev/truegreen/verifier"
)

// An app is what every command has: its streams and its environment. Results go
// to out; everything else goes to err, with the prefix "truegreen: ".
type app struct {
	out, err io.Writer
	getenv   func(string) string
	json     bool
}

// An output is a file that remembers why it could not be written.
type output struct {
	f   *os.File
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.f.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// state returns the state folder. In a job of a CI runner it is below the folder
// that goes with the job: what one repository's job leaves, another's does not
// find.
func (a *app) state() (string, error) {
	if dir := a.getenv("TRUEGREEN_STATE"); dir != "" {
		return filepath.Abs(dir)
	}
	if dir := a.getenv(jobFolder); filepath.IsAbs(dir) {
		return filepath.Join(dir, "truegreen"), nil
	}
	if dir := a.getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "truegreen"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", &codeError{verifier.Unreadable, fmt.Errorf("state folder: %w; set TRUEGREEN_STATE", err)}
	}
	if runtime.GOOS == "windows" {
		return filepath.Join(home, "AppData", "Local", "truegreen"), nil
	}
	return filepath.Join(home, ".local", "state", "truegreen"), nil
}

// jobFolder names the variable with the folder that a CI runner empties before and
// after each job.
const jobFolder = "RUNNER_TEMP"

// ephemeral reports whether a state folder goes with the job. A key in there was
// made during the job, beside all else that runs in it: it is no anchor for a
// process that did not make it or run by it.
func (a *app) ephemeral(state string) bool {
	dir := a.getenv(jobFolder)
	rel, err := filepath.Rel(dir, state)
	return filepath.IsAbs(dir) && err == nil && filepath.IsLocal(rel)
}

func (a *app) jsonFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON")
}

// printJSON writes v, indented on a terminal. What a terminal or the log of a CI
// job would act on, or show as something else, is written as \u escapes, which
// mean the same.
func (a *app) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if isTerminal(a.out) {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		return err
	}
	text := make([]byte, 0, b.Len())
	for _, r := range forge.HideMarks(b.String(), `\u0023`) { // in strings only
		switch {
		case r < 0x7f || unicode.IsPrint(r):
			text = utf8.AppendRune(text, r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			text = fmt.Appendf(text, `\u%04x\u%04x`, hi, lo)
		default:
			text = fmt.Appendf(text, `\u%04x`, r)
		}
	}
	_, err := a.out.Write(text)
	return err
}

func isTerminal(w any) bool {
	if o, ok := w.(*output); ok {
		w = o.f
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// color returns text in an SGR color, on a terminal that wants it.
func (a *app) color(sgr, text string) string {
	if a.getenv("NO_COLOR") != "" || a.getenv("TERM") == "dumb" || !isTerminal(a.out) {
		return text
	}
	return "\x1b[" + sgr + "m" + text + "\x1b[0m"
}
