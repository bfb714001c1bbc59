package bundle

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/truegreen-dev/truegreen/receipts"
)

// Members are what a bundle is made of.
type Members struct {
	Seal []byte
	MAC  []byte // nil: none
	Sig  []byte // nil: none

	// Log returns the log and its size.
	Log func() (io.ReadCloser, int64, error)

	// Blobs holds each digest once, ascending. Open returns a blob and its
	// size; the reader has to fail instead of returning io.EOF if the content
	// is not that of the digest, as [Spool.Open] and [Reader.Blob] see to.
	Blobs []receipts.Digest
	Open  func(receipts.Digest) (io.ReadCloser, int64, error)

	// Limits are those that the file is written, and read again, under.
	Limits Limits
}

// Write writes a bundle to w. The same members give the same tar, always, and
// the same file with the same version of the compressor.
func Write(w io.Writer, m Members) error {
	f, err := newFrameWriter(w)
	if err != nil {
		return err
	}
	t := &tarWriter{frameWriter: f, seq: sequence{limits: m.Limits.withDefaults()}, buf: make([]byte, pieceLen)}
	if err := t.members(m); err != nil {
		f.enc.Reset(io.Discard) // waits until nothing is written to w any more
		return fmt.Errorf("write bundle: %w", err)
	}
	return nil
}

// A tarWriter holds what it writes to the rules that readers apply.
type tarWriter struct {
	*frameWriter
	seq sequence
	pos int64
	buf []byte
}

func (t *tarWriter) members(m Members) error {
	for _, small := range []struct {
		name string
		b    []byte
	}{{"seal", m.Seal}, {"seal.mac", m.MAC}, {"seal.sig", m.Sig}} {
		if small.b == nil && small.name != "seal" {
			continue
		}
		if err := t.member(small.name, int64(len(small.b)), bytes.NewReader(small.b)); err != nil {
			return err
		}
	}
	if err := t.stream("log", m.Log); err != nil {
		return err
	}
	for _, d := range m.Blobs {
		open := func() (io.ReadCloser, int64, error) { return m.Open(d) }
		if err := t.stream(blobName(d), open); err != nil {
			return err
		}
	}
	return t.end()
}

func (t *tarWriter) stream(name string, open func() (io.ReadCloser, int64, error)) error {
	r, size, err := open()
	if err != nil {
		return fmt.Errorf("member %s: %w", name, err)
	}
	return errors.Join(t.member(name, size, r), r.Close())
}

// zeroBlocks is padding for a block, and the end of the tar.
var zeroBlocks [trailerLen]byte

func (t *tarWriter) member(name string, size int64, r io.Reader) error {
	e := Entry{Name: name, Size: size}
	if err := t.seq.check(&e); err != nil {
		return err
	}
	h, err := header(name, size)
	if err != nil {
		return fmt.Errorf("member %s: %w", name, err)
	}
	if t.pos += blockLen + size + padLen(size); t.pos+trailerLen > t.seq.limits.Decoded {
		return refuse(LimitExceeded, name, "tar of at least %d bytes, limit %d", t.pos+trailerLen, t.seq.limits.Decoded)
	}
	if err := t.boundary(); err != nil {
		return err
	}
	if _, err := t.Write(h[:]); err != nil {
		return err
	}
	if err := t.content(size, r); err != nil {
		return inMember(err, name)
	}
	_, err = t.Write(zeroBlocks[:padLen(size)])
	return err
}

// content copies r, which has to end after size bytes.
func (t *tarWriter) content(size int64, r io.Reader) error {
	for {
		n, err := r.Read(t.buf)
		if size -= int64(n); size < 0 {
			return errors.New("content is longer than its stated size")
		}
		if _, err := t.Write(t.buf[:n]); err != nil {
			return err
		}
		switch {
		case err == io.EOF && size > 0:
			return fmt.Errorf("content ends %d bytes before its stated size", size)
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

func (t *tarWriter) end() error {
	if err := t.boundary(); err != nil {
		return err
	}
	if _, err := t.Write(zeroBlocks[:]); err != nil {
		return err
	}
	return t.frameWriter.end()
}

// WriteFile writes a bundle to path. The file appears there, with mode 0600 and
// durable, only after it was read again in full and check, if not nil, had
// nothing against it; until then, and on any error, what was at path stays.
// Parent folders are made.
func WriteFile(path string, m Members, check func(*Reader) error) (err error) {
	dir := filepath.Dir(path)
	made, err := makeDirs(dir)
	if err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp") // mode 0600
	if err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	buf := bufio.NewWriterSize(f, 64<<10)
	if err := Write(buf, m); err != nil {
		return err
	}
	if err := errors.Join(buf.Flush(), f.Sync()); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	if err := readBack(f, m, check); err != nil {
		return fmt.Errorf("read bundle again: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	for _, d := range append(made, dir) {
		if err := syncDir(d); err != nil {
			return fmt.Errorf("write bundle: %w", err)
		}
	}
	return nil
}

func readBack(f *os.File, m Members, check func(*Reader) error) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r, err := Open(f, info.Size(), m.Limits)
	if err != nil {
		return err
	}
	if err := r.Walk(func(Entry, io.Reader) error { return nil }); err != nil {
		return err
	}
	if check == nil {
		return nil
	}
	return check(r)
}

// makeDirs makes dir and its parents and returns those directories that have
// got a new name in them.
func makeDirs(dir string) (changed []string, err error) {
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || !errors.Is(err, os.ErrNotExist) {
			break
		}
		if filepath.Dir(d) == d {
			break
		}
		changed = append(changed, filepath.Dir(d))
	}
	return changed, os.MkdirAll(dir, 0o755)
}
