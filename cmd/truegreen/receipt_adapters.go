package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/receipts/foreign"
	"github.com/truegreen-dev/truegreen/receipts/jws"
	"github.com/truegreen-dev/truegreen/receipts/pipelock"
	"github.com/truegreen-dev/truegreen/verifier/runner"
)

// A receiptAdapter is what the command line knows about a format of receipts.
type receiptAdapter struct {
	Name    string   `json:"name"`
	About   string   `json:"about"`
	Carries []string `json:"carries"` // what its receipts have room for
	Flags   []string `json:"flags"`   // that it takes, beside those that all take

	make func(f *receiptFlags, r foreign.Rules, keys []foreign.Key) (foreign.Adapter, error)
}

// receiptAdapters are the formats, in the order in which they are listed.
var receiptAdapters = []receiptAdapter{
	{
		"pipelock", "Pipelock receipts, version 1 and 2, their chains, and flight recorders", []string{"target", "decision", "time", "chain", "end"},
		[]string{"chain", "expect-head", "expect-seq", "endorsement", "session", "exact", "whole-recorder", "allow-reversals"}, makePipelock,
	},
	{
		"jws", "claims about a call in a signed token (JSON Web Signature, compact form)", []string{"tool", "arguments", "time"},
		[]string{"alg", "issuer", "audience", "typ", "allow-no-expiry", "secret"}, makeJWS,
	},
	{
		"acta", "ACTA signed receipts: flat, envelope, passport and header", []string{"tool", "target", "decision", "time", "chain", "end"},
		[]string{"chain", "expect-head"}, makeActa,
	},
	{
		"dsse", "in-toto statements in DSSE envelopes, truegreen's own among them", []string{"target", "decision", "time"},
		[]string{"type", "threshold"}, makeDSSE,
	},
	{
		"crustcore", "CrustCore event logs with their receipts", []string{"tool", "arguments", "time", "chain", "end"},
		[]string{"expect-head", "expect-count", "expect-last", "receipts", "secret"}, makeCrustcore,
	},
	{
		runner.ReceiptProgramName, "what a program of yours knows, in a sandbox: exec:/path/to/program", []string{"tool", "arguments", "target", "decision", "time", "chain", "end"},
		[]string{"chain", "expect-head"}, makeProgram,
	},
}

// carries reports whether receipts of the format have room for something.
func (a *receiptAdapter) carries(what string) bool { return slices.Contains(a.Carries, what) }

// findAdapter returns what is known about a format.
func findAdapter(name string) (*receiptAdapter, error) {
	format, program, has := strings.Cut(name, ":")
	if has && format == runner.ReceiptProgramName && program != "" {
		name = format
	} else if name == runner.ReceiptProgramName {
		return nil, usage("--adapter exec: want the program, too: exec:/path/to/program")
	}
	var names []string
	for i := range receiptAdapters {
		if receiptAdapters[i].Name == name {
			return &receiptAdapters[i], nil
		}
		names = append(names, receiptAdapters[i].Name)
	}
	if name == "" {
		return nil, usage("say with --adapter what made the receipt: %s", strings.Join(names, ", "))
	}
	return nil, usage("--adapter %q: want one of %s", name, strings.Join(names, ", "))
}

// receiptFlags are the flags that say what receipts are to be checked with.
type receiptFlags struct {
	cmd     *cobra.Command
	name    string
	keys    []string
	secret  string
	maxAge  time.Duration
	skew    time.Duration
	seen    string
	at      string
	chain   bool
	head    string
	seq     int64
	endorse []string
	session string
	exact   bool
	whole   bool
	reverse bool
	algs    []string
	issuer  string
	aud     string
	typ     []string
	noExp   bool
	types   []string
	least   int
	records string
	count   uint64
	last    string
}

