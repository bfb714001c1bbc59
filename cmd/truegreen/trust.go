package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/receipts/jws"
	"github.com/truegreen-dev/truegreen/verifier"
)

func (a *app) trustCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trust",
		Short: "Whose OIDC tokens count, and the pinned keys of their issuers",
		Long: `A job of GitHub Actions can vouch for a run by an OIDC token. Whose tokens count
says .truegreen/trust.yaml; by which keys they are checked, offline,
.truegreen/jwks.json. Both are trusted at a ref that you protect, and nowhere
else: review a change of them as one of your CI. docs/trust.md explains both.`,
		Example: "  truegreen trust show\n  truegreen trust update",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var trust, jwks, issuer string
	show := &cobra.Command{
		Use: "show", Short: "Show the rules and the keys", Args: cobra.NoArgs,
		Example: "  truegreen trust show --json",
		RunE:    func(*cobra.Command, []string) error { return a.trustShow(trust, jwks) },
	}
	show.Flags().StringVar(&trust, "trust", verifier.TrustFile, "the file with the rules")
	update := &cobra.Command{
		Use: "update", Short: "Pin the keys that an issuer publishes now", Args: cobra.NoArgs,
		Long: `update asks an issuer for its keys. New ones are added to the file. Those that are
not published any more get a not_after, so that what they signed before stays
verifiable, and none is removed.`,
		Example: "  truegreen trust update\n  truegreen trust update --issuer https://github.example.com/_services/token",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.trustUpdate(cmd, jwks, issuer)
		},
	}
	update.Flags().StringVar(&issuer, "issuer", verifier.DefaultIssuer, "the issuer's URL")
	for _, c := range []*cobra.Command{show, update} {
		c.Flags().StringVar(&jwks, "jwks", verifier.KeysFile, "the file with the keys")
		completes(c, map[string]string{"jwks": completeFile})
		a.jsonFlag(c)
	}
	completes(show, map[string]string{"trust": completeFile})
	completes(update, map[string]string{"issuer": ""})
	cmd.AddCommand(show, update)
	return cmd
}

// readKeys reads a file of keys, which need not exist.
func readKeys(path string) (keys jws.KeySet, text []byte, err error) {
	text, err = readSmall(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return jws.KeySet{}, nil, nil
	case err != nil:
		return jws.KeySet{}, nil, err
	}
	if keys, err = jws.ParseKeySet(text, verifier.DefaultIssuer); err != nil {
		return jws.KeySet{}, nil, usage("%s: %v", path, err)
	}
	return keys, text, nil
}

// updated is what trust update prints with --json.
type updated struct {
	Path     string   `json:"path"`
	Issuer   string   `json:"issuer"`
	Changed  bool     `json:"changed"`
	Keys     int      `json:"keys"`
	Added    []string `json:"added"`
	Retired  []string `json:"retired"`
	Returned []string `json:"returned"`
}

func (a *app) trustUpdate(cmd *cobra.Command, path, issuer string) error {
	if err := verifier.CheckIssuer(issuer); err != nil {
		return usage("--issuer %v", err)
	}
	pinned, before, err := readKeys(path)
	if err != nil {
		return err
	}
	published, err := fetchKeys(cmd.Context(), issuer)
	if err != nil {
		return &codeError{verifier.Unreadable, fmt.Errorf("issuer %s: %w", issuer, err)}
	}
	keys, did, err := pinned.Update(issuer, published, time.Now())
	if err != nil {
		return usage("%s: %v", path, err)
	}
	after, err := keys.Append(nil)
	if err != nil {
		return err
	}
	r := updated{path, issuer, !bytes.Equal(before, after), len(keys.Keys()),
		append([]string{}, did.Added...), append([]string{}, did.Retired...), append([]string{}, did.Returned...)}
	if r.Changed {
		if err := replaceFile(path, after); err != nil {
			return err
		}
	}
	if a.json {
		return a.printJSON(r)
	}
	for _, list := range []struct {
		ids  []string
		what string
	}{
		{r.Added, "added    %s\n"}, {r.Retired, "retired  %s, which is not published any more\n"},
		{r.Returned, "retired  %s, which is published again; remove its not_after to trust it again\n"},
	} {
		for _, id := range list.ids {
			fmt.Fprintf(a.out, list.what, oneLine(id))
		}
	}
	if !r.Changed {
		fmt.Fprintf(a.out, "%s is up to date\n", oneLine(path))
		return nil
	}
	fmt.Fprintf(a.out, "wrote %s: review and commit it\n", oneLine(path))
	return nil
}

// replaceFile writes a file such that whoever opens it sees the old or the new content.
func replaceFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".truegreen-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(content)
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// shownTrust is what trust show prints with --json.
type shownTrust struct {
	OIDC []shownRule `json:"oidc"`
	Keys []shownKey  `json:"keys"`
}

type shownRule struct {
	Issuer       string   `json:"issuer"`
	RepositoryID int64    `json:"repository_id"`
	Workflows    []string `json:"workflows"`
	Events       []string `json:"events"`
	Runner       string   `json:"runner"`
	Window       string   `json:"window"`
}

type shownKey struct {
	ID       string `json:"kid"`
	Issuer   string `json:"issuer"`
	Bits     int    `json:"bits"`
	NotAfter string `json:"not_after,omitempty"`
}

func (a *app) trustShow(trust, jwks string) error {
	out := shownTrust{[]shownRule{}, []shownKey{}}
	text, err := readSmall(trust)
	if err != nil {
		return err
	}
	rules, err := verifier.ParseTrust(text)
	if err != nil {
		return &codeError{verifier.BadConfig, fmt.Errorf("%s: %w", trust, err)}
	}
	for _, r := range rules.OIDC {
		out.OIDC = append(out.OIDC, shownRule{r.Issuer, r.RepositoryID, r.Workflows, r.Events, r.Runner, r.Window.String()})
	}
	keys, _, err := readKeys(jwks)
	if err != nil {
		return err
	}
	for _, k := range keys.Keys() {
		s := shownKey{ID: k.ID, Issuer: k.Issuer, Bits: k.Bits()}
		if !k.NotAfter.IsZero() {
			s.NotAfter = k.NotAfter.Format(time.RFC3339)
		}
		out.Keys = append(out.Keys, s)
	}
	if a.json {
		return a.printJSON(out)
	}
	for _, r := range out.OIDC {
		fmt.Fprintf(a.out, "repository %d: tokens of %s\n", r.RepositoryID, oneLine(r.Issuer))
		for _, w := range r.Workflows {
			fmt.Fprintf(a.out, "  workflow  %s\n", oneLine(w))
		}
		fmt.Fprintf(a.out, "  events    %s\n  runner    %s\n  issued    up to %s after the end of the run\n", strings.Join(r.Events, ", "), r.Runner, r.Window)
	}
	for _, k := range out.Keys {
		state := "current"
		if k.NotAfter != "" {
			state = "retired at " + k.NotAfter
		}
		fmt.Fprintf(a.out, "key %s: %d bits, of %s, %s\n", oneLine(k.ID), k.Bits, oneLine(k.Issuer), state)
	}
	if len(out.Keys) == 0 {
		fmt.Fprintf(a.out, "no keys: truegreen trust update writes %s\n", oneLine(jwks))
	}
	return nil
}
