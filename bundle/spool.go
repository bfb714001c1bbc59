package bundle

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/truegreen-dev/truegreen/receipts"
)

// A Spool is a directory of blobs, kept while a run goes on, in which every
// file is named by the SHA-256 of its content:
//
//	blobs/sha256/<64 hex>   complete blobs
//	blobs/*.tmp             being written, or left by a crash
//
// A Spool is safe for concurrent use.
type Spool struct {
	dir string // that holds sha256

	mu    sync.Mutex
	known map[receipts.Digest]bool // put by this Spool; true: not synced yet
}

// NewSpool opens the spool in dir and makes what is missing, with mode 0700.
func NewSpool(dir string) (*Spool, error) {
	s := &Spool{dir: filepath.Join(dir, "blobs"), known: make(map[receipts.Digest]bool)}
	if err := os.MkdirAll(filepath.Join(s.dir, "sha256"), 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	return s, nil
}

func (s *Spool) path(d receipts.Digest) string {
	return filepath.Join(s.dir, "sha256", d.String())
}

// Put stores b.
func (s *Spool) Put(b []byte) (receipts.Digest, error) {
	d := receipts.Sum(b)
	s.mu.Lock()
	_, known := s.known[d]
	s.mu.Unlock()
	if known {
		return d, nil
	}
	w, err := s.create(len(b))
	if err != nil {
		return receipts.Digest{}, err
	}
	defer w.Discard()
	if _, err := w.Write(b); err != nil {
		return receipts.Digest{}, err
	}
	d, _, err = w.Commit()
	return d, err
}

// Create starts a blob whose content is not known yet.
func (s *Spool) Create() (*BlobWriter, error) { return s.create(64 << 10) }

func (s *Spool) create(buffer int) (*BlobWriter, error) {
	f, err := os.CreateTemp(s.dir, "*.tmp") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	return &BlobWriter{s: s, f: f, buf: bufio.NewWriterSize(f, min(buffer, 64<<10)), sum: sha256.New()}, nil
}

// A BlobWriter writes one blob. It is not safe for concurrent use.
type BlobWriter struct {
	s   *Spool
	f   *os.File // nil after Commit or Discard
	buf *bufio.Writer
	sum hash.Hash
	n   int64
}

var errBlobClosed = errors.New("spool: blob is already committed or discarded")

// Write adds p to the blob.
func (w *BlobWriter) Write(p []byte) (int, error) {
	if w.f == nil {
		return 0, errBlobClosed
	}
	n, err := w.buf.Write(p)
	w.sum.Write(p[:n])
	w.n += int64(n)
	if err != nil {
		return n, fmt.Errorf("spool: %w", err)
	}
	return n, nil
}

// Commit puts the blob under its name and returns that and the size. On an
// error nothing remains.
func (w *BlobWriter) Commit() (receipts.Digest, int64, error) {
	if w.f == nil {
		return receipts.Digest{}, 0, errBlobClosed
	}
	defer w.Discard()
	if err := w.buf.Flush(); err != nil {
		return receipts.Digest{}, 0, fmt.Errorf("spool: %w", err)
	}
	if err := w.f.Close(); err != nil {
		return receipts.Digest{}, 0, fmt.Errorf("spool: %w", err)
	}
	d := receipts.Digest(w.sum.Sum(nil))
	// A file of that name from before a crash may be torn: it is replaced.
	if err := os.Rename(w.f.Name(), w.s.path(d)); err != nil {
		return receipts.Digest{}, 0, fmt.Errorf("spool: %w", err)
	}
	w.f = nil
	w.s.mu.Lock()
	w.s.known[d] = true
	w.s.mu.Unlock()
	return d, w.n, nil
}

// Discard removes the blob, unless it was committed. It may be called always.
func (w *BlobWriter) Discard() {
	if w.f == nil {
		return
	}
	w.f.Close()
	os.Remove(w.f.Name())
	w.f = nil
}

// Open returns the content and the size of blob d. The reader returns an
// [*Error] instead of io.EOF if the content is not what d says.
func (s *Spool) Open(d receipts.Digest) (io.ReadCloser, int64, error) {
	info, err := os.Lstat(s.path(d))
	if err != nil {
		return nil, 0, fmt.Errorf("spool: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("spool: blob %v is no regular file", d)
	}
	f, err := os.Open(s.path(d))
	if err != nil {
		return nil, 0, fmt.Errorf("spool: %w", err)
	}
	return &spooled{f: f, left: info.Size(), sum: sha256.New(), want: d}, info.Size(), nil
}

// spooled reads a blob file and checks it at its end.
type spooled struct {
	f    *os.File
	left int64
	sum  hash.Hash
	want receipts.Digest
	err  error
}

func (r *spooled) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.f.Read(p)
	r.sum.Write(p[:n])
	r.left -= int64(n)
	switch {
	case r.left < 0 || err == io.EOF && r.left > 0:
		n, r.err = 0, refuse(BlobMismatch, blobName(r.want), "size has changed while it was read")
	case err == io.EOF:
		if got := receipts.Digest(r.sum.Sum(nil)); got != r.want {
			err = refuse(BlobMismatch, blobName(r.want), "content has SHA-256 %v", got)
		}
		r.err = err
	case err != nil:
		r.err = fmt.Errorf("spool: %w", err)
	}
	return n, r.err
}

func (r *spooled) Close() error { return r.f.Close() }

// Sync makes what was committed so far survive a crash of the machine.
func (s *Spool) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	dirty := false
	for d, unsynced := range s.known {
		if !unsynced {
			continue
		}
		if err := syncPath(s.path(d)); err != nil {
			return fmt.Errorf("spool: %w", err)
		}
		s.known[d] = false
		dirty = true
	}
	if !dirty {
		return nil
	}
	for _, dir := range []string{filepath.Join(s.dir, "sha256"), s.dir, filepath.Dir(s.dir)} {
		if err := syncDir(dir); err != nil {
			return fmt.Errorf("spool: %w", err)
		}
	}
	return nil
}

// Blobs returns the digests of all complete blobs, ascending.
func (s *Spool) Blobs() ([]receipts.Digest, error) {
	files, err := os.ReadDir(filepath.Join(s.dir, "sha256"))
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	blobs := make([]receipts.Digest, 0, len(files))
	for _, f := range files {
		d, err := receipts.ParseDigest(f.Name())
		if err != nil {
			return nil, fmt.Errorf("spool: file %q is not named by a digest", f.Name())
		}
		blobs = append(blobs, d)
	}
	slices.SortFunc(blobs, func(a, b receipts.Digest) int { return bytes.Compare(a[:], b[:]) })
	return blobs, nil
}

func syncPath(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// syncDir makes the names in a directory durable, on systems that can.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
