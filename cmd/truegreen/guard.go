package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/guard"
	"github.com/truegreen-dev/truegreen/receipts/foreign"
	"github.com/truegreen-dev/truegreen/verifier"
)

// guardFlags are the flags of guard.
type guardFlags struct {
	receipts receiptFlags
	receipt  string
	mode     string
	kind     string
	source   string
	parent   string
	b        foreign.Binding
}

func (a *app) guardCommand() *cobra.Command {
	var f guardFlags
	cmd := &cobra.Command{
		Use:   "guard [FILE]",
		Short: "Say whether the result of a tool is safe to show",
		Long: `guard reads what a tool put out, from FILE or standard input, and says what in it
would act on a model, a terminal, a CI job or a reviewer that is shown it: orders,
role markers, escapes, hidden characters, workflow commands, secrets. With
--adapter it asks for a receipt, too, and without a trusted one the result is
untrusted, whatever it says.

The modes: block and flag say what was found, log says it and lets it pass, and
sanitize prints the text without it, the report on standard error.

It exits with 0 if nothing was found, or the mode is log or sanitize; with 1 if
something was; with 4 if a receipt was asked for and is not trusted; and with 2 if
it could not look. docs/guard.md has the rules.`,
		Example: `  truegreen guard --tool read_email < output.txt
  truegreen guard --mode sanitize < output.txt > shown.txt
  truegreen guard --tool read_email --adapter jws --alg EdDSA --key pub.pem --receipt token < output.txt`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("want one FILE, or standard input, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.guardResult(cmd, args, &f) },
	}
	f.receipts.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.mode, "mode", string(guard.Flag), "block, flag, log or sanitize")
	flags.StringVar(&f.b.Tool, "tool", "", "the tool's name; with --adapter the receipt has to be about it")
	flags.StringVar(&f.kind, "tool-type", "", "what it is, such as web_search, retrieval or code_exec")
	flags.StringVar(&f.source, "source", "", "the URL that the result is from")
	flags.StringVar(&f.parent, "parent", "", "the scan that this one belongs to")
	flags.StringVar(&f.receipt, "receipt", "", "the file with the receipt of the call")
	flags.StringVar(&f.b.ArgHash, "arg-hash", "", "the hash of the tool's arguments: sha256: and 64 hexadecimal digits")
	flags.StringVar(&f.b.Target, "target", "", "what the call has to have been made to")
	flags.BoolVar(&f.b.Allowed, "allowed", true, "the receipt has to say that the call was allowed, where its format can")
	completes(cmd, map[string]string{"tool": "", "source": "", "parent": "", "receipt": completeFile, "arg-hash": "", "target": ""})
	for flag, list := range map[string][]cobra.Completion{
		"mode":      {string(guard.Block), string(guard.Flag), string(guard.Log), string(guard.Sanitize)},
		"tool-type": {"retrieval", "rag", "web_search", "search", "code_exec"},
	} {
		if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // there is no such flag
		}
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) guardResult(cmd *cobra.Command, args []string, f *guardFlags) error {
	o := guard.Options{Mode: guard.Mode(f.mode), NoCache: true}
	result := guard.Result{ToolName: f.b.Tool, ToolType: f.kind, SourceURL: f.source, ParentScanID: f.parent}
	if f.receipts.name != "" {
		adapter, err := f.receipts.adapter(time.Now)
		if err != nil {
			return err
		}
		known, err := findAdapter(f.receipts.name)
		if err != nil {
			return err
		}
		o.Adapter, result.Binding = adapter, f.binding(cmd, known)
	} else if f.receipt != "" {
		return usage("--receipt needs --adapter: nothing can verify it")
	}
	g, err := guard.New(o)
	if err != nil {
		return usage("--%v", err)
	}
	if f.receipt != "" {
		if result.Receipt, err = readLimited(f.receipt, guard.MaxContent); err != nil {
			return err
		}
	}
	name := "-"
	if len(args) == 1 {
		name = args[0]
	}
	if result.Content, err = readLimited(name, guard.MaxContent); err != nil {
		return err
	}
	report, err := g.Scan(cmd.Context(), result)
	if err != nil {
		return err
	}
	if err := a.showGuard(&report); err != nil {
		return err
	}
	switch {
	case report.Receipt != nil && !report.Receipt.Trusted:
		return exitCode(4)
	case report.Action == guard.ActionFlag && report.Mode != guard.Sanitize, report.Action == guard.ActionBlock:
		return exitCode(1)
	}
	return nil
}

// binding is what a receipt is asked to be about: what the flags say, also where receipts
// of the format cannot say it, and are not trusted then. The permission alone is not asked
// of those that know none, unless the flag is there.
func (f *guardFlags) binding(cmd *cobra.Command, a *receiptAdapter) foreign.Binding {
	b := f.b
	if !a.carries("decision") && !cmd.Flags().Changed("allowed") {
		b.Allowed = false
	}
	return b
}

// readLimited reads a file, or standard input, of a size that can be scanned.
func readLimited(path string, limit int64) ([]byte, error) {
	in := io.Reader(os.Stdin)
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, &codeError{verifier.Unreadable, err}
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s: more than %d bytes", path, limit)
	}
	if err != nil {
		return nil, &codeError{verifier.Unreadable, err}
	}
	return b, nil
}

// showGuard prints a report, and in mode sanitize the text that can be shown.
func (a *app) showGuard(r *guard.Report) error {
	if a.json {
		return a.printJSON(r)
	}
	w := io.Writer(a.out)
	if r.Sanitized != nil {
		w = a.err
		if _, err := io.WriteString(a.out, *r.Sanitized); err != nil {
			return err
		}
	}
	head := fmt.Sprintf("%s: %d bytes, nothing found", r.Action, r.Bytes)
	if n := len(r.Detections) + r.More; n > 0 {
		head = fmt.Sprintf("%s: %d bytes, %d found", r.Action, r.Bytes, n)
	}
	if r.Reason != "" && r.Reason != "detections" {
		head += ", " + oneLine(r.Reason)
	}
	_, err := fmt.Fprintf(w, "%s\n", head)
	for _, d := range r.Detections {
		where := fmt.Sprintf(" at %d", d.Span.Start)
		if d.Span.End == 0 { // it is of the receipt
			where = ""
		}
		hidden := ""
		if d.Encoding != "" {
			hidden = " in " + d.Encoding + ": " + d.Inside
		}
		_, e := fmt.Fprintf(w, "  %-8s %s%s%s: %s\n", d.Severity, oneLine(d.Detector+"/"+d.Rule), where, oneLine(hidden), oneLine(d.Explanation))
		if d.Matched != "" {
			_, e2 := fmt.Fprintf(w, "           %s\n", oneLine(d.Matched))
			e = errors.Join(e, e2)
		}
		err = errors.Join(err, e)
	}
	if r.More > 0 {
		_, e := fmt.Fprintf(w, "  and %d more\n", r.More)
		err = errors.Join(err, e)
	}
	if len(r.Families) > 0 {
		_, e := fmt.Fprintf(w, "  advice   %s\n", oneLine(r.Mitigation))
		err = errors.Join(err, e)
	}
	return err
}
