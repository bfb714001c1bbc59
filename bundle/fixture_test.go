package bundle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/truegreen-dev/truegreen/receipts"
)

// memory is what a bundle is made of, and what it is read back into.
type memory struct {
	seal, mac, sig, log []byte
	blobs               [][]byte
}

// content returns n bytes that compress about as well as a test log does.
func content(seed string, n int) []byte {
	d := receipts.Sum([]byte(seed))
	rng := rand.NewPCG(binary.LittleEndian.Uint64(d[:]), binary.LittleEndian.Uint64(d[8:]))
	b := make([]byte, 0, n+64)
	for len(b) < n {
		x := rng.Uint64()
		b = append(append(b, "=== RUN   Test"...), seed...)
		b = strconv.AppendUint(append(b, "/case_"...), x%17, 10)
		b = strconv.AppendUint(append(b, "\n    "...), x>>32, 16)
		b = append(b, '\n')
	}
	return b[:n]
}

// small is a bundle of every kind of member. Its last blob is blobs[3].
func small() memory {
	return memory{
		seal:  content("seal", 700),
		mac:   []byte(receipts.Sum([]byte("mac")).String() + "\n"),
		sig:   content("sig", 300),
		log:   content("log", 900),
		blobs: [][]byte{content("a", 600), content("b", 0), content("c", 512), content("d32", 1500)},
	}
}

func (m memory) members() Members {
	byDigest := make(map[receipts.Digest][]byte)
	for _, b := range m.blobs {
		byDigest[receipts.Sum(b)] = b
	}
	var digests []receipts.Digest
	for d := range byDigest {
		digests = append(digests, d)
	}
	slices.SortFunc(digests, func(a, b receipts.Digest) int { return bytes.Compare(a[:], b[:]) })
	return Members{
		Seal: m.seal, MAC: m.mac, Sig: m.sig,
		Log: func() (io.ReadCloser, int64, error) {
			return io.NopCloser(bytes.NewReader(m.log)), int64(len(m.log)), nil
		},
		Blobs: digests,
		Open: func(d receipts.Digest) (io.ReadCloser, int64, error) {
			b, ok := byDigest[d]
			if !ok {
				return nil, 0, errors.New("no such blob")
			}
			return io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
		},
	}
}

func (m memory) write(t testing.TB) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := Write(&buf, m.members()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// read opens and walks file and returns all of it.
func read(file []byte, l Limits) (m memory, r *Reader, err error) {
	r, err = Open(bytes.NewReader(file), int64(len(file)), l)
	if err != nil {
		return memory{}, nil, err
	}
	err = r.Walk(func(e Entry, body io.Reader) error {
		b, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		switch e.kind {
		case kindSeal:
			m.seal = b
		case kindMAC:
			m.mac = b
		case kindSig:
			m.sig = b
		case kindLog:
			m.log = b
		default:
			m.blobs = append(m.blobs, b)
		}
		return nil
	})
	if err != nil {
		return memory{}, nil, err
	}
	return m, r, nil
}

func (m memory) equal(n memory) bool {
	less := func(a, b []byte) int {
		x, y := receipts.Sum(a), receipts.Sum(b)
		return bytes.Compare(x[:], y[:])
	}
	return bytes.Equal(m.seal, n.seal) && bytes.Equal(m.mac, n.mac) && bytes.Equal(m.sig, n.sig) && bytes.Equal(m.log, n.log) &&
		slices.EqualFunc(slices.SortedFunc(slices.Values(m.blobs), less), slices.SortedFunc(slices.Values(n.blobs), less), bytes.Equal)
}

// code returns the code and the member of err, "" for a nil error.
func code(t testing.TB, err error) (code, member string) {
	t.Helper()
	var e *Error
	if err == nil {
		return "", ""
	}
	if !errors.As(err, &e) {
		t.Fatalf("error %v (%T) is no *Error", err, err)
	}
	return e.Code, e.Member
}

// failingFile cannot be read from offset at on.
type failingFile struct {
	io.ReaderAt
	at int64
}

var errMedium = errors.New("input/output error")

func (f failingFile) ReadAt(p []byte, off int64) (int, error) {
	if off >= f.at {
		return 0, errMedium
	}
	n, err := f.ReaderAt.ReadAt(p[:min(int64(len(p)), f.at-off)], off)
	if err == nil && n < len(p) {
		err = errMedium
	}
	return n, err
}

func isFailing(err error) bool {
	var e *Error
	return errors.Is(err, errMedium) && !errors.As(err, &e)
}

// rawFramer returns a function that puts bytes into a frame without
// compressing them, which is fast.
func rawFramer(t testing.TB) func([]byte) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(true), zstd.WithWindowSize(windowLen), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	return func(b []byte) []byte {
		sum := e.EncodeAll(b, nil) // for its checksum
		var f []byte
		f = append(f, frameHeader...)
		for part := range slices.Chunk(b, maxBlockLen) {
			n := len(part) << 3
			f = append(f, byte(n), byte(n>>8), byte(n>>16))
			f = append(f, part...)
		}
		f = append(f, 1, 0, 0)
		return append(f, sum[len(sum)-checksumLen:]...)
	}
}
