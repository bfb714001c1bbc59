package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/forge"
	"github.com/truegreen-dev/truegreen/store"
	"github.com/truegreen-dev/truegreen/verifier"
)

func (a *app) storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "store", Short: "Put bundles where a release gate finds them, and see what is there", Args: cobra.NoArgs,
		Long: `store looks into the places that truegreen gate takes bundles from:

  PATH                        a file, or a folder
  release:OWNER/REPO@TAG      files of a release on GitHub
  artifact:OWNER/REPO/RUN     artifacts of a workflow run
  oci://HOST/NAME@sha256:HEX  what refers to an image in an OCI registry

For GitHub it takes a token from GITHUB_TOKEN or GH_TOKEN, and an API from
GITHUB_API_URL; for a registry the login that docker login has left.`,
		Example: "  truegreen store list release:octo/project@v1.4.0",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	put := &cobra.Command{
		Use: "put BUNDLE PLACE", Short: "Put a bundle, with its sidecars, beside an image in a registry",
		Long: `put makes a bundle refer to an image in an OCI registry, where the gate finds it.
The sidecars beside the file go with it. At a release on GitHub, upload the files
as they are.`,
		Example:           "  truegreen store put evidence.tar.zst oci://ghcr.io/octo/app@sha256:…",
		ValidArgsFunction: completeBundles,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage("want a bundle and a place, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.storePut(cmd.Context(), args[0], args[1]) },
	}
	list := &cobra.Command{
		Use: "list PLACE…", Short: "List the bundles and waivers in places",
		Example:           "  truegreen store list evidence/\n  truegreen store list artifact:octo/project/1234 --json",
		ValidArgsFunction: completeBundles,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("want a place")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.storeList(cmd.Context(), args) },
	}
	a.jsonFlag(put)
	a.jsonFlag(list)
	cmd.AddCommand(put, list)
	return cmd
}

// A storedItem is what the commands print.
type storedItem struct {
	Name   string `json:"name"`
	Digest string `json:"digest,omitempty"` // that the place says
	Waiver bool   `json:"waiver,omitempty"`
}

func (a *app) storePut(ctx context.Context, path, name string) error {
	place, err := store.Parse(name)
	if err != nil {
		return usage("%v", err)
	}
	if place.Kind != store.OCI {
		return usage("%s: bundles are not put there by truegreen", place)
	}
	c, err := a.registry(place, "").put(ctx, path)
	switch {
	case err != nil:
		return placeError(place, err)
	case a.json:
		return a.printJSON(storedItem{c.Name, c.Digest, c.Waiver})
	}
	_, err = fmt.Fprintln(a.out, oneLine(c.Name))
	return err
}

func (a *app) storeList(ctx context.Context, names []string) error {
	sources, err := a.sources(ctx, names, "")
	if err != nil {
		return err
	}
	items := make([]storedItem, len(sources))
	for i, s := range sources {
		items[i] = storedItem{s.Name, s.Digest, s.Waiver}
	}
	if a.json {
		return a.printJSON(items)
	}
	for _, i := range items {
		if _, err := fmt.Fprintln(a.out, strings.TrimSpace(oneLine(i.Name)+"  "+oneLine(i.Digest))); err != nil {
			return err
		}
	}
	return nil
}

// storeOptions are what places on a network are opened with.
func (a *app) storeOptions(temp string) store.Options {
	o := store.Options{Temp: temp, Registry: func(p store.Place) (store.Store, error) { return a.registry(p, temp), nil }}
	o.Forge = func(repository string) (*forge.Client, error) {
		job := forge.Job{
			Server: cmp.Or(a.getenv("GITHUB_SERVER_URL"), "https://github.com"), API: cmp.Or(a.getenv("GITHUB_API_URL"), "https://api.github.com"), Repository: repository,
		}
		return forge.NewClient(job, forge.Options{Token: cmp.Or(a.getenv("GITHUB_TOKEN"), a.getenv("GH_TOKEN")), UserAgent: userAgent()})
	}
	return o
}

// userAgent is how this program introduces itself.
func userAgent() string { return "truegreen/" + version() }

func (a *app) registry(p store.Place, temp string) *registry { return &registry{p, temp, userAgent()} }

// problemCode is the reason for what is wrong with one candidate, "" if it is the place
// that something is wrong with.
func problemCode(err error) verifier.Code {
	switch {
	case errors.Is(err, store.ErrExpired):
		return verifier.EvidenceExpired
	case errors.Is(err, store.ErrNone):
		return verifier.NoEvidence
	case errors.Is(err, store.ErrUnsafe):
		return verifier.UnsafeArchive
	case errors.Is(err, store.ErrDigest):
		return verifier.WrongBundle
	case errors.Is(err, store.ErrTooLarge):
		return verifier.LimitExceeded
	}
	return ""
}

// placeError is the error of a place that could not be asked.
func placeError(p store.Place, err error) error {
	switch {
	case p.Kind == store.Path:
		return err
	case p.Kind != store.OCI && !errors.Is(err, forge.ErrNoRelease):
		return forgeError(err)
	}
	return &codeError{verifier.Unreadable, err}
}