// register adds the flags to a command.
func (f *receiptFlags) register(cmd *cobra.Command) {
	f.cmd = cmd
	flags := cmd.Flags()
	flags.StringVar(&f.name, "adapter", "", "the format of the receipt: see truegreen receipt adapters")
	flags.StringArrayVar(&f.keys, "key", nil, "a key that counts: 64 hexadecimal digits, or a file with PEM, JWK or SSH keys; repeatable")
	flags.StringVar(&f.secret, "secret", "", "jws, crustcore: a file with the secret of a MAC, byte for byte")
	flags.DurationVar(&f.maxAge, "max-age", 0, "how old a receipt may be, such as 24h (default: any)")
	flags.DurationVar(&f.skew, "skew", foreign.DefaultSkew, "how far clocks may differ")
	flags.StringVar(&f.seen, "seen", "", "a folder that remembers receipts, so that none counts twice")
	flags.StringVar(&f.at, "at", "", "the time that it is taken to be, as 2006-01-02T15:04:05Z (default: now)")
	flags.BoolVar(&f.chain, "chain", false, "pipelock, acta, exec: the file is a chain of receipts, one a line: ask for its order and its end")
	flags.StringVar(&f.head, "expect-head", "", "pipelock, acta, crustcore, exec: the hash of the last receipt, or frame, which proves the end")
	flags.Int64Var(&f.seq, "expect-seq", -1, "pipelock: the chain_seq of the last receipt, which proves the end")
	flags.StringArrayVar(&f.endorse, "endorsement", nil, "pipelock: a file with the old key's word for a new one; repeatable")
	flags.StringVar(&f.session, "session", "", "pipelock: the session that the chain has to have opened")
	flags.BoolVar(&f.exact, "exact", false, "pipelock: refuse what its writer would write otherwise")
	flags.BoolVar(&f.whole, "whole-recorder", false, "pipelock: check a flight recorder's entries too")
	flags.BoolVar(&f.reverse, "allow-reversals", false, "pipelock: a target that was blocked may be allowed later under the same policy")
	flags.StringArrayVar(&f.algs, "alg", nil, "jws: an algorithm that counts, such as EdDSA; repeatable, of one family")
	flags.StringVar(&f.issuer, "issuer", "", "jws: the iss that is wanted")
	flags.StringVar(&f.aud, "audience", "", "jws: the aud that is wanted")
	flags.StringArrayVar(&f.typ, "typ", nil, "jws: a typ that counts; repeatable (default: JWT, or none)")
	flags.BoolVar(&f.noExp, "allow-no-expiry", false, "jws: a token may do without exp")
	flags.StringArrayVar(&f.types, "type", nil, "dsse: a predicate type that the keys vouch for; repeatable (default: any)")
	flags.IntVar(&f.least, "threshold", 1, "dsse: how many of the keys have to have signed")
	flags.StringVar(&f.records, "receipts", "", "crustcore: a file with the receipts of the log, one after another (default: those in the log)")
	flags.Uint64Var(&f.count, "expect-count", 0, "crustcore: how many receipts there have to be; with --expect-last")
	flags.StringVar(&f.last, "expect-last", "", "crustcore: the chain hash of the last receipt; with --expect-count")
	completes(cmd, map[string]string{
		"key": completeFile, "secret": completeFile, "max-age": "", "skew": "", "seen": completeFolder, "at": "", "expect-head": "", "expect-seq": "",
		"endorsement": completeFile, "session": "", "issuer": "", "audience": "", "typ": "", "type": "", "threshold": "", "receipts": completeFile,
		"expect-count": "", "expect-last": "",
	})
	names := make([]cobra.Completion, len(receiptAdapters))
	for i, a := range receiptAdapters {
		names[i] = cobra.CompletionWithDesc(a.Name, a.About)
	}
	algorithms := []cobra.Completion{"EdDSA", "Ed25519", "ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "HS256", "HS384", "HS512"}
	for flag, list := range map[string][]cobra.Completion{"adapter": names, "alg": algorithms} {
		if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // there is no such flag
		}
	}
}

// adapter makes what the flags say.
func (f *receiptFlags) adapter(now func() time.Time) (foreign.Adapter, error) {
	a, err := findAdapter(f.name)
	if err != nil {
		return nil, err
	}
	if err := f.fits(a); err != nil {
		return nil, err
	}
	rules := foreign.Rules{Now: now, MaxAge: f.maxAge, Skew: f.skew, Chain: f.chain, Head: f.head}
	if f.at != "" {
		at, err := time.Parse(time.RFC3339, f.at)
		if err != nil {
			return nil, usage("--at %q: want a time such as 2006-01-02T15:04:05Z", f.at)
		}
		rules.Now = func() time.Time { return at }
	}
	if f.maxAge < 0 || f.skew < 0 {
		return nil, usage("--max-age and --skew are not negative")
	}
	if f.skew == 0 {
		rules.Skew = 1 // none at all: zero is the default of the rules
	}
	keys, err := readReceiptKeys(f.keys)
	if err != nil {
		return nil, err
	}
	if f.secret != "" {
		secret, err := readSmall(f.secret)
		if err != nil {
			return nil, err
		}
		keys = append(keys, foreign.Key{Secret: secret})
	}
	if f.seen != "" {
		if err := os.MkdirAll(f.seen, 0o700); err != nil {
			return nil, err
		}
		if rules.Seen, err = foreign.OpenSeenFolder(f.seen, rules.Now); err != nil {
			return nil, err
		}
	}
	made, err := a.make(f, rules, keys)
	var coded *codeError
	switch {
	case errors.As(err, &coded):
		return nil, err
	case err != nil:
		return nil, usage("%v", err)
	}
	return made, nil
}

