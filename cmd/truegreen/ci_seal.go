package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/forge"
	"github.com/truegreen-dev/truegreen/verifier"
)

// seal is mode seal: it verifies the bundle as far as that goes without a signature,
// has the platform sign the seal, and verifies it as everybody will.
func (s *ciStep) seal(ctx context.Context) error {
	t, err := s.target(ctx)
	if err != nil {
		return err
	}
	if t.Unattested {
		return usage("mode seal: the workflow of this run came with a fork's patch: its seal is nobody's word")
	}
	b, err := s.find(ctx, &t)
	if err != nil {
		return err
	}
	defer b.remove()
	o, notes, err := s.expect(ctx, &t)
	if err != nil {
		return err
	}
	report, err := s.check(&b, o)
	if err != nil {
		return err
	}
	out := map[string]string{}
	if report.Sound() && report.Verdict() != verifier.Broken {
		if report, err = s.mint(ctx, &t, &b, o, report, out); err != nil {
			return err
		}
	}
	for name, value := range reported(report) {
		out[name] = value
	}
	if b.path != "" {
		out["bundle-path"], out["bundle-sha256"] = b.path, b.sha256
	}
	if err := s.log(s.page(t, s.section(&t, &b, report, notes))); err != nil {
		return err
	}
	if err := s.outputs(out); err != nil {
		return err
	}
	return exitWith(report)
}

// mint writes the sidecar, and returns what the bundle is with it.
func (s *ciStep) mint(ctx context.Context, t *forge.Target, b *found, o verifier.Options, report verifier.Report, out map[string]string) (verifier.Report, error) {
	_, digest := report.Seal()
	token, err := forge.IDToken(ctx, s.getenv, verifier.Audience(digest), forge.Options{UserAgent: "truegreen/" + version()})
	if err != nil {
		return verifier.Report{}, forgeError(err)
	}
	if err := forge.Mask(s.out, token); err != nil {
		return verifier.Report{}, err
	}
	path := strings.TrimSuffix(b.path, bundleSuffix) + ".oidc"
	if err := writeNew(path, token); err != nil {
		return verifier.Report{}, err
	}
	out["sidecar-path"] = path
	b.sidecars = append(b.sidecars, path)
	if err := s.anchor(ctx, t, &o); err != nil {
		return verifier.Report{}, err
	}
	if report, err = s.check(b, o); err != nil {
		return report, err
	}
	return report, s.outlive(ctx, token)
}

// outlive waits until a token has expired, where everybody can download what this
// job leaves: until then, who has it can pass for this job where that audience is
// accepted.
func (s *ciStep) outlive(ctx context.Context, token string) error {
	if s.in.discloseNow || s.job.Private(s.event) {
		return nil
	}
	const most = 20 * time.Minute
	end, err := forge.TokenExpiry(token)
	if err != nil {
		return forgeError(err)
	}
	left := time.Until(end)
	if left <= 0 {
		return nil
	}
	if left > most {
		return usage("the token is valid for %s: say oidc-disclose: now if everybody may have it until then", left.Round(time.Second))
	}
	fmt.Fprintf(s.out, "truegreen: waiting %s until the token has expired: the sidecar will be public\n", left.Round(time.Second))
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(left + time.Second):
		return nil
	}
}
