package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/receipts/foreign"
	"github.com/truegreen-dev/truegreen/verifier"
)

func (a *app) receiptCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "receipt", Short: "Verify receipts that other tools made", Args: cobra.NoArgs,
		Long: `receipt verifies what other tools recorded of an agent's calls: whose word it is,
which call it is about, whether it is fresh, and whether anything is missing.
docs/receipts.md has the formats, and what each answer means.`,
		Example: "  truegreen receipt adapters",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var f receiptFlags
	var b foreign.Binding
	var prefix bool
	verify := &cobra.Command{
		Use: "verify FILE --adapter NAME", Short: "Verify a receipt, or a chain of them", Args: oneArg("FILE, or - for standard input"),
		Long: `verify asks a receipt what the flags ask, and says of each question: yes, no, or
unproven, where nothing is wrong and something is missing. A key that the receipt
brings along proves nothing: name yours with --key.

It exits with 0 if every answer is yes, with 3 if nothing is wrong and the end of
a chain or the key is unproven, with 4 if something is wrong, and with 2 if it
could not ask.`,
		Example: `  truegreen receipt verify r.json --adapter pipelock --key pipelock.pub --target https://example.com --allowed --max-age 24h
  truegreen receipt verify log.jsonl --adapter pipelock --chain --key pipelock.pub
  truegreen receipt verify token --adapter jws --alg EdDSA --key pub.pem --issuer my-orchestrator --tool read_email
  truegreen receipt verify run.cclog --adapter crustcore --receipts run.receipts --secret key`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.receiptVerify(cmd.Context(), args[0], &f, b, prefix)
		},
	}
	f.register(verify)
	flags := verify.Flags()
	flags.StringVar(&b.Tool, "tool", "", "the tool that the receipt has to be about")
	flags.StringVar(&b.ArgHash, "arg-hash", "", "the hash of its arguments: sha256: and 64 hexadecimal digits")
	flags.StringVar(&b.Target, "target", "", "what the call has to have been made to")
	flags.BoolVar(&b.Allowed, "allowed", false, "the call has to have been allowed, and not only recorded")
	flags.BoolVar(&prefix, "allow-prefix", false, "exit with 0 if only the end of the chain is unproven")
	completes(verify, map[string]string{"tool": "", "arg-hash": "", "target": ""})
	a.jsonFlag(verify)

	adapters := &cobra.Command{
		Use: "adapters", Short: "List the formats of receipts", Args: cobra.NoArgs,
		Example: "  truegreen receipt adapters --json",
		RunE:    func(*cobra.Command, []string) error { return a.receiptFormats() },
	}
	a.jsonFlag(adapters)
	cmd.AddCommand(verify, adapters)
	return cmd
}

// verifiedReceipt is what receipt verify prints with --json.
type verifiedReceipt struct {
	Verdict      string                `json:"verdict"` // valid, valid-prefix, unproven or invalid
	Exit         int                   `json:"exit"`
	Verification *foreign.Verification `json:"verification"` // null where the bytes are malformed
	Malformed    *malformedReceipt     `json:"malformed,omitempty"`
}

type malformedReceipt struct {
	Code   string `json:"code"`
	Line   int64  `json:"line,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// What a receipt comes to.
const (
	receiptValid    = "valid"
	receiptPrefix   = "valid-prefix"
	receiptUnproven = "unproven"
	receiptInvalid  = "invalid"
)

func (a *app) receiptVerify(ctx context.Context, path string, f *receiptFlags, b foreign.Binding, prefix bool) error {
	if hash, ok := strings.CutPrefix(b.ArgHash, "sha256:"); b.ArgHash != "" && (!ok || len(hash) != 64 || strings.Trim(hash, "0123456789abcdef") != "") {
		return usage("--arg-hash %q: want sha256: and 64 lower-case hexadecimal digits", b.ArgHash)
	}
	adapter, err := f.adapter(time.Now)
	if err != nil {
		return err
	}
	in := io.Reader(os.Stdin)
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return &codeError{verifier.Unreadable, err}
		}
		defer file.Close()
		in = file
	}
	v, err := adapter.Verify(ctx, in, b)
	out := verifiedReceipt{Verification: &v}
	var bad *foreign.MalformedError
	switch {
	case errors.As(err, &bad):
		out = verifiedReceipt{Verdict: receiptInvalid, Exit: 4, Malformed: &malformedReceipt{Code: bad.Code, Line: bad.Line}}
		if bad.Err != nil {
			out.Malformed.Detail = bad.Err.Error()
		}
	case err != nil:
		return err
	default:
		out.Verdict, out.Exit = receiptVerdict(&v)
		if prefix && out.Verdict == receiptPrefix {
			out.Exit = 0
		}
	}
	if a.json {
		err = a.printJSON(out)
	} else {
		err = a.showReceipt(&out)
	}
	if err == nil && out.Exit != 0 {
		err = exitCode(out.Exit)
	}
	return err
}

// receiptVerdict returns what a verification comes to, and the exit code.
func receiptVerdict(v *foreign.Verification) (string, int) {
	if v.Trusted() {
		return receiptValid, 0
	}
	if v.Worst() == foreign.No {
		return receiptInvalid, 4
	}
	for _, q := range v.Answers() {
		if q.Answer == foreign.Unproven && q.Question != "end" {
			return receiptUnproven, 3
		}
	}
	if v.End == foreign.Unproven {
		return receiptPrefix, 3
	}
	return receiptUnproven, 3 // nobody vouches for anything
}

func (a *app) receiptFormats() error {
	if a.json {
		return a.printJSON(receiptAdapters)
	}
	for _, r := range receiptAdapters {
		fmt.Fprintf(a.out, "%-10s %s\n%-10s carries %s\n%-10s takes --%s\n", r.Name, r.About, "", strings.Join(r.Carries, ", "), "", strings.Join(r.Flags, ", --"))
	}
	return nil
}
