package runner

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
)

// The state folder:
//
//	receipt.key        the secret, 32 bytes, mode 0600
//	cache/             dependencies, compiled standard libraries, and results of earlier runs
//	runs/ID/           a run under way, locked by the process that makes it
//	bundles/           bundles without a name of their own
const (
	runsDir    = "runs"
	bundlesDir = "bundles"
	cacheDir   = "cache"
	recordDir  = "record" // in the folder of a run
	lockFile   = "lock"
	newPrefix  = "new-" // of a folder of a cache that is being filled; the run's id follows
)

// newRunDir makes the folder of a run and locks it.
func newRunDir(state string) (dir string, lock *os.File, err error) {
	for range 3 { // a sweep can come between a folder and its lock
		var id [8]byte
		rand.Read(id[:])
		dir = filepath.Join(state, runsDir, hex.EncodeToString(id[:]))
		if err = os.MkdirAll(filepath.Join(dir, recordDir), 0o700); err != nil {
			return "", nil, err
		}
		if lock, err = lockRun(dir, os.O_CREATE); err == nil {
			return dir, lock, nil
		}
	}
	return "", nil, fmt.Errorf("lock: %w", err)
}

// lockRun locks the folder of a run, which fails while its owner lives.
func lockRun(dir string, create int) (*os.File, error) {
	name := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(name, os.O_RDWR|create, 0o600)
	if err != nil {
		return nil, err
	}
	err = tryLock(f)
	if err == nil {
		err = stillNamed(f, name)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sweepRuns removes what dead runs left beside their records, which [Recover]
// seals: trees, and folders of caches that were being filled.
func sweepRuns(state string) {
	runs, _ := filepath.Glob(filepath.Join(state, runsDir, "*"))
	for _, dir := range runs {
		lock, err := lockRun(dir, 0)
		if err != nil {
			continue
		}
		left, _ := os.ReadDir(dir)
		for _, e := range left {
			if e.Name() != recordDir && e.Name() != lockFile {
				removeWritable(filepath.Join(dir, e.Name()))
			}
		}
		lock.Close()
	}
	for _, pattern := range []string{"deps/", "go-build/*/"} {
		half, _ := filepath.Glob(filepath.Join(state, cacheDir, pattern+newPrefix+"*"))
		for _, dir := range half {
			run, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), newPrefix), "-")
			lock, err := lockRun(filepath.Join(state, runsDir, run), 0)
			if err == nil {
				lock.Close()
			}
			if err == nil || errors.Is(err, os.ErrNotExist) {
				removeWritable(dir)
			}
		}
	}
}

// removeWritable removes a folder in which some are read-only, as those of
// modules are.
func removeWritable(dir string) {
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			os.Chmod(p, 0o700)
		}
		return nil
	})
	os.RemoveAll(dir)
}

// Recovered is a run that an earlier process left behind.
type Recovered struct {
	Bundle string // "" where nothing had been recorded
	Err    error  // why it could not be sealed
}

// Recover seals the runs that processes left behind which are no more: their
// outcome is killed, and they are marked resealed. A log that does not verify
// under the key stays where it is.
func Recover(o Options) ([]Recovered, error) {
	entries, err := os.ReadDir(filepath.Join(o.State, runsDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Recovered
	for _, e := range entries {
		dir := filepath.Join(o.State, runsDir, e.Name())
		lock, err := lockRun(dir, os.O_CREATE) // one killed before it had a lock has none
		if err != nil {
			continue // it is alive
		}
		r := reseal(o, dir)
		if r.Err == nil {
			os.RemoveAll(dir)
		}
		lock.Close()
		if r.Bundle != "" || r.Err != nil {
			list = append(list, r)
		}
	}
	return list, nil
}

func reseal(o Options, dir string) Recovered {
	f, err := o.Key()
	if err != nil {
		return Recovered{Err: err}
	}
	defer f.Close()
	secret, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return Recovered{Err: err}
	}
	rec, run, err := bundle.Resume(filepath.Join(dir, recordDir), func(purpose string, salt receipts.Digest, task, job receipts.ID) (receipts.Key, error) {
		return receipts.DeriveKey(secret, salt, purpose, task, job)
	}, o.Now)
	if errors.Is(err, bundle.ErrNoRun) {
		return Recovered{}
	}
	if err != nil {
		return Recovered{Err: fmt.Errorf("%s: %w", dir, err)}
	}
	defer rec.Close()
	s := bundle.Statement{Why: "the process that made the run ended before it was sealed"}
	s.Config, s.Plan = plannedOf(rec, run)
	path := filepath.Join(o.State, bundlesDir, bundleName(o.Now(), "interrupted", filepath.Base(dir)))
	if _, err := rec.Reseal(path, s, nil); err != nil {
		return Recovered{Err: fmt.Errorf("%s: %w", dir, err)}
	}
	return Recovered{Bundle: path}
}

// plannedOf returns the digests of configuration and plan out of a run's log.
func plannedOf(rec *bundle.Recorder, run *receipts.Run) (config, plan receipts.Digest) {
	for _, c := range run.Calls {
		if c.Tool != receipts.ToolPlan || c.Receipt < 0 {
			continue
		}
		if a := run.Receipts[c.Receipt].Artifacts; len(a) == 2 {
			return a[0], a[1]
		}
	}
	return receipts.Digest{}, receipts.Digest{}
}
