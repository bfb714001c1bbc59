//go:build linux && (amd64 || arm64)

package conformance

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// The test binary plays every part of a run. The rows here are for its tests.
func TestMain(m *testing.M) {
	table = func() []Row { return slices.Concat(Rows(), sabotaged(), failing()) }
	sandbox.Child()
	Child()
	os.Exit(m.Run())
}

// user is who the tests are when they are not root.
var user = &syscall.Credential{Uid: 65534, Gid: 65534}

// A party is a mode as a user.
type party struct {
	name string
	mode sandbox.Mode
	as   *syscall.Credential
}

func parties() []party {
	who := "user"
	if os.Geteuid() == 0 {
		who = "root"
	}
	var list []party
	for _, mode := range Modes() {
		list = append(list, party{string(mode) + " (" + who + ")", mode, nil})
	}
	if who == "root" {
		for _, mode := range Modes() {
			if mode != sandbox.ModeRootDrop {
				list = append(list, party{string(mode) + " (user)", mode, user})
			}
		}
	}
	return list
}

// A measured party has been run once for all tests.
type measured struct {
	outcomes []Outcome
	err      error
}

var results sync.Map // of name: func() measured

func (p party) run(t *testing.T) ([]Outcome, error) {
	once, _ := results.LoadOrStore(p.name, sync.OnceValue(func() measured {
		outcomes, err := run(context.Background(), order{Mode: p.mode}, Rows(), p.as)
		return measured{outcomes, err}
	}))
	m := once.(func() measured)()
	var no *sandbox.RefusedError
	if errors.As(m.err, &no) && !able(p) {
		t.Skipf("this host does not offer %s: %v", p.name, m.err)
	}
	return m.outcomes, m.err
}

// able makes the namespaces of a strong mode without the code under test.
func able(p party) bool {
	c := exec.Command("/bin/sh", "-c", "mount -t tmpfs none /tmp && mount -t proc none /proc")
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS}
	uid, gid := os.Geteuid(), os.Getegid()
	switch p.mode {
	case sandbox.ModeRootDrop:
		if uid != 0 {
			return false
		}
		c.SysProcAttr.Unshareflags = unix.CLONE_NEWNS
	case sandbox.ModeUserNS:
		c.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
	}
	return c.Run() == nil
}

// TestHolds makes every attempt in every mode. A control that fails is an error
// of Run.
func TestHolds(t *testing.T) {
	t.Parallel()
	for _, p := range parties() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			outcomes, err := p.run(t)
			if err != nil {
				t.Errorf("Run: %v", err)
			}
			if len(outcomes) != len(Rows()) {
				t.Fatalf("%d outcomes of %d rows", len(outcomes), len(Rows()))
			}
			held := 0
			for _, o := range outcomes {
				switch o.Status {
				case Held, Works:
					held++
				case NotExercised:
					t.Logf("row %s, %s: not exercised: %s", o.Row.ID, o.Row.Name, o.Why)
					if o.Why == "" {
						t.Errorf("row %s does not say why it was not exercised", o.Row.ID)
					}
				case NotPromised:
					if p.mode != sandbox.ModeRootDrop && p.mode != sandbox.ModeUserNS {
						continue
					}
					t.Errorf("row %s, %s: level %s was measured", o.Row.ID, o.Row.Name, o.Level)
				default:
					t.Errorf("row %s, %s: %s: got %s, want %v", o.Row.ID, o.Row.Name, o.Status, o.Got, o.Row.Want)
				}
			}
			if held < len(outcomes)/2 {
				t.Errorf("only %d of %d rows held", held, len(outcomes))
			}
		})
	}
}

