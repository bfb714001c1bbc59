package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts/jws"
	"github.com/truegreen-dev/truegreen/verifier"
	"github.com/truegreen-dev/truegreen/verifier/runner"
)

// readTrust reads the files that say whose OIDC tokens count.
func (f *anchorFlags) readTrust(o *verifier.Options) error {
	if f.trust == "" && f.jwks == "" {
		return nil
	}
	a := f.tokens(o)
	if f.trust != "" {
		text, err := readSmall(f.trust)
		if err != nil {
			return err
		}
		if a.Trust, err = verifier.ParseTrust(text); err != nil {
			return &codeError{verifier.BadConfig, fmt.Errorf("%s: %w", f.trust, err)}
		}
	}
	if f.jwks != "" {
		text, err := readSmall(f.jwks)
		if err != nil {
			return err
		}
		if a.Keys, err = jws.ParseKeySet(text, verifier.DefaultIssuer); err != nil {
			return usage("%s: %v", f.jwks, err)
		}
	}
	return nil
}

// tokens returns the anchor for tokens, which it makes.
func (f *anchorFlags) tokens(o *verifier.Options) *verifier.OIDCAnchor {
	if o.OIDC == nil {
		o.OIDC = &verifier.OIDCAnchor{Run: f.run, Commits: f.runCommits}
	}
	return o.OIDC
}

// readTokens reads the tokens that the flags name, or the one beside the bundle.
func (f *anchorFlags) readTokens(path string, o *verifier.Options) error {
	paths := f.oidc
	beside := strings.TrimSuffix(path, ".tar.zst") + ".oidc"
	if paths == nil && strings.HasSuffix(path, ".tar.zst") {
		if _, err := os.Stat(beside); err == nil {
			paths = []string{beside}
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	for _, path := range paths {
		text, err := readSmall(path)
		if err != nil {
			return err
		}
		// Whatever its name, the caller says that it is a token.
		name := strings.TrimSuffix(filepath.Base(path), ".oidc") + ".oidc"
		o.Sidecars = append(o.Sidecars, verifier.Sidecar{Name: name, Bytes: text})
	}
	return nil
}

// A trustFile says whom to trust.
type trustFile struct {
	path  string // in a repository
	parse func([]byte) error
}

// trustFiles are those of signers, of rules for tokens and of their keys, and what reads each
// into the options.
func trustFiles(o *verifier.Options, tokens func() *verifier.OIDCAnchor) [3]trustFile {
	return [...]trustFile{
		{verifier.SignersFile, func(text []byte) (err error) {
			o.Signers, err = bundle.ParseSigners(text)
			return err
		}},
		{verifier.TrustFile, func(text []byte) (err error) {
			tokens().Trust, err = verifier.ParseTrust(text)
			return err
		}},
		{verifier.KeysFile, func(text []byte) (err error) {
			tokens().Keys, err = jws.ParseKeySet(text, verifier.DefaultIssuer)
			return err
		}},
	}
}

// trustBase trusts whom the repository names at the base, where no flag names others.
func (f *anchorFlags) trustBase(ctx context.Context, s *runner.Selection, o *verifier.Options) error {
	flags := [...]string{f.signers, f.trust, f.jwks}
	for i, file := range trustFiles(o, func() *verifier.OIDCAnchor { return f.tokens(o) }) {
		if flags[i] != "" {
			continue
		}
		text, err := s.BaseFile(ctx, file.path, 1<<20)
		if err == nil && text != nil {
			err = file.parse(text)
		}
		if err != nil {
			return &codeError{verifier.BadConfig, fmt.Errorf("%s at base %s: %w", file.path, short(s.Base.ID), err)}
		}
	}
	return nil
}
