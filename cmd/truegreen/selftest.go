package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/verifier"
)

func (a *app) selftestCommand() *cobra.Command {
	var panics, isolation, matrix bool
	var image, mode string
	cmd := &cobra.Command{
		Use: "selftest", Short: "Make every reason happen, and see that it is the one given", Args: cobra.NoArgs,
		Long: `selftest makes, for every code in docs/reasons.md, a bundle or a situation that
has exactly this reason, and compares verdict and exit code with what is
documented. It needs git, no network and no privileges, and leaves nothing behind.

With --sandbox it attacks the sandbox instead: it makes the attempts of
docs/sandbox.md from inside, in every mode that this host offers. It exits with 0
if there was a mode and every attempt ended as it must, and with 2 otherwise.`,
		Example: "  truegreen selftest\n  truegreen selftest --json\n  truegreen selftest --sandbox",
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case panics:
				panic("this is meant: the self-test asks for it")
			case (image != "" || mode != "") && !isolation:
				return usage("--image and --mode go with --sandbox")
			case matrix && (!isolation || a.json):
				return usage("--markdown goes with --sandbox, and not with --json")
			case isolation:
				return a.selftestSandbox(cmd.Context(), mode, image, matrix)
			}
			return a.selftest()
		},
	}
	a.jsonFlag(cmd)
	cmd.Flags().BoolVar(&isolation, "sandbox", false, "attack the sandbox from inside")
	cmd.Flags().StringVar(&image, "image", "", "attack mode container, too, with this image (with --sandbox)")
	cmd.Flags().BoolVar(&matrix, "markdown", false, "print the attempts as a table (with --sandbox)")
	cmd.Flags().BoolVar(&panics, "panic", false, "fail as a program does that has a bug")
	cmd.Flags().StringVar(&mode, "mode", "", "attack this mode only (with --sandbox)")
	completes(cmd, map[string]string{"image": "", "mode": ""})
	if err := cmd.Flags().MarkHidden("panic"); err != nil {
		panic(err) // there is no such flag
	}
	return cmd
}

// A trial makes something happen, in a new folder, and says what came of it.
type trial func(dir string) (observed, error)

// observed is what a user gets to see: of a report, or of a command that has none.
type observed struct {
	Codes   []verifier.Code  `json:"codes"`
	Verdict verifier.Verdict `json:"verdict,omitempty"`
	Exit    int              `json:"exit_code"`
}

// A skip is the error of a trial that this system does not allow.
type skip string

func (s skip) Error() string { return string(s) }

// A tried code is one line of the result.
type tried struct {
	Code    verifier.Code    `json:"code"`
	Verdict verifier.Verdict `json:"verdict,omitempty"`
	Exit    int              `json:"exit_code"`
	OK      bool             `json:"ok"`
	Skipped string           `json:"skipped,omitempty"`
	Got     *observed        `json:"got,omitempty"` // where that is something else
	Error   string           `json:"error,omitempty"`
}

func (a *app) selftest() error {
	dir, err := os.MkdirTemp("", "truegreen-selftest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	causes, trials := verifier.Causes(), bundleTrials()
	maps.Copy(trials, gateTrials())
	maps.Copy(trials, commandTrials())
	results := make([]chan tried, len(causes))
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, c := range causes {
		results[i] = make(chan tried, 1)
		go func() {
			free <- struct{}{}
			results[i] <- try(c, trials[c.Code], filepath.Join(dir, string(c.Code)))
			<-free
		}()
	}
	list := make([]tried, len(causes))
	good, bad := 0, 0
	for i := range results {
		list[i] = <-results[i]
		switch {
		case list[i].OK:
			good++
		case list[i].Skipped == "":
			bad++
		}
		if !a.json {
			a.printTried(&list[i])
		}
	}
	if a.json {
		err = a.printJSON(struct {
			OK    int     `json:"ok"`
			Of    int     `json:"of"`
			Codes []tried `json:"codes"`
		}{good, len(list), list})
	} else {
		_, err = fmt.Fprintf(a.out, "%d of %d codes\n", good, len(list))
	}
	if err == nil && bad > 0 {
		err = exitCode(2)
	}
	return err
}

func (a *app) printTried(t *tried) {
	verdict := string(t.Verdict)
	if verdict == "" {
		verdict = "-"
	}
	mark, note := "ok  ", ""
	switch {
	case t.Skipped != "":
		mark, note = "skip", "  skipped: "+t.Skipped
	case t.Error != "":
		mark, note = "FAIL", "  "+t.Error
	case !t.OK:
		mark, note = "FAIL", fmt.Sprintf("  got %v, %q, exit code %d", t.Got.Codes, t.Got.Verdict, t.Got.Exit)
	}
	fmt.Fprintf(a.out, "%s  %-26s %-9s %d%s\n", mark, t.Code, verdict, t.Exit, oneLine(note))
}

// try makes a code happen and compares what came of it with its documentation.
func try(c verifier.Cause, t trial, dir string) (result tried) {
	result = tried{Code: c.Code, Verdict: c.Verdict, Exit: 2}
	if c.Verdict != "" {
		result.Exit = c.Verdict.Exit()
	}
	defer func() {
		if p := recover(); p != nil {
			result.Error = fmt.Sprint("panic: ", p)
		}
	}()
	if t == nil {
		result.Error = "nothing makes it happen"
		return result
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		result.Error = err.Error()
		return result
	}
	got, err := t(dir)
	var skipped skip
	switch {
	case errors.As(err, &skipped):
		result.Skipped = string(skipped)
	case err != nil:
		result.Error = err.Error()
	case slices.Equal(got.Codes, []verifier.Code{c.Code}) && got.Verdict == c.Verdict && got.Exit == result.Exit:
		result.OK = true
	default:
		result.Got = &got
	}
	return result
}

// observeReport shows a report as the commands do, and reads what they show.
func observeReport(r verifier.Report) (observed, error) {
	var text bytes.Buffer
	shown := &app{out: &text, err: &text, getenv: func(string) string { return "" }}
	if err := shown.printJSON(r); err != nil {
		return observed{}, err
	}
	var exit exitCode
	if err := exitWith(r); err != nil && !errors.As(err, &exit) {
		return observed{}, err
	}
	got, err := observeJSON(text.Bytes(), int(exit))
	if err != nil {
		return observed{}, err
	}
	text.Reset()
	shown.printReport(r)
	for _, code := range got.Codes {
		if !strings.Contains(text.String(), string(code)) {
			return observed{}, fmt.Errorf("the text does not name %s: %s", code, text.String())
		}
	}
	return got, nil
}

// observeJSON reads what a command with --json printed.
func observeJSON(text []byte, exit int) (observed, error) {
	var got struct {
		Verdict *verifier.Verdict
		Exit    int `json:"exit_code"`
		Reasons []struct {
			Code   verifier.Code
			Remedy string
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		return observed{}, fmt.Errorf("output %q: %w", text, err)
	}
	if got.Exit != exit {
		return observed{}, fmt.Errorf("exit code %d, and in JSON %d", exit, got.Exit)
	}
	o := observed{Exit: exit}
	if got.Verdict != nil {
		o.Verdict = *got.Verdict
	}
	for _, r := range got.Reasons {
		if r.Remedy == "" {
			return observed{}, fmt.Errorf("%s: no remedy", r.Code)
		}
		o.Codes = append(o.Codes, r.Code)
	}
	return o, nil
}
