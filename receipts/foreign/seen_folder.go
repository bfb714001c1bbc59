package foreign

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// A SeenFolder is a [Seen] that outlives its process, and that several processes share.
// It holds one small file for each receipt, in 256 folders:
//
//	ab/cdef…   the [Digest] of issuer and id; the time from when on it does not count
//	           as 2006-01-02T15:04:05Z, or "never"
//
// A receipt is new for the one process that makes its file: the file system allows that
// once. It is on the disk before Add returns, so after a crash it is still seen. A file
// that a crash left empty stays for good.
//
// Each of the folders holds 256 receipts. One that is full is swept: receipts that do not
// count any more by the clock are removed. If it is full of others, Add is an error, as
// [SeenMemory.Add] is; processes that add at once can exceed the limit by one each.
// Receipts end when the rules of whoever added them say so: adapters that share a folder
// share their rules.
type SeenFolder struct {
	path string
	now  func() time.Time
}

var _ Seen = (*SeenFolder)(nil)

const (
	seenPerFolder = DefaultSeen / 256
	seenForm      = "2006-01-02T15:04:05Z"
	seenNever     = "never"
)

// OpenSeenFolder returns what remembers receipts in a folder, which it makes if it is not
// there. now is nil for time.Now.
func OpenSeenFolder(path string, now func() time.Time) (*SeenFolder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("seen receipts: %w", err)
	}
	if now == nil {
		now = time.Now
	}
	return &SeenFolder{path, now}, nil
}

// Add implements [Seen].
func (f *SeenFolder) Add(ctx context.Context, issuer, id string, until time.Time) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	digest := Digest(issuer, id)
	name := hex.EncodeToString(digest[:])
	isNew, err := f.add(filepath.Join(f.path, name[:2]), name[2:], until)
	if err != nil {
		return false, fmt.Errorf("seen receipts: %w", err)
	}
	return isNew, nil
}

func (f *SeenFolder) add(folder, name string, until time.Time) (bool, error) {
	if err := os.Mkdir(folder, 0o700); err == nil {
		if err := syncFolder(f.path); err != nil {
			return false, err
		}
	} else if !errors.Is(err, os.ErrExist) {
		return false, err
	}
	path := filepath.Join(folder, name)
	if _, err := os.Lstat(path); err == nil {
		return false, nil
	}
	if err := f.makeRoom(folder); err != nil {
		return false, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	text := seenNever
	if !until.IsZero() {
		text = until.Add(time.Second - 1).UTC().Format(seenForm) // the second is not cut off, but full
	}
	_, err = file.WriteString(text)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = syncFolder(folder)
	}
	if err != nil {
		os.Remove(path) // nobody has taken it for new
		return false, err
	}
	return true, nil
}

// makeRoom sweeps a folder if it is full.
func (f *SeenFolder) makeRoom(folder string) error {
	list, err := os.ReadDir(folder)
	if err != nil || len(list) < seenPerFolder {
		return err
	}
	left := len(list)
	for _, entry := range list {
		path := filepath.Join(folder, entry.Name())
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			left--
			continue
		}
		until, bad := time.Parse(seenForm, string(text))
		if err != nil || bad != nil || f.now().Before(until) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		left--
	}
	if left >= seenPerFolder {
		return fmt.Errorf("%s: %w: %d", filepath.Base(folder), errSeenFull, left)
	}
	return nil
}

// syncFolder makes the names in a folder outlive a crash, where the system can.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