// fits reports a flag that is not for this format, and whose it is.
func (f *receiptFlags) fits(a *receiptAdapter) error {
	for i := range receiptAdapters {
		for _, flag := range receiptAdapters[i].Flags {
			if !f.cmd.Flags().Changed(flag) || slices.Contains(a.Flags, flag) {
				continue
			}
			var whose []string
			for _, other := range receiptAdapters {
				if slices.Contains(other.Flags, flag) {
					whose = append(whose, other.Name)
				}
			}
			return usage("--%s says nothing to %s: it is for %s", flag, a.Name, strings.Join(whose, ", "))
		}
	}
	return nil
}

// readReceiptKeys reads keys that are given as themselves or by the file that has them.
func readReceiptKeys(list []string) (keys []foreign.Key, err error) {
	for _, k := range list {
		text := []byte(k)
		if !isHexKey(k) {
			if text, err = readSmall(k); err != nil {
				return nil, err
			}
		}
		found, err := foreign.ParseKeys(text)
		if err != nil {
			return nil, usage("--key %s: %v", k, err)
		}
		keys = append(keys, found...)
	}
	return keys, nil
}

// isHexKey reports whether s is a key, and no file: 64 hexadecimal digits.
func isHexKey(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

func makePipelock(f *receiptFlags, r foreign.Rules, keys []foreign.Key) (foreign.Adapter, error) {
	o := foreign.PipelockOptions{
		Rules: r, Keys: keys, Exact: f.exact, Session: f.session, WholeRecorder: f.whole, AllowReversals: f.reverse,
	}
	if f.cmd.Flags().Changed("expect-seq") {
		o.Seq = &f.seq
	}
	for _, path := range f.endorse {
		text, err := readSmall(path)
		if err != nil {
			return nil, err
		}
		e, err := pipelock.ParseEndorsement(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		o.Endorsements = append(o.Endorsements, e)
	}
	return foreign.NewPipelock(o)
}

func makeJWS(f *receiptFlags, r foreign.Rules, keys []foreign.Key) (foreign.Adapter, error) {
	if len(f.algs) == 0 {
		return nil, usage("say with --alg which algorithms count, such as EdDSA: the token does not decide that")
	}
	o := foreign.JWSOptions{Rules: r, Keys: keys, Types: f.typ, Issuer: f.issuer, Audience: f.aud, AllowNoExpiry: f.noExp}
	for _, a := range f.algs {
		o.Algorithms = append(o.Algorithms, jws.Algorithm(a))
	}
	return foreign.NewJWS(o)
}

func makeActa(_ *receiptFlags, r foreign.Rules, keys []foreign.Key) (foreign.Adapter, error) {
	return foreign.NewActa(foreign.ActaOptions{Rules: r, Keys: keys})
}

func makeProgram(f *receiptFlags, r foreign.Rules, keys []foreign.Key) (foreign.Adapter, error) {
	_, path, _ := strings.Cut(f.name, ":")
	return runner.NewReceiptProgram(runner.ReceiptProgramOptions{Rules: r, Keys: keys, Path: path})
}

func makeDSSE(f *receiptFlags, r foreign.Rules, keys []foreign.Key) (foreign.Adapter, error) {
	return foreign.NewDSSE(foreign.DSSEOptions{Rules: r, Keys: keys, Types: f.types, Threshold: f.least})
}

func makeCrustcore(f *receiptFlags, r foreign.Rules, keys []foreign.Key) (foreign.Adapter, error) {
	o := foreign.CrustcoreOptions{Rules: r}
	switch {
	case len(keys) > 1 || len(keys) == 1 && keys[0].Secret == nil:
		return nil, usage("crustcore: a MAC has one key, which is secret: --secret FILE")
	case len(keys) == 1:
		o.Key = keys[0]
	}
	if f.records != "" {
		text, err := readSmall(f.records)
		if err != nil {
			return nil, err
		}
		if o.Receipts, err = receipts.ParseRecords(text, receipts.MaxCalls); err != nil {
			return nil, fmt.Errorf("%s: %w", f.records, err)
		}
		if o.Receipts == nil {
			o.Receipts = []receipts.Receipt{}
		}
	}
	if (f.last != "") != f.cmd.Flags().Changed("expect-count") {
		return nil, usage("--expect-count and --expect-last belong together")
	}
	if f.last != "" {
		last, err := receipts.ParseDigest(f.last)
		if err != nil {
			return nil, usage("--expect-last %s: %v", strconv.Quote(f.last), err)
		}
		o.Minted = &foreign.CrustcoreMinted{Count: f.count, Head: last}
	}
	return foreign.NewCrustcore(o)
}
