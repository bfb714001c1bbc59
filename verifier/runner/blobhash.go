package runner

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"strconv"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// blobHasher copies blobs to a writer and hashes them in both object formats
// on the way. It is the [hand] of a listing without files.
type blobHasher struct {
	w    io.Writer
	id   hash.Hash // in the repository's own format; nil if that is sum's
	sum  hash.Hash // SHA-256
	head []byte    // the beginning of the blob, as long as a pointer's first line
	buf  []byte    // for large blobs
	text []byte
}

func (r *Repository) newBlobHasher(w io.Writer) *blobHasher {
	h := &blobHasher{w: w, sum: sha256.New()}
	if r.format == "sha1" {
		h.id = sha1.New()
	}
	return h
}

func (h *blobHasher) close() {}

// blob copies one blob. The error names the path if the blob's id is not the
// expected one.
func (h *blobHasher) blob(e *verifier.TreeEntry, size int64, body io.Reader) (blobSum, error) {
	h.text = append(strconv.AppendInt(append(h.text[:0], "blob "...), size, 10), 0)
	h.head = h.head[:0]
	for _, hash := range h.hashes() {
		hash.Reset()
		hash.Write(h.text)
	}
	if size > smallBlob && h.buf == nil {
		h.buf = make([]byte, 128<<10)
	}
	n, err := io.CopyBuffer(h, body, h.buf)
	if err != nil {
		return blobSum{}, err
	}
	if n != size {
		return blobSum{}, io.ErrUnexpectedEOF
	}
	var sum receipts.Digest
	h.sum.Sum(sum[:0])
	id := sum[:]
	if h.id != nil {
		h.text = h.id.Sum(h.text[:0])
		id = h.text
	}
	if hex.EncodeToString(id) != e.ID {
		return blobSum{}, &RepositoryError{Code: verifier.CorruptObject, What: fmt.Sprintf("%q: the bytes of blob %s have another id", e.Path, e.ID), Fix: "run git fsck"}
	}
	return blobSum{sum, size, size < 1024 && string(h.head) == lfsPointer}, nil
}

func (h *blobHasher) hashes() []hash.Hash {
	if h.id == nil {
		return []hash.Hash{h.sum}
	}
	return []hash.Hash{h.id, h.sum}
}

// lfsPointer is how every Git LFS pointer file of this version begins.
const lfsPointer = "version https://git-lfs.github.com/spec/v1\n"

// Write takes in a part of a blob.
func (h *blobHasher) Write(p []byte) (int, error) {
	h.head = append(h.head, p[:min(len(p), len(lfsPointer)-len(h.head))]...)
	for _, hash := range h.hashes() {
		hash.Write(p)
	}
	return h.w.Write(p)
}
