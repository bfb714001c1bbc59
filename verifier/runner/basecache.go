package runner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
)

// The cache of base results, in the folder cache/base of the state folder, holds
// bundles of earlier runs, and for each plain run in them that can stand for a later
// one an entry:
//
//	DIGEST.tar.zst  a bundle, without those that it imports; the digest is the file's
//	DIGEST          an entry; the digest is of what decides a run's result
//
// An entry is a document with a MAC under a key of its own, derived from the receipt
// key. The process that holds that key makes the MAC again before a result is taken
// over, so that nobody can add one who could not seal a run as well. The bundle is
// part of the new one, and verified with it.
const (
	baseCache   = "base"
	bundleExt   = ".tar.zst"
	maxKept     = 20                 // bundles, each of at most verifier.MaxImport bytes
	maxEntries  = 4096               // files that are looked at, so that a full folder costs no more
	maxReuseAge = 7 * 24 * time.Hour // of a run whose results are taken over
	purposeBase = "base cache"
)

// A baseEntry says where the result of a run is.
type baseEntry struct {
	V      int             `json:"v"`
	Key    receipts.Digest `json:"key"` // of the run: see verifier.RunKey
	Signer string          `json:"signer,omitempty"`
	Bundle receipts.Digest `json:"bundle"` // of the file
	Seal   receipts.Digest `json:"seal"`
	Call   uint64          `json:"call"`
	Ended  int64           `json:"ended_ms"`
	MAC    receipts.Digest `json:"mac"` // over the document with zeros here
}

var errBaseEntry = errors.New("base cache: no entry of this key")

func (e *baseEntry) text() ([]byte, error) {
	plain := *e
	plain.MAC = receipts.Digest{}
	return receipts.Encode(&plain)
}

func baseDir(state string) string { return filepath.Join(state, cacheDir, baseCache) }

// entryName returns the name of the entry for a run on a side of its patch, under a
// seal that this SSH key signs, "" for none: who trusts the one signature has to find
// it on both. The sides have entries of their own, because a run on the head serves
// all that comes after it, and one on the base few: see [job.published].
func entryName(key receipts.Digest, signer, side string) string {
	return receipts.Sum(fmt.Appendf(nil, "truegreen/v1 base entry\x00%s\x00%s\x00%s", key, signer, side)).String()
}

// baseSalt is the salt of the key that makes the MACs of entries. Unlike a run's it
// is always the same.
func baseSalt() receipts.Digest { return receipts.Sum([]byte("truegreen/v1 base cache")) }

