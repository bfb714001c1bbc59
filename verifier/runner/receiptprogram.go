package runner

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/truegreen-dev/truegreen/receipts/foreign"
	"github.com/truegreen-dev/truegreen/sandbox"
)

// ReceiptProgramName is the name of the adapter that asks a program.
const ReceiptProgramName = "exec"

// The limits of a program that verifies receipts.
const (
	MaxProgram        = 256 << 20 // bytes of the program
	MaxProgramReceipt = 16 << 20  // bytes of a receipt for it
	programMemory     = 1 << 30
	programDisk       = 64 << 20
	programPids       = 256
	programErrors     = 200 // bytes of its standard error that are repeated
)

// ReceiptProgramOptions are what a program verifies receipts with.
type ReceiptProgramOptions struct {
	foreign.Rules
	Path string        // of the program
	Keys []foreign.Key // public ones, which it is told

	// Level is the least isolation to run it in. Zero is [sandbox.LevelNamespaces]:
	// what reads hostile bytes, and is not ours, has walls.
	Level sandbox.Level
	Wall  time.Duration // how long it may take; 0: half a minute
}

// NewReceiptProgram returns an adapter that has a program verify receipts of a format
// that no other adapter knows. The caller trusts the program to know its format; what it
// can reach is a sandbox without a network, and what it says is held to the question, as
// [foreign.ParseSaid] has it.
//
// # Protocol
//
// Each verification starts a copy of the program once, without arguments, with the
// environment PATH=/usr/bin:/bin and nothing else. On standard input it gets one JSON
// object and a line feed, with all of these members:
//
//	{"v": 1,
//	 "receipt": "eyJ0b29sIjoicmVhZCJ9",
//	 "binding": {"tool": "read", "arg_hash": "", "target": "", "allowed": true},
//	 "rules": {"now": "2026-01-02T15:04:05Z", "max_age": 3600, "skew": 60, "chain": false, "head": ""},
//	 "keys": [{"name": "", "algorithm": "", "public": "MCowBQYDK2VwAyEA…"}]}
//
// The receipt is base64 of its bytes, at most 16 MiB of them, and a key's public is
// base64 of its SubjectPublicKeyInfo (RFC 5280). Both are as RFC 4648, section 4, has
// it, with padding. max_age and skew are seconds, rounded down, and a max_age of 0 is
// none. What is "" in the binding is not asked; allowed asks for the decision, and chain
// for chain and end.
//
// The program writes one JSON object to standard output, as [foreign.ParseSaid]
// specifies it, at most 256 KiB, and exits with 0: also where its answers are no. Any
// other end is an error and says nothing of the receipt: another exit code, a signal,
// half a minute gone by, more output, 1 GiB of memory.
func NewReceiptProgram(o ReceiptProgramOptions) (foreign.Adapter, error) {
	p := &receiptProgram{o: o, keys: []programKey{}}
	if o.Level == sandbox.LevelNone {
		p.o.Level = sandbox.LevelNamespaces
	}
	if o.Wall == 0 {
		p.o.Wall = 30 * time.Second
	}
	switch {
	case o.Path == "":
		return nil, errors.New("exec: no program")
	case o.Seen != nil:
		return nil, errors.New("exec: a program names no id by which a second use would show")
	case o.Head != "" && !o.Chain:
		return nil, errors.New("exec: a head is a chain's")
	case o.Wall < 0:
		return nil, errors.New("exec: a negative time")
	}
	for _, k := range o.Keys {
		if k.Public == nil {
			return nil, errors.New("exec: a program is told no secrets")
		}
		public, err := x509.MarshalPKIXPublicKey(k.Public)
		if err != nil {
			return nil, fmt.Errorf("exec: %w", err)
		}
		p.keys = append(p.keys, programKey{k.Name, k.Algorithm, public})
	}
	return p, nil
}

type receiptProgram struct {
	o    ReceiptProgramOptions
	keys []programKey
}

// A programQuestion is what a program reads.
type programQuestion struct {
	V       int            `json:"v"`
	Receipt []byte         `json:"receipt"`
	Binding programBinding `json:"binding"`
	Rules   programRules   `json:"rules"`
	Keys    []programKey   `json:"keys"`
}

type programBinding struct {
	Tool    string `json:"tool"`
	ArgHash string `json:"arg_hash"`
	Target  string `json:"target"`
	Allowed bool   `json:"allowed"`
}

type programRules struct {
	Now    string `json:"now"`
	MaxAge int64  `json:"max_age"`
	Skew   int64  `json:"skew"`
	Chain  bool   `json:"chain"`
	Head   string `json:"head"`
}

