package bundle

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/truegreen-dev/truegreen/receipts"
)

// An Entry is a member of a bundle.
type Entry struct {
	Name   string
	Size   int64
	Digest receipts.Digest // of a blob: what its name says; zero for the other members

	kind kind
}

// A Reader reads one bundle. Its methods may run at the same time, except that
// nothing runs beside [Reader.Walk].
type Reader struct {
	r      io.ReaderAt
	size   int64
	limits Limits

	seal, mac, sig []byte
	log            Entry
	logPos         int64 // offset in the tar of the log's header

	index *index // nil before Walk
}

// decoders are kept for the next Reader too, since they are large: a bundle is read
// again as soon as it is written.
var decoders sync.Pool

// Open reads the start of a bundle, up to the header of the log, and nothing
// more: what follows may be damaged. A file of another kind is refused with the
// code [NotABundle] and a guess at what it is; one whose seal has a later format
// with a [*VersionError].
func Open(r io.ReaderAt, size int64, l Limits) (*Reader, error) {
	b := &Reader{r: r, size: size, limits: l.withDefaults()}
	if err := sniff(r, size); err != nil {
		return nil, err
	}
	if size > b.limits.File {
		return nil, refuse(LimitExceeded, "", "file of %d bytes, limit %d", size, b.limits.File)
	}
	if err := b.readStart(); err != nil {
		return nil, err
	}
	return b, nil
}

// Has reports whether the bundle holds a blob, once it has been walked.
func (b *Reader) Has(d receipts.Digest) bool {
	if b.index == nil {
		return false
	}
	_, ok := b.index.find(d)
	return ok
}

// Size returns the size of a blob, once the bundle has been walked.
func (b *Reader) Size(d receipts.Digest) (int64, bool) {
	if b.index == nil {
		return 0, false
	}
	at, ok := b.index.find(d)
	return at.size, ok
}

// Seal returns the member of that name.
func (b *Reader) Seal() []byte { return bytes.Clone(b.seal) }

// MAC returns the member seal.mac, or nil.
func (b *Reader) MAC() []byte { return bytes.Clone(b.mac) }

// Sig returns the member seal.sig, or nil.
func (b *Reader) Sig() []byte { return bytes.Clone(b.sig) }

func decoder() (*zstd.Decoder, error) {
	if zr, ok := decoders.Get().(*zstd.Decoder); ok {
		return zr, nil
	}
	return newDecoder()
}

// tapeAt returns a tape that starts with the frame at the given offsets, and
// what gives its memory back.
func (b *Reader) tapeAt(f frameStart) (*tape, func(), error) {
	zr, err := decoder()
	if err != nil {
		return nil, nil, err
	}
	t := &tape{src: newDirect(b.r, b.size, f.file, zr), pos: f.tar, start: f.tar, file: f.file}
	return t, func() { decoders.Put(zr) }, nil
}

// A sequence checks what can be said about a member from the headers so far.
type sequence struct {
	limits  Limits
	last    kind
	digest  receipts.Digest // of the last blob
	entries int
}

var errNoMember = errors.New("tar ends before the log")

// next reads a header; ok is false at the first of the two zero blocks.
func (s *sequence) next(t *tape) (e Entry, ok bool, err error) {
	var h [blockLen]byte
	if err := t.readFull(h[:]); err != nil {
		return Entry{}, false, err
	}
	if h == [blockLen]byte{} {
		if s.entries == 0 || s.last < kindLog {
			return Entry{}, false, &Error{Code: MalformedMember, Err: errNoMember}
		}
		return Entry{}, false, nil
	}
	if e.Name, e.Size, err = parseHeader(&h); err != nil {
		return Entry{}, false, refuse(MalformedMember, "", "tar at byte %d: %w", t.pos-blockLen, err)
	}
	if err := s.check(&e); err != nil {
		return Entry{}, false, err
	}
	if end := t.pos + e.Size + padLen(e.Size) + trailerLen; end > s.limits.Decoded {
		return Entry{}, false, refuse(LimitExceeded, e.Name, "tar of at least %d bytes, limit %d", end, s.limits.Decoded)
	}
	return e, true, nil
}

// check completes e.
func (s *sequence) check(e *Entry) error {
	var known bool
	if e.kind, e.Digest, known = kindOf(e.Name); !known {
		return refuse(MalformedMember, "", "member has the unknown name %q", e.Name)
	}
	first := s.entries == 0
	switch {
	case first && e.kind != kindSeal:
		return refuse(MalformedMember, e.Name, "comes first, where the seal has to be")
	case !first && e.kind == s.last && e.kind != kindBlob:
		return refuse(MalformedMember, e.Name, "comes twice")
	case !first && e.kind < s.last:
		return refuse(MalformedMember, e.Name, "comes too late")
	case e.kind == kindBlob && s.last < kindLog:
		return refuse(MalformedMember, e.Name, "comes before the log")
	case e.kind == kindBlob && s.last == kindBlob && bytes.Compare(e.Digest[:], s.digest[:]) <= 0:
		return refuse(MalformedMember, e.Name, "comes after blob %v: blobs have to ascend", s.digest)
	case e.kind < kindLog && e.Size == 0:
		return refuse(MalformedMember, e.Name, "is empty")
	}
	if limit := e.kind.limit(s.limits); e.Size > limit {
		return refuse(LimitExceeded, e.Name, "%d bytes, limit %d", e.Size, limit)
	}
	s.last, s.digest = e.kind, e.Digest
	if s.entries++; s.entries > s.limits.Entries {
		return refuse(LimitExceeded, e.Name, "more than %d members", s.limits.Entries)
	}
	return nil
}

