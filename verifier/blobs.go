package verifier

import (
	"bytes"
	"fmt"
	"io"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
)

// A blobStore hands out the blobs of a bundle that has been walked. It takes some
// of them down as the walk passes, since to read a blob again is to decode what is
// before it in its frame, and parses what is a document then, while the walk's
// decoder goes on.
type blobStore struct {
	b       *bundle.Reader
	docs    map[receipts.Digest]docKind // that receipts name
	args    map[receipts.Digest]*receipts.Args
	results map[receipts.Digest]*receipts.Result
	small   map[receipts.Digest][]byte // other blobs, such as the plan of a small run
	absent  map[receipts.Digest]bool   // blobs that need not be there, since nobody reads them
	// How many more bytes of each are taken.
	docsRoom, smallRoom int64
}

var _ receipts.ParsedBlobs = (*blobStore)(nil)

// A docKind says as what receipts name a document.
type docKind struct{ args, result bool }

const smallBlob = 4 << 10

func newBlobStore(b *bundle.Reader, run *receipts.Run) *blobStore {
	s := &blobStore{
		b: b, docs: map[receipts.Digest]docKind{},
		args: map[receipts.Digest]*receipts.Args{}, results: map[receipts.Digest]*receipts.Result{}, docsRoom: 2 << 20,
		small: map[receipts.Digest][]byte{}, smallRoom: 256 << 10,
	}
	for i := range run.Receipts {
		r := &run.Receipts[i]
		s.docs[r.Args] = docKind{args: true, result: s.docs[r.Args].result}
		s.docs[r.Result] = docKind{args: s.docs[r.Result].args, result: true}
	}
	return s
}

// keep is called for each blob as the walk passes it.
func (s *blobStore) keep(e bundle.Entry, body io.Reader) error {
	kind, isDoc := s.docs[e.Digest]
	room := &s.docsRoom
	if !isDoc {
		room = &s.smallRoom
	}
	if e.Size > *room || !isDoc && e.Size > smallBlob {
		return nil
	}
	*room -= e.Size
	b := make([]byte, e.Size)
	if _, err := io.ReadFull(body, b); err != nil {
		return err
	}
	if !isDoc {
		s.small[e.Digest] = b
	}
	// What does not parse is read again, to be refused where it is needed.
	if kind.args {
		if a, err := receipts.ParseArgs(b); err == nil {
			s.args[e.Digest] = &a
		}
	}
	if kind.result {
		if r, err := receipts.ParseResult(b); err == nil {
			s.results[e.Digest] = &r
		}
	}
	return nil
}

// Args implements [receipts.ParsedBlobs].
func (s *blobStore) Args(d receipts.Digest) *receipts.Args { return s.args[d] }

// Result implements [receipts.ParsedBlobs].
func (s *blobStore) Result(d receipts.Digest) *receipts.Result { return s.results[d] }

// Document implements [receipts.Blobs].
func (s *blobStore) Document(d receipts.Digest) ([]byte, error) {
	if b, ok := s.small[d]; ok {
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
func (s *blobStore) Has(d receipts.Digest) bool { return s.b.Has(d) || s.absent[d] }

// open returns the bytes of a blob.
func (s *blobStore) open(d receipts.Digest) (io.ReadCloser, error) {
	if b, ok := s.small[d]; ok {
		return io.NopCloser(bytes.NewReader(b)), nil
	}
	r, _, err := s.b.Blob(d)
	return r, err
}
