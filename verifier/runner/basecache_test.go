//go:build linux

package runner

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// A remembered is a state folder with the bundle of a run in its cache.
type remembered struct {
	o      Options
	run    fixture.Run
	file   []byte
	path   string
	report verifier.Report
	keys   map[string]receipts.Digest // by side
}

var canary = regexp.MustCompile(`func (Test\w+)\(\*`)

func baseRun() fixture.Run {
	r := fixture.New()
	test := "package project\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {}\n"
	r.Base["add_test.go"], r.Head["add_test.go"] = test, test
	delete(r.Head, "sum/sum_test.go")
	delete(r.Head, "internal/x/x.txt")
	r.Base["add.go"], r.Head["add.go"] = "package project\n\nfunc A() {}\n", "package project\n\nfunc B() {}\n"
	r.Texts, r.Program = true, "v1"
	r.Output = func(p verifier.PlannedRun) fixture.Output {
		tests := []string{"TestAdd"}
		for _, in := range p.Inputs() {
			if m := canary.FindSubmatch(in.Content); m != nil {
				tests = append(tests, string(m[1]))
			}
		}
		return fixture.Output{Stdout: fixture.GoTest(fixture.Package, tests...)}
	}
	return r
}

// keeper returns a state folder in which nothing is remembered yet.
func keeper(t testing.TB, r fixture.Run) *remembered {
	t.Helper()
	dir := t.TempDir()
	m := &remembered{run: r, path: filepath.Join(dir, "b"+bundleExt), keys: map[string]receipts.Digest{}}
	var err error
	if m.file, err = r.Bundle(filepath.Join(dir, "record")); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "receipt.key")
	for name, content := range map[string][]byte{m.path: m.file, key: r.Secret} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if m.report, err = verifier.Verify(bytes.NewReader(m.file), int64(len(m.file)), r.Options()); err != nil {
		t.Fatal(err)
	}
	plan, patch := m.report.Plan(), m.report.Patch()
	for _, s := range m.report.Steps() {
		if s.Args != nil && s.Tool == receipts.ToolTest && s.Args.Purpose == "" {
			if m.keys[s.Args.Side], err = verifier.RunKey(patch.Repository, &plan, s.Args); err != nil {
				t.Fatal(err)
			}
		}
	}
	seal, _ := m.report.Seal()
	m.o = Options{
		State: dir, Reuse: true, Key: func() (*os.File, error) { return os.Open(key) },
		Now: func() time.Time { return time.UnixMilli(int64(seal.End)).Add(time.Hour) },
	}
	return m
}

func (m *remembered) remember(t testing.TB) {
	t.Helper()
	if err := Remember(m.o, m.path, m.report); err != nil {
		t.Fatal(err)
	}
}

func (m *remembered) find(side string) *verifier.Import {
	_, found := findBase(context.Background(), &m.o, m.run.Repository, entryName(m.keys[side], m.o.Signer, side), m.keys[side], 3, verifier.MaxImport)
	return found
}

// files returns the names in the cache that end in a suffix.
func (m *remembered) files(t testing.TB, suffix string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(baseDir(m.o.State), "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	if suffix == "" {
		var entries []string
		for _, name := range list {
			if !strings.HasSuffix(name, bundleExt) {
				entries = append(entries, name)
			}
		}
		return entries
	}
	return list
}

// TestRemember: what both plain runs of a patch came to is found again, by whoever
// has the key, and by nobody before it was kept.
func TestRemember(t *testing.T) {
	t.Parallel()
	m := keeper(t, baseRun())
	if m.find(verifier.SideHead) != nil {
		t.Error("found before it was kept")
	}
	m.remember(t)
	_, seal := m.report.Seal()
	for side, call := range map[string]uint64{verifier.SideHead: 4, verifier.SideBase: 5} {
		found := m.find(side)
		if found == nil || found.Seal != seal || found.Call.Call != call || found.Key() != m.keys[side] {
			t.Errorf("%s: %+v", side, found)
		}
	}
	if n := len(m.files(t, bundleExt)); n != 1 {
		t.Errorf("%d bundles", n)
	}
	if n := len(m.files(t, "")); n != 2 {
		t.Errorf("%d entries", n)
	}
	info, err := os.Stat(baseDir(m.o.State))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v (%v)", info.Mode(), err)
	}
}