type programKey struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	Public    []byte `json:"public"`
}

func (p *receiptProgram) Name() string { return ReceiptProgramName }

func (p *receiptProgram) Verify(ctx context.Context, r io.Reader, b foreign.Binding) (foreign.Verification, error) {
	receipt, err := io.ReadAll(io.LimitReader(r, MaxProgramReceipt+1))
	if err != nil {
		return foreign.Verification{}, fmt.Errorf("exec: %w", err)
	}
	if len(receipt) > MaxProgramReceipt {
		return foreign.Verification{}, &foreign.MalformedError{
			Adapter: ReceiptProgramName, Code: "too-long", Err: fmt.Errorf("more than %d bytes", MaxProgramReceipt),
		}
	}
	rules := p.o.Rules
	if rules.Now == nil {
		rules.Now = time.Now
	}
	if rules.Skew == 0 {
		rules.Skew = foreign.DefaultSkew
	}
	now := rules.Now() // the program and we go by the same
	rules.Now = func() time.Time { return now }
	question, err := json.Marshal(programQuestion{
		1, receipt, programBinding{b.Tool, b.ArgHash, b.Target, b.Allowed},
		programRules{now.UTC().Format(time.RFC3339), int64((rules.MaxAge + time.Second - 1) / time.Second), int64(rules.Skew / time.Second), rules.Chain, rules.Head},
		p.keys,
	})
	if err != nil {
		return foreign.Verification{}, fmt.Errorf("exec: %w", err)
	}
	answer, err := p.ask(ctx, append(question, '\n'))
	if err != nil {
		return foreign.Verification{}, fmt.Errorf("exec: %s: %w", filepath.Base(p.o.Path), err)
	}
	return foreign.ParseSaid(ReceiptProgramName, answer, rules, b)
}

// ask runs the program and returns what it says.
func (p *receiptProgram) ask(ctx context.Context, question []byte) ([]byte, error) {
	dir, err := os.MkdirTemp("", "truegreen-exec-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	// The command's uid is not ours: it reads and executes what is everybody's.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	if err := copyProgram(filepath.Join(dir, "program"), p.o.Path); err != nil {
		return nil, err
	}
	if err := writeOpen(filepath.Join(dir, "question"), question, 0o644); err != nil {
		return nil, err
	}
	var out, errOut bytes.Buffer
	r, err := sandbox.Run(ctx, sandbox.Spec{
		// A sandbox's standard input is empty: the shell opens the question.
		Argv:     []string{"/bin/sh", "-c", `exec "$0" <"$1"`, "/adapter/program", "/adapter/question"},
		Env:      []string{"PATH=/usr/bin:/bin"},
		Mounts:   []sandbox.Mount{{Source: dir, Target: "/adapter", Kind: sandbox.ReadOnly}},
		Limits:   sandbox.Limits{Wall: p.o.Wall, Pids: programPids, Memory: programMemory, Output: foreign.MaxSaid, Disk: programDisk},
		MinLevel: p.o.Level,
		Stdout:   &out, Stderr: &errOut,
	})
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case r.State == sandbox.StateTimeout:
		return nil, fmt.Errorf("no answer within %s", p.o.Wall)
	case r.State != sandbox.StateExited:
		return nil, fmt.Errorf("%s %s %s", r.State, r.Signal, r.Why)
	case r.Exit != 0:
		return nil, fmt.Errorf("exit code %d: %.*q", r.Exit, programErrors, bytes.TrimSpace(errOut.Bytes()))
	case r.Stdout.Total != int64(out.Len()):
		return nil, fmt.Errorf("says more than %d bytes", foreign.MaxSaid)
	}
	return out.Bytes(), nil
}

// copyProgram copies a program to where everybody can execute it.
func copyProgram(to, from string) error {
	info, err := os.Stat(from) // before it is opened: nobody may write into a pipe
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return errors.New("no program: want a file that can be executed")
	case info.Size() > MaxProgram:
		return fmt.Errorf("more than %d bytes", MaxProgram)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	program, err := io.ReadAll(io.LimitReader(in, MaxProgram+1))
	if err == nil && len(program) > MaxProgram {
		err = fmt.Errorf("more than %d bytes", MaxProgram)
	}
	if err != nil {
		return err
	}
	return writeOpen(to, program, 0o755)
}

// writeOpen writes a file with a mode that the umask does not change.
func writeOpen(path string, data []byte, mode os.FileMode) error {
	if err := os.WriteFile(path, data, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}
