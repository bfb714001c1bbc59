package verifier

import (
	"bytes"
	"fmt"
	"io"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
)

// A blobStore hands out the blobs of a bundle that has been walked. It keeps
// some of them as the walk passes, since to read a blob again is to decode what
// is before it in its frame.
type blobStore struct {
	b     *bundle.Reader
	docs  shelf // args and results, until they are joined
	small shelf // others, such as the plan of a small run
}

// A shelf holds blobs up to a number of bytes.
type shelf struct {
	wanted map[receipts.Digest]bool // nil: all
	blobs  map[receipts.Digest][]byte
	room   int64
}

const (
	docsRoom  = 2 << 20
	smallRoom = 256 << 10
	smallBlob = 4 << 10
)

func newBlobStore(b *bundle.Reader, run *receipts.Run) *blobStore {
	s := &blobStore{
		b:     b,
		docs:  shelf{map[receipts.Digest]bool{}, map[receipts.Digest][]byte{}, docsRoom},
		small: shelf{nil, map[receipts.Digest][]byte{}, smallRoom},
	}
	for i := range run.Receipts {
		s.docs.wanted[run.Receipts[i].Args] = true
		s.docs.wanted[run.Receipts[i].Result] = true
	}
	return s
}

// keep is called for each blob as the walk passes it.
func (s *blobStore) keep(e bundle.Entry, body io.Reader) error {
	on := &s.small
	if s.docs.wanted[e.Digest] {
		on = &s.docs
	} else if e.Size > smallBlob {
		return nil
	}
	if e.Size > on.room {
		return nil
	}
	b := make([]byte, e.Size)
	if _, err := io.ReadFull(body, b); err != nil {
		return err
	}
	on.room -= e.Size
	on.blobs[e.Digest] = b
	return nil
}

func (s *blobStore) kept(d receipts.Digest) ([]byte, bool) {
	if b, ok := s.docs.blobs[d]; ok {
		return b, true
	}
	b, ok := s.small.blobs[d]
	return b, ok
}

// joined gives the memory of args and results back.
func (s *blobStore) joined() { s.docs = shelf{} }

// Document implements [receipts.Blobs].
func (s *blobStore) Document(d receipts.Digest) ([]byte, error) {
	if b, ok := s.kept(d); ok {
		return b, nil
	}
	r, size, err := s.b.Blob(d)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if size > receipts.MaxDocument {
		return nil, fmt.Errorf("document of %d bytes: the limit is %d", size, receipts.MaxDocument)
	}
	b := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err = b.ReadFrom(r)
	return b.Bytes(), err
}

// Has implements [receipts.Blobs].
func (s *blobStore) Has(d receipts.Digest) bool { return s.b.Has(d) }

// open returns the bytes of a blob.
func (s *blobStore) open(d receipts.Digest) (io.ReadCloser, error) {
	if b, ok := s.kept(d); ok {
		return io.NopCloser(bytes.NewReader(b)), nil
	}
	r, _, err := s.b.Blob(d)
	return r, err
}
