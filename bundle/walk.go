package bundle

import (
	"crypto/sha256"
	"hash"
	"io"

	"github.com/truegreen-dev/truegreen/receipts"
)

// Walk reads the whole bundle once, in order, and calls fn for every member.
// What fn leaves of a body is read and checked; a body is gone when fn returns.
// A body returns io.EOF only after everything about its member was found right,
// and an [*Error] otherwise; but a bundle is sound as a whole only if Walk
// returns nil. An error of fn ends the walk and is returned as it is.
func (b *Reader) Walk(fn func(e Entry, body io.Reader) error) error {
	x, err := b.walk(nil, sha256.New(), fn)
	if err != nil {
		return err
	}
	b.index = x
	return nil
}

// Identity returns the SHA-256 of the tar, which names a bundle whatever
// compressed it. It checks all that [Reader.Walk] does except blob digests.
func (b *Reader) Identity() (receipts.Digest, error) {
	tar := sha256.New()
	if _, err := b.walk(tar, nil, func(Entry, io.Reader) error { return nil }); err != nil {
		return receipts.Digest{}, err
	}
	return receipts.Digest(tar.Sum(nil)), nil
}

// walk hashes the tar with tar and blobs with blob, each if not nil.
func (b *Reader) walk(tar, blob hash.Hash, fn func(Entry, io.Reader) error) (*index, error) {
	t, free, err := b.tapeAt(frameStart{})
	if err != nil {
		return nil, err
	}
	defer free()
	t.src = newAhead(t.src.(*direct))
	defer t.src.stop()
	t.sum = tar

	x := &index{frames: []frameStart{{}}}
	s := sequence{limits: b.limits}
	for {
		if split, err := t.boundary(); err != nil {
			return nil, err
		} else if split {
			x.frames = append(x.frames, frameStart{tar: t.start, file: t.file})
		}
		pos := t.pos
		e, ok, err := s.next(t)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		body := newBody(t, e, blob)
		if err := visit(body, e, fn); err != nil {
			return nil, err
		}
		if e.kind == kindBlob {
			x.blobs = append(x.blobs, blobAt{digest: e.Digest, pos: pos, size: e.Size})
		}
	}
	if err := t.zeros(trailerLen - blockLen); err != nil {
		return nil, err
	}
	if err := t.end(); err != nil {
		return nil, err
	}
	return x, nil
}

func visit(b *body, e Entry, fn func(Entry, io.Reader) error) error {
	err := fn(e, b)
	if b.err != nil && b.err != io.EOF {
		return b.err // whatever fn made of it
	}
	if err != nil {
		return err
	}
	err = b.drain()
	b.err = errBodyClosed
	return err
}

// ahead is a source that decodes on a goroutine of its own, a few pieces ahead
// of where the tape is, so that decoding and hashing overlap.
type ahead struct {
	pieces chan result
	free   chan []byte
	quit   chan struct{}
	held   []byte
}

type result struct {
	piece
	err   error
	panic any
}

const piecesAhead = 4

func newAhead(s *direct) *ahead {
	a := &ahead{
		pieces: make(chan result, piecesAhead),
		free:   make(chan []byte, piecesAhead+1),
		quit:   make(chan struct{}),
	}
	for range piecesAhead + 1 {
		a.free <- nil // made when it is needed
	}
	go a.run(s)
	return a
}

func (a *ahead) run(s *direct) {
	defer close(a.pieces)
	defer func() {
		// A panic belongs to whoever reads, not to a goroutine that nobody
		// can recover in.
		if p := recover(); p != nil {
			select {
			case a.pieces <- result{panic: p}:
			case <-a.quit:
			}
		}
	}()
	for {
		var buf []byte
		select {
		case buf = <-a.free:
		case <-a.quit:
			return
		}
		if buf == nil {
			buf = make([]byte, pieceLen)
		}
		p, err := s.read(buf)
		if len(p.b) == 0 {
			a.free <- buf
		}
		select {
		case a.pieces <- result{piece: p, err: err}:
		case <-a.quit:
			return
		}
		if err != nil {
			return
		}
	}
}

func (a *ahead) next() (piece, error) {
	if a.held != nil {
		a.free <- a.held[:pieceLen]
		a.held = nil
	}
	r, ok := <-a.pieces
	switch {
	case !ok:
		return piece{}, io.EOF
	case r.panic != nil:
		panic(r.panic)
	case r.err != nil:
		return piece{}, r.err
	}
	if len(r.b) > 0 {
		a.held = r.b
	}
	return r.piece, nil
}

// stop waits for the goroutine to be gone, as its decoder is used again.
func (a *ahead) stop() {
	close(a.quit)
	for range a.pieces {
	}
}
