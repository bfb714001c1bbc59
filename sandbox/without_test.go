//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// measured probes a mode without some of its layers, and starts no command.
func measured(t *testing.T, mode Mode, without ...string) (Isolation, error) {
	t.Helper()
	spec, err := Spec{Argv: []string{"true"}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	spec.remote.without = without
	r, err := runMode(t.Context(), spec, mode, true)
	return r.Isolation, err
}

// TestWithout leaves the layers out one by one, really: the level measured is
// lower, or the mode cannot be had, or a fact of its own says what is missing.
func TestWithout(t *testing.T) {
	t.Parallel()
	modes := slices.DeleteFunc(allModes(t), func(m Mode) bool { return m == ModeNone })
	if len(modes) == 0 {
		t.Skip("this host allows no mode with layers to this user")
	}
	root := os.Geteuid() == 0
	strong := []Mode{ModeRootDrop, ModeUserNS}
	every := []Mode{ModeRootDrop, ModeUserNS, ModeRestricted}
	for _, c := range []struct {
		without string
		modes   []Mode
		level   Level
		lacks   string // what is said about the next level, or the refusal
	}{
		{"", strong, LevelNamespaces, ""},
		{"", []Mode{ModeRestricted}, LevelRestricted, "shares the pid namespace"},

		{layerSeccomp, every, LevelNone, "no system call filter"},
		{layerCloexec, every, LevelNone, "probe open_fds got descriptor 4"},
		// The kernel gives neither domain nor filter to a thread that could gain
		// privileges; without all three it is measured.
		{layerNoPrivs, every, LevelNone, "landlock_restrict_self: EPERM"},
		{layerNoPrivs + " " + layerLandlock, every, LevelNone, "install system call filter: EACCES"},
		{layerNoPrivs + " " + layerLandlock + " " + layerSeccomp, strong, LevelNone, "can gain privileges by exec"},

		// An own tree says about files what Landlock does.
		{layerLandlock, strong, LevelNamespaces, ""},
		{layerLandlock, []Mode{ModeRestricted}, LevelNone, "neither Landlock nor an own mount namespace"},

		{layerCaps, []Mode{ModeRootDrop}, LevelRestricted, "probe capabilities got CapBnd"}, // the change of uid clears the others
		{layerCaps, []Mode{ModeUserNS}, LevelNone, "holds capabilities"},

		{layerReadOnly, strong, LevelRestricted, "probe read_only got / is writable"},

		{"ipc", strong, LevelRestricted, "shares the ipc namespace"},
		{"uts", strong, LevelRestricted, "shares the uts namespace"},
		{"net", strong, LevelRestricted, "shares the net namespace"},
		{"mnt", strong, LevelNone, "probe canary_file got ok"},
		{"pid", []Mode{ModeRootDrop}, LevelRestricted, "shares the pid namespace"},
		{"pid", []Mode{ModeUserNS}, LevelNone, "mount /proc: EPERM"},
		{"cgroup", strong, LevelNamespaces, ""}, // hides names only; Namespaces says it
	} {
		for _, mode := range c.modes {
			if !slices.Contains(modes, mode) {
				continue
			}
			check(t, mode, c.without, c.level, c.lacks)
		}
	}
	// What an ordinary user cannot give up was never there: another uid, and the
	// bounding set, which counts where no_new_privs does not void it.
	all := layerNoPrivs + " " + layerLandlock + " " + layerSeccomp
	for _, mode := range modes {
		switch {
		case !root && mode == ModeRestricted:
			check(t, mode, all, LevelNone, "holds capabilities")
		case !root:
		case mode == ModeUserNS: // uid 0 is not mapped
			check(t, mode, layerUID, LevelNone, "make /etc: EOVERFLOW")
		default:
			check(t, mode, layerUID, LevelNone, "runs as uid 0")
		}
		if root && mode == ModeRestricted {
			check(t, mode, all, LevelNone, "can gain privileges by exec")
		}
	}
}

func check(t *testing.T, mode Mode, without string, want Level, lacks string) {
	t.Helper()
	iso, err := measured(t, mode, strings.Fields(without)...)
	said := ""
	var no *refusal
	switch {
	case errors.As(err, &no):
		said = no.Error()
	case err != nil:
		t.Fatalf("%s without %q: %v", mode, without, err)
	default:
		_, said = level(iso)
	}
	if iso.Level != want || !strings.HasPrefix(said, lacks) || lacks == "" && said != "" {
		t.Errorf("%s without %q: level %v, %q, want %v, %q", mode, without, iso.Level, said, want, lacks)
	}
	if err != nil {
		return
	}
	// The facts are those of what is there.
	for _, layer := range strings.Fields(without) {
		if slices.Contains(iso.Namespaces, layer) {
			t.Errorf("%s without %s: namespaces %v", mode, layer, iso.Namespaces)
		}
		if layer == layerLandlock && iso.Landlock != 0 || layer == layerSeccomp && iso.Seccomp || layer == layerNoPrivs && iso.NoNewPrivs {
			t.Errorf("%s without %s: %+v", mode, layer, iso)
		}
	}
}

// TestWithoutRuns: nothing runs without its layers.
func TestWithoutRuns(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{ModeRootDrop, ModeUserNS, ModeRestricted, ModeContainer, ModeNone} {
		spec, err := Spec{Argv: []string{"true"}}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		spec.remote.without = []string{layerSeccomp}
		if r, err := runMode(t.Context(), spec, mode, false); err == nil || r.State != "" {
			t.Errorf("%s: %+v", mode, r)
		}
	}
}