// importBase looks for results of earlier runs that stand for those on the base.
func (j *job) importBase(ctx context.Context) error {
	if !j.o.Reuse || j.o.Fresh || !j.runsBase() {
		return nil
	}
	runs := verifier.NewJudgement(io.Discard, j.judged()).Next()
	room := int64(verifier.MaxImport)
	for i := range runs {
		p := &runs[i]
		if p.Side != verifier.SideBase || p.Skip != "" {
			continue
		}
		args, spec, err := j.testSpec(p, time.Duration(p.Timeout)*time.Second)
		if err != nil {
			return err
		}
		if _, err := j.describe(args, &spec); err != nil {
			return err
		}
		key, err := verifier.RunKey(receipts.Bytes(j.repo.Name()), &j.plan, args)
		if err != nil {
			return err
		}
		for _, side := range [...]string{verifier.SideHead, verifier.SideBase} {
			content, found := findBase(ctx, &j.o, j.repo.Name(), entryName(key, j.o.Signer, side), key, j.minLevel(), room)
			if found == nil || !j.published(ctx, &found.Patch) {
				continue
			}
			room -= int64(len(content))
			if err := j.recordImport(p, content, found); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// published reports whether what an earlier run was about is in the history of this
// head. Its bundle becomes part of the new one, with its diff and what its tests
// printed: whoever gets the new one is not to get a patch that was never meant for
// them, nor one that was amended because of what it held.
func (j *job) published(ctx context.Context, p *verifier.Patch) bool {
	for _, commit := range [...]string{p.Base, p.Head} {
		if commit != "" && commit != j.Head.ID && !j.isAncestor(ctx, commit) {
			return false
		}
	}
	return true
}

func (j *job) isAncestor(ctx context.Context, commit string) bool {
	id, err := j.repo.mergeBase(ctx, commit, j.Head.ID)
	return err == nil && id == commit
}

// findBase returns the result that an entry has for a key, and the bundle that it is
// in; nil where there is none that can be used, for whatever reason: the run is made
// then.
func findBase(ctx context.Context, o *Options, repository, name string, key receipts.Digest, minLevel int, room int64) ([]byte, *verifier.Import) {
	dir := baseDir(o.State)
	text, err := readAtMost(filepath.Join(dir, name), 4<<10)
	var e baseEntry
	if err != nil || receipts.Decode(text, &e) != nil || e.V != receipts.DocumentVersion || e.Key != key || e.Signer != o.Signer {
		return nil, nil
	}
	if age := o.Now().Sub(time.UnixMilli(e.Ended)); age < 0 || age > maxReuseAge {
		return nil, nil
	}
	path := filepath.Join(dir, e.Bundle.String()+bundleExt)
	content, err := readAtMost(path, room)
	if err != nil || receipts.Sum(content) != e.Bundle || checkEntry(ctx, o, &e) != nil {
		return nil, nil
	}
	found, err := verifier.ReadImport(bytes.NewReader(content), int64(len(content)), e.Call, verifier.Options{Repository: repository})
	if err != nil || found.Key() != key || found.Seal != e.Seal || found.Call.Result.Isolation.Level < minLevel {
		return nil, nil
	}
	now := o.Now()
	os.Chtimes(path, now, now) // what is in use stays; if it does not, the next run makes it again
	return content, found
}

// checkEntry has the process that can read the key make an entry's MAC again.
func checkEntry(ctx context.Context, o *Options, e *baseEntry) error {
	secret, err := o.Key()
	if err != nil {
		return err
	}
	defer secret.Close()
	proc, err := sandbox.StartSigner(ctx, secret, baseSalt(), [][]byte{receipts.KeyInfo(purposeBase, receipts.ID{}, receipts.ID{})})
	if err != nil {
		return err
	}
	defer proc.Close()
	text, err := e.text()
	if err != nil {
		return err
	}
	mac, err := proc.MAC(0, text)
	if err == nil && receipts.Digest(mac) != e.MAC {
		err = errBaseEntry
	}
	return err
}

// recordImport makes the call that says where a result on the base is from.
func (j *job) recordImport(p *verifier.PlannedRun, content []byte, found *verifier.Import) error {
	tree := j.listings[0].listing.SHA256
	from := found.Ended.UTC().Format(time.RFC3339)
	j.progress(receipts.ToolImport, p.Name+" on base, of the run of "+from, false)
	call, err := j.rec.Begin(&receipts.Args{
		Tool: receipts.ToolImport, Name: p.Name, Side: p.Side, Argv: []receipts.Bytes{}, Dir: "/", Env: []receipts.Bytes{}, Patch: j.patch, Tree: &tree,
	})
	if err != nil {
		return err
	}
	result := receipts.Result{State: receipts.StateExited, Start: j.o.Now().UnixMilli(), Notes: []receipts.Note{
		{Name: verifier.NoteImportSeal, Value: receipts.Bytes(found.Seal.String())},
		{Name: verifier.NoteImportCall, Value: receipts.Bytes(fmt.Sprint(found.Call.Call))},
	}}
	d, err := j.rec.Spool().Put(content)
	if err != nil {
		return err
	}
	result.Files = []receipts.File{{Name: verifier.FileBundle, Digest: d, Size: int64(len(content))}}
	result.End = j.o.Now().UnixMilli()
	if j.imports == nil {
		j.imports = map[string]*verifier.Import{}
	}
	j.imports[p.Name] = found
	return call.End(&result)
}

// Remember keeps the bundle of a run, which has been verified, so that later runs on
// one of its trees can take over what its plain runs came to. It reads the key, so
// call it when no process of tested code is left. A run that the key is not trusted
// to have sealed is not kept, nor one whose results nothing can be done with.
func Remember(o Options, path string, r verifier.Report) error {
	if !o.Reuse || !r.MACsChecked() {
		return nil
	}
	plan := r.Plan()
	seal, sealed := r.Seal()
	if seal.Outcome != bundle.OutcomeCompleted {
		return nil
	}
	var entries []baseEntry
	var sides []string
	imported := map[receipts.Digest]bool{}
	for _, s := range r.Steps() {
		if s.Args == nil || s.Result == nil {
			continue
		}
		if s.Tool == receipts.ToolImport {
			for _, f := range s.Result.Files {
				imported[f.Digest] = true
			}
		}
		c := verifier.TestCall{Call: s.Start.Call, Args: *s.Args, Result: *s.Result}
		if verifier.Reusable(&plan, &c) != "" {
			continue
		}
		key, err := verifier.RunKey(r.Patch().Repository, &plan, &c.Args)
		if err != nil {
			return fmt.Errorf("base cache: %w", err)
		}
		entries = append(entries, baseEntry{
			V: receipts.DocumentVersion, Key: key, Signer: o.Signer, Seal: sealed, Call: c.Call, Ended: int64(seal.End),
		})
		sides = append(sides, c.Args.Side)
	}
	if len(entries) == 0 {
		return nil
	}
	if err := remember(o, path, entries, sides, imported); err != nil {
		return fmt.Errorf("base cache: %w", err)
	}
	return nil
}

func remember(o Options, path string, entries []baseEntry, sides []string, imported map[receipts.Digest]bool) error {
	dir := baseDir(o.State)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	content, err := thin(path, imported)
	if err != nil || int64(len(content)) > verifier.MaxImport {
		return err
	}
	digest := receipts.Sum(content)
	if err := writeWhole(filepath.Join(dir, digest.String()+bundleExt), content); err != nil {
		return err
	}
	key, err := baseKey(o)
	if err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i]
		e.Bundle = digest
		text, err := e.text()
		if err == nil {
			e.MAC, err = key.MAC(text)
		}
		if err == nil {
			text, err = receipts.Encode(e)
		}
		if err == nil {
			err = writeWhole(filepath.Join(dir, entryName(e.Key, e.Signer, sides[i])), text)
		}
		if err != nil {
			return err
		}
	}
	return pruneBase(dir, o.Now())
}

// baseKey returns the key that makes the MACs of entries.
func baseKey(o Options) (receipts.Key, error) {
	f, err := o.Key()
	if err != nil {
		return receipts.Key{}, err
	}
	defer f.Close()
	var secret [sha256.Size]byte
	if _, err := io.ReadFull(f, secret[:]); err != nil {
		return receipts.Key{}, err
	}
	defer clear(secret[:])
	return receipts.DeriveKey(secret[:], baseSalt(), purposeBase, receipts.ID{}, receipts.ID{})
}

// thin returns a bundle without some of its blobs. It stops where that is more
// than can be imported.
func thin(path string, without map[receipts.Digest]bool) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if len(without) == 0 {
		return io.ReadAll(io.LimitReader(f, verifier.MaxImport+1))
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b, err := bundle.Open(f, info.Size(), bundle.Limits{})
	if err != nil {
		return nil, err
	}
	m := bundle.Members{Seal: b.Seal(), MAC: b.MAC(), Sig: b.Sig(), Open: b.Blob}
	var log int64
	total := int64(0)
	if err := b.Walk(func(e bundle.Entry, _ io.Reader) error {
		switch {
		case e.Digest.IsZero():
			log = e.Size // the log is the last of those that are no blobs
		case !without[e.Digest]:
			m.Blobs = append(m.Blobs, e.Digest)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	m.Log = func() (io.ReadCloser, int64, error) {
		r, err := b.Log()
		return r, log, err
	}
	var out bytes.Buffer
	err = bundle.Write(writerFunc(func(p []byte) (int, error) {
		if total += int64(len(p)); total <= verifier.MaxImport+1 {
			return out.Write(p)
		}
		return len(p), nil
	}), m)
	if total > verifier.MaxImport {
		return make([]byte, verifier.MaxImport+1), err
	}
	return out.Bytes(), err
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// pruneBase removes all bundles but the newest, and entries without a bundle.
func pruneBase(dir string, now time.Time) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	list, err := f.ReadDir(maxEntries)
	if err != nil && err != io.EOF {
		return err
	}
	type file struct {
		name string
		at   time.Time
	}
	var bundles []file
	for _, e := range list {
		info, err := e.Info()
		switch {
		case err != nil: // removed by another run
		case strings.HasSuffix(e.Name(), bundleExt):
			bundles = append(bundles, file{e.Name(), info.ModTime()})
		case strings.HasPrefix(e.Name(), newPrefix) && now.Sub(info.ModTime()) > time.Hour:
			os.Remove(filepath.Join(dir, e.Name())) // of a run that was killed
		}
	}
	slices.SortFunc(bundles, func(a, b file) int { return b.at.Compare(a.at) })
	kept := map[string]bool{}
	for i, b := range bundles {
		if i < maxKept {
			kept[b.name] = true
		} else {
			os.Remove(filepath.Join(dir, b.name))
		}
	}
	for _, e := range list {
		if strings.HasSuffix(e.Name(), bundleExt) || strings.HasPrefix(e.Name(), newPrefix) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		text, err := readAtMost(path, 4<<10)
		var entry baseEntry
		if errors.Is(err, os.ErrNotExist) || err == nil && receipts.Decode(text, &entry) == nil && kept[entry.Bundle.String()+bundleExt] {
			continue
		}
		os.RemoveAll(path)
	}
	return nil
}

// writeWhole writes a file that is there whole or not at all. It need not outlive a
// crash of the machine: what is torn then is not used.
func writeWhole(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), newPrefix+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

var errEntrySize = errors.New("base cache: no file, or larger than allowed")

// readAtMost reads a regular file of at most limit bytes.
func readAtMost(path string, limit int64) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, errEntrySize
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	if _, err := b.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) > limit {
		return nil, errEntrySize
	}
	return b.Bytes(), nil
}
