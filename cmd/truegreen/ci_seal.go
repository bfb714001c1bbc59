package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/forge"
	"github.com/truegreen-dev/truegreen/verifier"
)

// seal is mode seal: it verifies the bundles as far as that goes without a signature,
// has the platform sign their seals, and verifies them as everybody will.
func (s *ciStep) seal(ctx context.Context) error {
	t, err := s.target(ctx)
	if err != nil {
		return err
	}
	if t.Unattested {
		return usage("mode seal: the workflow of this run came with a fork's patch: its seal is nobody's word")
	}
	page, out := s.page(t), ciOutputs{"tested": t.Tested}
	for i := range s.in.projects {
		if err := s.verifyProject(ctx, page, &s.in.projects[i], out, true); err != nil {
			return err
		}
	}
	if err := s.log(page); err != nil {
		return err
	}
	if err := s.outputs(out.done(page)); err != nil {
		return err
	}
	return errors.Join(s.outlive(ctx), exitWithVerdict(page.Verdict()))
}

// sign writes the sidecar of a bundle that is sound, and about what the event is about.
// Whether its tests passed makes no difference: red is evidence, too.
func (s *ciStep) sign(ctx context.Context, b *found, o verifier.Options, out ciOutputs) error {
	report, err := s.check(b, o)
	if err != nil || !report.Sound() || report.Verdict() == verifier.Broken {
		return err
	}
	_, digest := report.Seal()
	token, err := forge.IDToken(ctx, s.getenv, verifier.Audience(digest), forge.Options{UserAgent: "truegreen/" + version()})
	if err != nil {
		return forgeError(err)
	}
	if err := forge.Mask(s.out, token); err != nil {
		return err
	}
	end, err := forge.TokenExpiry(token)
	if err != nil {
		return forgeError(err)
	}
	if end.After(s.expires) {
		s.expires = end
	}
	path := strings.TrimSuffix(b.path, bundleSuffix) + ".oidc"
	// Of an earlier attempt in the same folder, there may be one.
	b.sidecars = slices.DeleteFunc(b.sidecars, func(p string) bool { return p == path })
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeNew(path, token); err != nil {
		return err
	}
	out.add("sidecar-path", path)
	b.sidecars = append(b.sidecars, path)
	return nil
}

// outlive waits until the tokens have expired, where everybody can download what this
// job leaves: until then, who has one can pass for this job where that audience is
// accepted.
func (s *ciStep) outlive(ctx context.Context) error {
	left := time.Until(s.expires)
	if s.in.discloseNow || left <= 0 || s.job.Private(s.event) {
		return nil
	}
	if left > maxOutlive {
		return usage("a token is valid for %s: say oidc-disclose: now if everybody may have it until then", left.Round(time.Second))
	}
	if !s.json {
		fmt.Fprintf(s.out, "truegreen: waiting %s until the token has expired: the sidecar will be public\n", left.Round(time.Second))
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(left + time.Second):
		return nil
	}
}

const maxOutlive = 20 * time.Minute