// TestRows: every number of the list is there, once, and each row says what it
// has to.
func TestRows(t *testing.T) {
	t.Parallel()
	groups := []string{"processes", "files", "kernel", "network", "resources", "channel", "toolchain", "must"}
	seen, numbers := map[string]bool{}, map[int]bool{}
	last := 0
	for _, r := range Rows() {
		if seen[r.ID] {
			t.Errorf("row %s is there twice", r.ID)
		}
		seen[r.ID] = true
		n := number(r.ID)
		if n < last {
			t.Errorf("row %s comes after %d", r.ID, last)
		}
		last, numbers[n] = n, true
		switch {
		case !slices.Contains(groups, r.Group):
			t.Errorf("row %s: group %q", r.ID, r.Group)
		case r.Name == "" || strings.TrimSpace(r.Name) != r.Name || strings.ContainsAny(r.Name, "\n\t|"):
			t.Errorf("row %s: name %q", r.ID, r.Name)
		case len(r.Want) == 0 || r.Try == nil:
			t.Errorf("row %s: nothing to try, or nothing wanted", r.ID)
		case r.Level < sandbox.LevelRestricted && r.Group != "must":
			t.Errorf("row %s: level %s promises nothing", r.ID, r.Level)
		case r.Control == nil && r.Why == "" && r.Group != "must":
			t.Errorf("row %s has no control and does not say why", r.ID)
		case !r.Own && (r.Check != nil || r.Spec != nil || r.Limits != sandbox.Limits{}):
			t.Errorf("row %s shares its sandbox and wants to change it", r.ID)
		}
		for _, w := range r.Want {
			if isErrno(w) && !knownErrno(w) {
				t.Errorf("row %s: %s is no errno", r.ID, w)
			}
		}
	}
	for _, e := range ElsewhereRows() {
		numbers[number(e.ID)] = true
	}
	for n := 1; n <= 114; n++ {
		if !numbers[n] {
			t.Errorf("attempt %d is missing", n)
		}
	}
}

func isErrno(s string) bool {
	return len(s) > 1 && s[0] == 'E' && strings.ToUpper(s) == s && !strings.ContainsAny(s, " -")
}

func knownErrno(s string) bool {
	for n := range 134 {
		if unix.ErrnoName(syscall.Errno(n)) == s {
			return true
		}
	}
	return false
}

// sabotaged are rows that do not hold.
func sabotaged() []Row {
	row := func(id string, r Row) Row {
		r.ID, r.Group, r.Name, r.Why = "must-"+id, "files", "sabotage", "sabotage"
		if r.Level == sandbox.LevelNone {
			r.Level = sandbox.LevelRestricted
		}
		if r.Want == nil {
			r.Want = []string{"EPERM"}
		}
		return r
	}
	ok := func(*Inside) string { return "ok" }
	return []Row{
		row("succeeds", Row{Try: ok}),
		row("other-errno", Row{Try: func(*Inside) string { return "EACCES" }}),
		row("panics", Row{Try: func(*Inside) string { panic("no") }}),
		row("dies", Row{Try: func(*Inside) string { unix.Kill(os.Getpid(), unix.SIGKILL); select {} }}),
		row("forges", Row{Try: func(*Inside) string { return "EACCES\nmust-after\tEPERM" }}),
		row("after", Row{Try: ok}),
		row("own", Row{Try: ok, Own: true}),
		row("own-dies", Row{Try: func(*Inside) string { unix.Kill(os.Getpid(), unix.SIGKILL); select {} }, Own: true}),
		row("own-check", Row{Try: ok, Own: true, Want: []string{"ok"}, Check: func(r *sandbox.Result) string { return "exit " + strconv.Itoa(r.Exit) }}),
		row("arrives", Row{Try: ok, Want: []string{"ok"}, After: func(*Outside) string { return "it arrived" }}),
		row("does-not-work", Row{Try: func(*Inside) string { return "EPERM" }, Want: []string{"ok"}}),
		row("not-promised", Row{Try: ok, Level: sandbox.LevelKernel}),
		row("not-here", Row{Try: ok, Needs: func() string { return "no such host" }}),
		row("refused-outside", Row{Try: ok, Control: mayRefuse(func(*Outside) string { return "EPERM" })}),
		row("holds", Row{Try: func(*Inside) string { return "EPERM" }}),
	}
}