// TestFindBaseNot: what is there is not used.
func TestFindBaseNot(t *testing.T) {
	t.Parallel()
	entry := func(m *remembered) string {
		return filepath.Join(baseDir(m.o.State), entryName(m.keys[verifier.SideHead], m.o.Signer, verifier.SideHead))
	}
	for name, edit := range map[string]func(t *testing.T, m *remembered){
		"another key": func(_ *testing.T, m *remembered) {
			m.o.Key = func() (*os.File, error) { return secretFile(m.o.State, bytes.Repeat([]byte{9}, 32)) }
		},
		"no key":             func(_ *testing.T, m *remembered) { m.o.Key = func() (*os.File, error) { return nil, os.ErrNotExist } },
		"signed by a key":    func(_ *testing.T, m *remembered) { m.o.Signer = "SHA256:x" },
		"another repository": func(_ *testing.T, m *remembered) { m.run.Repository += "x" },
		"too old":            func(_ *testing.T, m *remembered) { m.after(maxReuseAge + time.Second) },
		"from the future":    func(_ *testing.T, m *remembered) { m.after(-time.Second) },
		"no bundle":          func(t *testing.T, m *remembered) { os.Remove(m.files(t, bundleExt)[0]) },
		"torn bundle":        func(t *testing.T, m *remembered) { truncate(t, m.files(t, bundleExt)[0]) },
		"torn entry":         func(t *testing.T, m *remembered) { truncate(t, entry(m)) },
		"empty entry": func(t *testing.T, m *remembered) {
			if err := os.Truncate(entry(m), 0); err != nil {
				t.Fatal(err)
			}
		},
		"entry of another run": func(t *testing.T, m *remembered) {
			other := filepath.Join(baseDir(m.o.State), entryName(m.keys[verifier.SideBase], "", verifier.SideBase))
			if err := os.Rename(other, entry(m)); err != nil {
				t.Fatal(err)
			}
		},
		"a folder": func(t *testing.T, m *remembered) {
			os.Remove(entry(m))
			if err := os.Mkdir(entry(m), 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"a link": func(t *testing.T, m *remembered) {
			name := m.files(t, bundleExt)[0]
			to := filepath.Join(m.o.State, "elsewhere")
			if err := os.Rename(name, to); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(to, name); err != nil {
				t.Fatal(err)
			}
		},
		"another bundle": func(t *testing.T, m *remembered) {
			r := baseRun()
			r.Salt = receipts.Digest{1}
			file, err := r.Bundle(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(m.files(t, bundleExt)[0], file, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := keeper(t, baseRun())
			m.remember(t)
			if m.find(verifier.SideHead) == nil {
				t.Fatal("nothing is found to begin with")
			}
			edit(t, m)
			if found := m.find(verifier.SideHead); found != nil {
				t.Errorf("found %+v", found)
			}
		})
	}
	m := keeper(t, baseRun())
	m.remember(t)
	size := int64(len(m.file))
	for _, test := range []struct {
		level int
		room  int64
		found bool
	}{{3, size, true}, {4, size, false}, {3, size - 1, false}} {
		if _, found := findBase(t.Context(), &m.o, m.run.Repository, entryName(m.keys[verifier.SideHead], "", verifier.SideHead), m.keys[verifier.SideHead], test.level, test.room); (found != nil) != test.found {
			t.Errorf("level %d, room %d: found %t", test.level, test.room, found != nil)
		}
	}
}

func (m *remembered) after(d time.Duration) {
	seal, _ := m.report.Seal()
	m.o.Now = func() time.Time { return time.UnixMilli(int64(seal.End)).Add(d) }
}

func secretFile(dir string, secret []byte) (*os.File, error) {
	name := filepath.Join(dir, "other.key")
	if err := os.WriteFile(name, secret, 0o600); err != nil {
		return nil, err
	}
	return os.Open(name)
}

func truncate(t *testing.T, name string) {
	t.Helper()
	info, err := os.Stat(name)
	if err == nil {
		err = os.Truncate(name, info.Size()-1)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestBaseEntryBytes: no byte of an entry can be another one.
func TestBaseEntryBytes(t *testing.T) {
	t.Parallel()
	m := keeper(t, baseRun())
	m.remember(t)
	name := filepath.Join(baseDir(m.o.State), entryName(m.keys[verifier.SideHead], "", verifier.SideHead))
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		if testing.Short() && i%7 != 0 {
			continue
		}
		changed := bytes.Clone(text)
		if changed[i]++; changed[i] == ':' { // a digit, where there was a 9
			changed[i] = '0'
		}
		if err := os.WriteFile(name, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if m.find(verifier.SideHead) != nil {
			t.Errorf("byte %d: %q is used", i, changed)
		}
	}
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if m.find(verifier.SideHead) == nil {
		t.Error("not used as it was")
	}
}

// TestRememberNot: runs that are not kept.
func TestRememberNot(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(r *fixture.Run, o *Options){
		"not wanted":    func(_ *fixture.Run, o *Options) { o.Reuse = false },
		"not completed": func(r *fixture.Run, _ *Options) { r.Stop, r.Statement.Outcome = 5, bundle.OutcomeKilled },
		"no go command": func(r *fixture.Run, _ *Options) { r.Texts = false },
		"host's network": func(r *fixture.Run, _ *Options) {
			r.Config.Test[0].Network, r.Config.Isolation.Level = verifier.NetworkHost, 1
		},
		"ports of a host": func(r *fixture.Run, _ *Options) { r.Config.Test[0].Connect = []string{"127.0.0.1:5432"} },
		"timeout": func(r *fixture.Run, _ *Options) {
			r.Output = func(verifier.PlannedRun) fixture.Output { return fixture.Output{State: receipts.StateTimeout} }
		},
		"cut": func(r *fixture.Run, _ *Options) {
			green := r.Output
			r.Output = func(p verifier.PlannedRun) fixture.Output { o := green(p); o.Dropped = 1; return o }
		},
		"no walls known": func(r *fixture.Run, _ *Options) {
			green := r.Output
			r.Output = func(p verifier.PlannedRun) fixture.Output { o := green(p); o.Level = -1; return o }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := baseRun()
			var o Options
			o.Reuse = true
			edit(&r, &o)
			m := keeper(t, r)
			m.o.Reuse = o.Reuse
			m.remember(t)
			if list := append(m.files(t, ""), m.files(t, bundleExt)...); len(list) > 0 {
				t.Errorf("kept: %q", list)
			}
		})
	}
	// One that was verified without the key, and none at all.
	m := keeper(t, baseRun())
	options := m.run.Options()
	options.Keys = nil
	var err error
	if m.report, err = verifier.Verify(bytes.NewReader(m.file), int64(len(m.file)), options); err != nil {
		t.Fatal(err)
	}
	m.remember(t)
	m.report = verifier.Report{}
	m.remember(t)
	if list := m.files(t, ""); len(list) > 0 {
		t.Errorf("kept: %q", list)
	}
}

// TestPruneBase: the newest bundles stay, and what belongs to none goes.
func TestPruneBase(t *testing.T) {
	t.Parallel()
	m := keeper(t, baseRun())
	m.remember(t)
	dir := baseDir(m.o.State)
	now := m.o.Now()
	at := func(name string, age time.Duration) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	kept := m.files(t, bundleExt)[0]
	if err := os.Chtimes(kept, now, now.Add(-90*time.Minute)); err != nil {
		t.Fatal(err)
	}
	for i := range maxKept {
		at(fmt.Sprintf("%d%s", i, bundleExt), time.Duration(i)*time.Hour)
	}
	at(newPrefix+"old", 2*time.Hour)
	at(newPrefix+"fresh", time.Minute)
	at("entry", 0)
	if err := pruneBase(dir, now); err != nil {
		t.Fatal(err)
	}
	if list := m.files(t, bundleExt); len(list) != maxKept {
		t.Errorf("%d bundles: %q", len(list), list)
	}
	for name, there := range map[string]bool{
		kept: true, "18" + bundleExt: true, "19" + bundleExt: false, newPrefix + "old": false, newPrefix + "fresh": true, "entry": false,
	} {
		if _, err := os.Stat(filepath.Join(dir, filepath.Base(name))); (err == nil) != there {
			t.Errorf("%s: there %t", name, err == nil)
		}
	}
	if m.find(verifier.SideHead) == nil {
		t.Error("the entry is gone")
	}
	// What is taken over is in use, and so not the oldest any more.
	if info, err := os.Stat(kept); err != nil || info.ModTime().Before(now.Add(-time.Second)) {
		t.Errorf("%v (%v)", info.ModTime(), err)
	}
	os.Remove(kept)
	if err := pruneBase(dir, now); err != nil {
		t.Fatal(err)
	}
	if list := m.files(t, ""); len(list) != 1 { // the fresh file of another run
		t.Errorf("entries without a bundle: %q", list)
	}
}

// TestRememberTogether: runs that end at the same time leave what one of them left.
func TestRememberTogether(t *testing.T) {
	t.Parallel()
	m := keeper(t, baseRun())
	m.remember(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 5 {
				if err := Remember(m.o, m.path, m.report); err != nil {
					t.Error(err)
				}
				if m.find(verifier.SideHead) == nil {
					t.Error("not found while others keep it")
				}
			}
		})
	}
	all.Wait()
	if n := len(m.files(t, "")); n != 2 {
		t.Errorf("%d entries", n)
	}
}

// TestThin: a bundle is kept without those that it imports, so that one does not
// hold all that came before.
func TestThin(t *testing.T) {
	t.Parallel()
	first := keeper(t, baseRun())
	second := baseRun()
	second.Salt, second.Canary = receipts.Digest{1}, receipts.Digest{2}
	second.Head["add.go"] += "\nfunc C() {}\n"
	second.Import = []fixture.Imported{{Entry: "unit", Bundle: first.file, Call: 5}}
	m := keeper(t, second)
	if m.report.Verdict() != verifier.Verified {
		t.Fatal(m.report.Reasons())
	}
	m.remember(t)
	if m.find(verifier.SideHead) == nil {
		t.Error("its head is not found")
	}
	if m.find(verifier.SideBase) != nil {
		t.Error("its base is found, which it did not run")
	}
	info, err := os.Stat(m.files(t, bundleExt)[0])
	if err != nil {
		t.Fatal(err)
	}
	if whole := int64(len(m.file)); info.Size() > whole-int64(len(first.file)) {
		t.Errorf("%d bytes of %d, with %d imported", info.Size(), whole, len(first.file))
	}
}
