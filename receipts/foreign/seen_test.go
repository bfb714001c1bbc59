package foreign

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestDigest(t *testing.T) {
	t.Parallel()
	pairs := [][2]string{{"", ""}, {"a", ""}, {"", "a"}, {"a", "b"}, {"ab", ""}, {"", "ab"}, {"a|b", "c"}, {"a", "b|c"}, {"a\x00", "b"}, {"a", "\x00b"}}
	seen := map[[32]byte][2]string{}
	for _, p := range pairs {
		d := Digest(p[0], p[1])
		if q, ok := seen[d]; ok {
			t.Errorf("%q and %q have one name", p, q)
		}
		seen[d] = p
	}
}

// seens are the two kinds of Seen, with a clock.
func seens(t *testing.T) map[string]func(now func() time.Time) Seen {
	return map[string]func(func() time.Time) Seen{
		"memory": func(now func() time.Time) Seen { return &SeenMemory{Now: now} },
		"folder": func(now func() time.Time) Seen {
			f, err := OpenSeenFolder(filepath.Join(t.TempDir(), "a", "seen"), now)
			if err != nil {
				t.Fatal(err)
			}
			return f
		},
	}
}

func TestSeen(t *testing.T) {
	t.Parallel()
	for name, open := range seens(t) {
		s := open(func() time.Time { return jwsNow })
		for i, step := range []struct {
			issuer, id string
			until      time.Time
			isNew      bool
		}{
			{"a", "1", jwsNow.Add(time.Hour), true},
			{"a", "1", jwsNow.Add(time.Hour), false},
			{"a", "1", time.Time{}, false},
			{"b", "1", jwsNow.Add(time.Hour), true},
			{"a", "2", time.Time{}, true},
			{"a", "2", time.Time{}, false},
			{"../..", "/etc/passwd\x00\n", jwsNow, true},
			{"../..", "/etc/passwd\x00\n", jwsNow, false},
			{strings.Repeat("a", 1<<16), "", jwsNow, true},
		} {
			if isNew, err := s.Add(t.Context(), step.issuer, step.id, step.until); err != nil || isNew != step.isNew {
				t.Errorf("%s: step %d: %t, %v", name, i, isNew, err)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if isNew, err := s.Add(ended, "c", "1", jwsNow); isNew || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %t, %v", name, isNew, err)
		}
		if isNew, err := s.Add(t.Context(), "c", "1", jwsNow); !isNew || err != nil {
			t.Errorf("%s: an Add that ended has used up a receipt: %v", name, err)
		}
	}
}

// TestSeenConcurrent: of many who add one receipt at once, one has it new.
func TestSeenConcurrent(t *testing.T) {
	t.Parallel()
	for name, open := range seens(t) {
		s := open(nil)
		var wg sync.WaitGroup
		var isNew [8]atomic.Int32
		for range 8 {
			wg.Go(func() {
				for i := range isNew {
					ok, err := s.Add(t.Context(), "a", fmt.Sprint(i), time.Now().Add(time.Hour))
					if err != nil {
						t.Errorf("%s: %v", name, err)
					}
					if ok {
						isNew[i].Add(1)
					}
				}
			})
		}
		wg.Wait()
		for i := range isNew {
			if n := isNew[i].Load(); n != 1 {
				t.Errorf("%s: receipt %d is new %d times", name, i, n)
			}
		}
	}
}

// TestSeenMemoryFull: nothing that still counts is forgotten, and what does not is.
func TestSeenMemoryFull(t *testing.T) {
	t.Parallel()
	now := jwsNow
	m := &SeenMemory{Now: func() time.Time { return now }, Limit: 3}
	add := func(id string, until time.Time) (bool, error) { return m.Add(t.Context(), "a", id, until) }
	for id, until := range map[string]time.Time{"1": now.Add(time.Minute), "2": now.Add(time.Hour), "3": {}} {
		if isNew, err := add(id, until); !isNew || err != nil {
			t.Fatalf("%s: %v", id, err)
		}
	}
	if isNew, err := add("4", now.Add(time.Hour)); isNew || !errors.Is(err, errSeenFull) {
		t.Errorf("%t, %v", isNew, err)
	}
	if isNew, err := add("1", now); isNew || err != nil {
		t.Errorf("when full: %t, %v", isNew, err)
	}
	now = now.Add(time.Minute)
	if isNew, err := add("4", now.Add(time.Hour)); !isNew || err != nil {
		t.Errorf("after a minute: %t, %v", isNew, err)
	}
	if isNew, err := add("5", now.Add(time.Hour)); isNew || !errors.Is(err, errSeenFull) {
		t.Errorf("full again: %t, %v", isNew, err)
	}
	now = now.Add(100 * time.Hour)
	for _, id := range []string{"5", "6"} {
		if isNew, err := add(id, time.Time{}); !isNew || err != nil {
			t.Errorf("after days: %t, %v", isNew, err)
		}
	}
	if isNew, err := add("7", now); isNew || !errors.Is(err, errSeenFull) || len(m.until) != 3 {
		t.Errorf("full for good: %t, %v", isNew, err)
	}
}

// TestSeenFolderFull fills one of the folders, and has files in it that a crash left.
func TestSeenFolderFull(t *testing.T) {
	t.Parallel()
	now := jwsNow
	dir := t.TempDir()
	f, err := OpenSeenFolder(dir, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	isNew, err := f.Add(t.Context(), "a", "1", now.Add(1500*time.Millisecond))
	if !isNew || err != nil {
		t.Fatal(err)
	}
	digest := Digest("a", "1")
	name := hex.EncodeToString(digest[:])
	folder := filepath.Join(dir, name[:2])
	text, err := os.ReadFile(filepath.Join(folder, name[2:]))
	if want := now.Add(2 * time.Second).Format(seenForm); err != nil || string(text) != want {
		t.Errorf("%q, %v, want %q", text, err, want)
	}
	write := func(n int, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%062x", n)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(0, "")            // a crash behind the creation
	write(1, "2026-03-04T") // within the write
	write(2, seenNever)     // for good
	for n := 3; n < seenPerFolder-1; n++ {
		write(n, now.Add(time.Hour).Format(seenForm))
	}
	// Another receipt of the same folder.
	id := ""
	for n := 2; ; n++ {
		if d := Digest("a", fmt.Sprint(n)); d[0] == digest[0] {
			id = fmt.Sprint(n)
			break
		}
	}
	if isNew, err := f.Add(t.Context(), "a", id, now.Add(time.Hour)); isNew || !errors.Is(err, errSeenFull) {
		t.Errorf("full: %t, %v", isNew, err)
	}
	if isNew, err := f.Add(t.Context(), "a", "1", now); isNew || err != nil {
		t.Errorf("what is there, when full: %t, %v", isNew, err)
	}
	now = now.Add(2 * time.Second)
	if isNew, err := f.Add(t.Context(), "a", id, now.Add(time.Hour)); !isNew || err != nil {
		t.Errorf("one has ended: %t, %v", isNew, err)
	}
	now = now.Add(24 * time.Hour)
	if isNew, err := f.Add(t.Context(), "a", "1", now.Add(time.Hour)); !isNew || err != nil {
		t.Errorf("all have ended: %t, %v", isNew, err)
	}
	list, err := os.ReadDir(folder)
	if err != nil || len(list) != 4 {
		t.Errorf("%d files are left, %v", len(list), err)
	}
}

func TestSeenFolderErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := OpenSeenFolder(file, nil); err == nil || f != nil {
		t.Error("a file is a folder")
	}
	dir := filepath.Join(t.TempDir(), "seen")
	f, err := OpenSeenFolder(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if isNew, err := f.Add(t.Context(), "a", "1", time.Time{}); isNew || err == nil {
		t.Errorf("the folder is gone: %t, %v", isNew, err)
	}
}

// TestSeenFolderProcesses: several processes share a folder, and each receipt is new in
// one of them.
func TestSeenFolderProcesses(t *testing.T) {
	t.Parallel()
	const name, receipts = "TRUEGREEN_TEST_SEEN_FOLDER", 16
	if dir := os.Getenv(name); dir != "" {
		f, err := OpenSeenFolder(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range receipts {
			isNew, err := f.Add(t.Context(), "a", fmt.Sprint(i), time.Now().Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			if isNew {
				fmt.Printf("new:%d\n", i)
			}
		}
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var outs [3]string
	var wg sync.WaitGroup
	for i := range outs {
		wg.Go(func() {
			cmd := exec.Command(self, "-test.run=^TestSeenFolderProcesses$")
			cmd.Env = append(os.Environ(), name+"="+dir)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			outs[i] = string(out)
		})
	}
	wg.Wait()
	all := strings.Join(outs[:], "\n")
	for i := range receipts {
		if n := strings.Count(all, fmt.Sprintf("new:%d\n", i)); n != 1 {
			t.Errorf("receipt %d is new %d times", i, n)
		}
	}
}
