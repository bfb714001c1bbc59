package runner

import (
	"context"
	"errors"
	"slices"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// chooseWalls decides where the calls are made, and with which toolchain.
func (j *job) chooseWalls(ctx context.Context) error {
	if err := j.chooseImage(ctx); err != nil {
		return err
	}
	switch {
	case j.usesGo() && j.inImage:
		j.tools = imageGo(j.Config.Isolation.Image)
	case j.usesGo():
		j.tools = findGo()
	}
	return nil
}

// chooseImage decides whether the calls of this run are made in a container of
// the configured image. That is so where the policy accepts a container and the
// host has no stronger walls. It is decided once and before the first call:
// which toolchain there is, the host's or the image's, depends on it.
func (j *job) chooseImage(ctx context.Context) error {
	if j.Config.Isolation.Image == "" || j.minLevel() > int(sandbox.LevelContainer) {
		return nil
	}
	try := func(modes ...sandbox.Mode) error {
		_, err := sandbox.Run(ctx, sandbox.Spec{
			Argv: []string{"true"}, Env: []string{"PATH=/usr/bin:/bin"},
			Image: j.Config.Isolation.Image, MinLevel: sandbox.LevelContainer, Modes: modes,
		})
		return err
	}
	stronger := slices.DeleteFunc(sandbox.DefaultModes(), func(m sandbox.Mode) bool {
		return m == sandbox.ModeContainer || m == sandbox.ModeRestricted
	})
	var refused *sandbox.RefusedError
	if err := try(stronger...); !errors.As(err, &refused) {
		return err
	}
	err := try(sandbox.ModeContainer)
	if errors.As(err, &refused) {
		return nil // the first call says why, or goes on with less if the policy takes it
	}
	j.inImage = err == nil
	return err
}

// modes returns what a call may be made in, in order. A run that goes by the
// image's toolchain does not end up outside of it.
func (j *job) modes() []sandbox.Mode {
	modes := sandbox.DefaultModes()
	if j.inImage {
		modes = slices.DeleteFunc(modes, func(m sandbox.Mode) bool { return m == sandbox.ModeRestricted })
	}
	if j.o.Unisolated {
		modes = append(modes, sandbox.ModeNone)
	}
	return modes
}
