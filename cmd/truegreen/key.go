package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

const (
	keyFile    = "receipt.key"
	keySize    = 32
	machineKey = "the receipt key of this machine"
	jobKey     = "the receipt key of this job, which proves nothing after this process"
)

func (a *app) keyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "The receipt key of this machine",
		Long: `The receipt key is a secret of 32 bytes in the state folder. truegreen run makes
it when it is first needed. Who has it can check, and could make, the MACs of
your receipts; for others, sign the seal with an SSH key (truegreen run --sign).

Where there is no lasting state folder, as in CI, TRUEGREEN_KEY holds the key as
64 hexadecimal digits. No test sees that variable.`,
		Example: "  truegreen key init\n  truegreen key show",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	initialize := &cobra.Command{
		Use: "init", Short: "Make the receipt key; an existing one stays", Args: cobra.NoArgs,
		Example: "  truegreen key init",
		RunE:    func(*cobra.Command, []string) error { return a.keyInit() },
	}
	show := &cobra.Command{
		Use: "show", Short: "Say where the receipt key is, and its fingerprint; never the key", Args: cobra.NoArgs,
		Example: "  truegreen key show",
		RunE:    func(*cobra.Command, []string) error { return a.keyShow() },
	}
	a.jsonFlag(initialize)
	a.jsonFlag(show)
	cmd.AddCommand(initialize, show)
	return cmd
}

type keyReport struct {
	Path        string `json:"path"`
	Made        *bool  `json:"made,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
}

func (a *app) keyInit() error {
	path, err := a.keyPath()
	if err != nil {
		return err
	}
	made, err := initKey(path)
	if err != nil {
		return fmt.Errorf("receipt key: %w", err)
	}
	if a.json {
		return a.printJSON(keyReport{Path: path, Made: &made})
	}
	if made {
		fmt.Fprintf(a.out, "made %s\n", oneLine(path))
	} else {
		fmt.Fprintf(a.out, "%s exists\n", oneLine(path))
	}
	return nil
}

func (a *app) keyShow() error {
	path, err := a.keyPath()
	if err != nil {
		return err
	}
	secret, err := readKey(path)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(keyReport{Path: path, Fingerprint: keyFingerprint(secret)})
	}
	fmt.Fprintf(a.out, "%s\nfingerprint %s\n", oneLine(path), keyFingerprint(secret))
	return nil
}

// keyFingerprint names a key without telling it.
func keyFingerprint(secret []byte) string {
	return receipts.Sum(append([]byte("truegreen/v1 key fingerprint\x00"), secret...)).String()[:16]
}

func (a *app) keyPath() (string, error) {
	state, err := a.state()
	return filepath.Join(state, keyFile), err
}

// initKey makes a key file, and reports whether there was none.
func initKey(path string) (made bool, err error) {
	if _, err := os.Lstat(path); err == nil {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".key-")
	if err != nil {
		return false, err
	}
	defer os.Remove(tmp.Name())
	var secret [keySize]byte
	rand.Read(secret[:])
	_, err = tmp.Write(secret[:])
	clear(secret[:]) // tests are going to run beside this process
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err != nil {
		return false, err
	}
	// A link does not replace: of two processes that make a key, one wins.
	if err := os.Link(tmp.Name(), path); errors.Is(err, os.ErrExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return true, nil
}

// openKey opens a key file after checking that nobody else can read it.
func openKey(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("receipt key: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		switch {
		case !info.Mode().IsRegular():
			err = &codeError{verifier.KeyUnsafe, fmt.Errorf("receipt key %s: not a file", path)}
		case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
			err = &codeError{verifier.KeyUnsafe, fmt.Errorf("receipt key %s: mode %04o lets others read it; chmod 600 it", path, info.Mode().Perm())}
		case info.Size() != keySize:
			err = &codeError{verifier.KeyUnsafe, fmt.Errorf("receipt key %s: %d bytes, a key has %d", path, info.Size(), keySize)}
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func readKey(path string) ([]byte, error) {
	return secretOf(func() (*os.File, error) { return openKey(path) })
}

// secretOf reads the key in the file that open opens.
func secretOf(open func() (*os.File, error)) ([]byte, error) {
	f, err := open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	secret := make([]byte, keySize)
	if _, err := io.ReadFull(f, secret); err != nil {
		return nil, fmt.Errorf("receipt key: %w", err)
	}
	return secret, nil
}

// The variable that hands a CI secret to truegreen: 64 hexadecimal digits. It is
// gone from the environment before anything else happens.
const keyVariable = "TRUEGREEN_KEY"

// parseKeyVariable reads the value of keyVariable.
func parseKeyVariable(value string) ([]byte, error) {
	secret, err := hex.DecodeString(string(bytes.TrimSpace([]byte(value))))
	if err != nil || len(secret) != keySize {
		return nil, &codeError{verifier.KeyUnsafe, fmt.Errorf("%s: want %d hexadecimal digits", keyVariable, 2*keySize)}
	}
	return secret, nil
}