// readStart reads the members before the log.
func (b *Reader) readStart() error {
	t, free, err := b.tapeAt(frameStart{})
	if err != nil {
		return err
	}
	defer free()
	s := sequence{limits: b.limits}
	for {
		pos := t.pos
		e, ok, err := s.next(t)
		if err != nil {
			return startError(err, pos)
		}
		if !ok || e.kind == kindLog {
			b.log, b.logPos = e, pos
			return nil
		}
		p := make([]byte, e.Size)
		if _, err := io.ReadFull(newBody(t, e, nil), p); err != nil {
			return inMember(err, e.Name)
		}
		if err := t.zeros(padLen(e.Size)); err != nil {
			return inMember(err, e.Name)
		}
		switch e.kind {
		case kindSeal:
			b.seal = p
			var newer *VersionError
			if _, err := ParseSeal(p); errors.As(err, &newer) {
				return newer // what follows may be anything
			}
		case kindMAC:
			b.mac = p
		case kindSig:
			b.sig = p
		}
	}
}

// startError turns damage at the very start of the tar into "another kind of
// file": there is nothing yet that would make it a bundle.
func startError(err error, pos int64) error {
	var e *Error
	if pos == 0 && errors.As(err, &e) && e.Code == MalformedMember && e.Member == "" {
		return refuse(NotABundle, "", "zstd, but without a truegreen seal at its start: %w", e.Err)
	}
	return err
}

// Log returns the log for reading. Its bytes are right if they have the digest
// that the seal states, which the caller checks.
func (b *Reader) Log() (io.ReadCloser, error) {
	return b.open(frameStart{}, b.logPos, b.log)
}

// Blob returns the blob d and its size, after a [Reader.Walk] that returned
// nil. The content is checked again: instead of io.EOF there is an [*Error] if
// the file has changed.
func (b *Reader) Blob(d receipts.Digest) (io.ReadCloser, int64, error) {
	if b.index == nil {
		return nil, 0, errors.New("bundle: blob asked for before the bundle was walked")
	}
	at, ok := b.index.find(d)
	if !ok {
		return nil, 0, fmt.Errorf("bundle: no blob %v", d)
	}
	rc, err := b.open(b.index.frame(at.pos), at.pos, Entry{Name: blobName(d), Size: at.size, Digest: d, kind: kindBlob})
	if err != nil {
		return nil, 0, err
	}
	return rc, at.size, nil
}

// open returns the content of e, whose header is at offset pos of the tar.
func (b *Reader) open(f frameStart, pos int64, e Entry) (io.ReadCloser, error) {
	t, free, err := b.tapeAt(f)
	if err != nil {
		return nil, err
	}
	var h [blockLen]byte
	if err = t.skip(pos); err == nil {
		err = t.readFull(h[:])
	}
	if err != nil {
		free()
		return nil, inMember(err, e.Name)
	}
	if name, size, err := parseHeader(&h); err != nil || name != e.Name || size != e.Size {
		free()
		return nil, refuse(MalformedMember, e.Name, "header has changed since it was read")
	}
	return &member{body: newBody(t, e, sha256.New()), free: free}, nil
}

// A member is a body that owns its decoder.
type member struct {
	*body
	free func()
}

func (m *member) Close() error {
	if m.free != nil {
		m.err = errBodyClosed
		m.free()
		m.free = nil
	}
	return nil
}

// An index finds the blobs of a bundle that was walked. It costs 48 bytes per
// blob and 16 per frame.
type index struct {
	blobs  []blobAt
	frames []frameStart
}

type blobAt struct {
	digest receipts.Digest
	pos    int64 // offset in the tar of its header
	size   int64
}

type frameStart struct{ tar, file int64 }

func (x *index) find(d receipts.Digest) (blobAt, bool) {
	i, ok := slices.BinarySearchFunc(x.blobs, d, func(b blobAt, d receipts.Digest) int {
		return bytes.Compare(b.digest[:], d[:])
	})
	if !ok {
		return blobAt{}, false
	}
	return x.blobs[i], true
}

// frame returns the frame that holds offset pos of the tar.
func (x *index) frame(pos int64) frameStart {
	i, ok := slices.BinarySearchFunc(x.frames, pos, func(f frameStart, pos int64) int {
		return cmp.Compare(f.tar, pos)
	})
	if !ok {
		i--
	}
	return x.frames[i]
}