// TestSabotage: the suite can fail, in every way that it knows.
func TestSabotage(t *testing.T) {
	t.Parallel()
	mode := offered(t)
	outcomes, err := run(t.Context(), order{Mode: mode}, sabotaged(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][2]string{
		"succeeds": {Open, "ok"}, "other-errno": {Open, "EACCES"}, "panics": {Open, "died"}, "dies": {Open, "died"},
		"forges": {Open, "EACCES must-after EPERM"}, "after": {Open, "ok"}, "own": {Open, "ok"}, "own-dies": {Open, "died SIGKILL"},
		"own-check": {Open, "exit 0"}, "arrives": {Open, "ok; it arrived"}, "does-not-work": {Broken, "EPERM"},
		"not-promised": {NotPromised, "ok"}, "not-here": {NotExercised, ""}, "refused-outside": {NotExercised, ""}, "holds": {Held, "EPERM"},
	}
	if len(outcomes) != len(want) {
		t.Fatalf("%d outcomes, want %d", len(outcomes), len(want))
	}
	for _, o := range outcomes {
		if w := want[strings.TrimPrefix(o.Row.ID, "must-")]; o.Status != w[0] || o.Got != w[1] {
			t.Errorf("%s: %s, %q: want %s, %q", o.Row.ID, o.Status, o.Got, w[0], w[1])
		}
	}
}

// TestNothingLeft: of a run that ends, and of one that is interrupted, nothing stays.
func TestNothingLeft(t *testing.T) {
	mode := offered(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ended, cancel := context.WithCancel(t.Context())
	defer cancel()
	rows := slices.DeleteFunc(Rows(), func(r Row) bool { return r.Own || r.Level < sandbox.LevelContainer })
	for _, ctx := range []context.Context{t.Context(), ended} {
		if ctx == ended {
			time.AfterFunc(200*time.Millisecond, cancel)
		}
		if _, err := run(ctx, order{Mode: mode}, rows, nil); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("it left %v (%v)", left, err)
		}
	}
	<-ended.Done()
	if _, err := Run(ended, mode, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled before: %v", err)
	}
}

// TestNoWalls makes a few attempts where nothing is in their way: they succeed,
// and count neither as held nor as open.
func TestNoWalls(t *testing.T) {
	t.Parallel()
	var rows []Row
	for _, r := range Rows() {
		if slices.Contains([]string{"6", "9", "10", "19", "19b", "23", "25"}, r.ID) {
			rows = append(rows, r)
		}
	}
	outcomes, err := run(t.Context(), order{Mode: sandbox.ModeNone}, rows, nil)
	if err != nil || len(outcomes) != 7 {
		t.Fatalf("%d outcomes, %v", len(outcomes), err)
	}
	for _, o := range outcomes {
		if o.Status != NotPromised || o.Got != "ok" && o.Got != "seen" {
			t.Errorf("row %s, %s, without walls: %s, %s", o.Row.ID, o.Row.Name, o.Status, o.Got)
		}
	}
}

// TestControlFails: a control that fails is an error, and not a pass.
func TestControlFails(t *testing.T) {
	t.Parallel()
	outcomes, err := run(t.Context(), order{Mode: offered(t)}, failing(), nil)
	if err == nil || !strings.Contains(err.Error(), "must-control") || !strings.Contains(err.Error(), "control: ENOENT") {
		t.Errorf("error %v", err)
	}
	if len(outcomes) != 1 || outcomes[0].Status != NotExercised {
		t.Errorf("outcomes %+v", outcomes)
	}
}

func failing() []Row {
	return []Row{{ID: "must-control", Want: []string{"EPERM"}, Level: sandbox.LevelRestricted,
		Try: func(*Inside) string { return "EPERM" }, Control: func(*Outside) string { return "ENOENT" }}}
}

// offered returns a mode that this host has.
func offered(t *testing.T) sandbox.Mode {
	t.Helper()
	for _, p := range parties() {
		if able(p) {
			return p.mode
		}
	}
	t.Skip("this host offers no mode")
	return ""
}
