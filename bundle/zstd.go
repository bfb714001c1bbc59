package bundle

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// The compressed layer is a sequence of zstd frames. Every frame starts with
// the same six bytes, so that nothing about a frame is negotiable:
//
//	28 b5 2f fd   magic
//	04            descriptor: content checksum; no content size, no dictionary,
//	              not a single segment
//	50            window of 1 MiB
//
// It goes on with blocks of at most 128 KiB, of which only the last may be
// empty, and ends with the checksum. Where a frame ends is decided by the tar:
// at the first member boundary at which it holds 1 MiB or more, and at the end.
//
// So one tar has one sequence of frames, with one header and one checksum each.
// Free is only how a frame's content is cut into blocks, the type of each block
// (raw, one byte repeated, compressed), and in a compressed block whatever
// decodes to the same content: which of several equal passages a match copies,
// and the entries of entropy tables that no symbol uses. That is why the SHA-256
// of the tar, not of the file, is a bundle's identity.
const (
	frameHeader = "\x28\xb5\x2f\xfd\x04\x50"
	windowLen   = 1 << 20
	splitLen    = 1 << 20   // decoded bytes after which a frame ends at a boundary
	maxBlockLen = 128 << 10 // of a zstd block, compressed or not
	checksumLen = 4
)

// frameWriter compresses what is written to it into frames.
type frameWriter struct {
	w   io.Writer
	enc *zstd.Encoder
	n   int64 // bytes in the current frame; 0 if there is none
}

func newFrameWriter(w io.Writer) (*frameWriter, error) {
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedDefault),
		zstd.WithWindowSize(windowLen),
		zstd.WithEncoderCRC(true),
		zstd.WithEncoderConcurrency(encoderThreads))
	if err != nil {
		return nil, err
	}
	return &frameWriter{w: w, enc: enc}, nil
}

// encoderThreads lets match finding and entropy coding overlap. The output
// does not depend on it.
const encoderThreads = 2

func (f *frameWriter) Write(p []byte) (int, error) {
	if len(p) > 0 && f.n == 0 {
		f.enc.Reset(f.w)
	}
	// Never ReadFrom: it would let the sizes of the writes decide where blocks
	// end.
	n, err := f.enc.Write(p)
	f.n += int64(n)
	return n, err
}

// boundary says that a member ends here.
func (f *frameWriter) boundary() error {
	if f.n < splitLen {
		return nil
	}
	return f.end()
}

// end ends the current frame.
func (f *frameWriter) end() error {
	if f.n < maxBlockLen {
		// Closing an encoder that has not written its header yet chooses a
		// header by size. Flushing writes the usual one.
		if err := f.enc.Flush(); err != nil {
			return err
		}
	}
	f.n = 0
	return f.enc.Close()
}

// frameReader passes on the compressed bytes of one frame, then io.EOF. It
// checks everything about the frame that can be seen without decoding it.
type frameReader struct {
	src  *bufio.Reader
	off  int64 // offset in the file of the next byte of src
	left int   // bytes that can be passed on unseen
	part framePart
	last bool // the block being passed on is the last
	buf  [len(frameHeader)]byte
	head []byte // rest of buf that is not passed on yet
	err  error  // sticky
}

type framePart int

const (
	partHeader framePart = iota
	partBlock
	partChecksum
	partEnd
)

func (f *frameReader) Read(p []byte) (int, error) {
	for f.err == nil && len(f.head) == 0 && f.left == 0 {
		f.err = f.advance()
	}
	if f.err != nil {
		return 0, f.err
	}
	if len(f.head) > 0 {
		n := copy(p, f.head)
		f.head = f.head[n:]
		return n, nil
	}
	n, err := f.src.Read(p[:min(len(p), f.left)])
	f.off += int64(n)
	f.left -= n
	if err != nil {
		f.err = f.readError(err)
	}
	return n, f.err
}

// advance moves on to the next part of the frame.
func (f *frameReader) advance() error {
	switch f.part {
	case partHeader:
		if err := f.take(len(frameHeader)); err != nil {
			return err
		}
		if err := checkFrameHeader(f.buf[:]); err != nil {
			return err
		}
		f.part = partBlock
	case partBlock:
		if f.last {
			f.part, f.left = partChecksum, checksumLen
			return nil
		}
		if err := f.take(3); err != nil {
			return err
		}
		var err error
		f.last, f.left, err = parseBlockHeader([3]byte(f.buf[:3]))
		return err
	case partChecksum:
		f.part = partEnd
	case partEnd:
		return io.EOF
	}
	return nil
}

// take reads n bytes into buf and makes them the next to be passed on.
func (f *frameReader) take(n int) error {
	m, err := io.ReadFull(f.src, f.buf[:n])
	f.off += int64(m)
	if err != nil {
		return f.readError(err)
	}
	f.head = f.buf[:n]
	return nil
}

func (f *frameReader) readError(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return refuse(Truncated, "", "file ends inside a zstd frame, at byte %d", f.off)
	}
	return fmt.Errorf("read at byte %d: %w", f.off, err)
}

func checkFrameHeader(h []byte) error {
	switch {
	case string(h) == frameHeader:
		return nil
	case string(h[:4]) == frameHeader[:4] && h[4]&0x20 == 0 && h[5] > 0x68:
		// Larger than the 8 MiB that common tools write: meant to hurt.
		return refuse(LimitExceeded, "", "zstd frame asks for a window of %d MiB, limit 1 MiB", 1<<(h[5]>>3)>>10)
	default:
		return refuse(MalformedMember, "", "zstd frame starts with % x, want % x", h, frameHeader)
	}
}

// parseBlockHeader returns the number of bytes that follow the header of a
// zstd block and whether it is the last of its frame.
func parseBlockHeader(h [3]byte) (last bool, n int, err error) {
	v := int(h[0]) | int(h[1])<<8 | int(h[2])<<16
	last, n = v&1 != 0, v>>3
	if n > maxBlockLen {
		return false, 0, refuse(MalformedMember, "", "zstd block of %d bytes, want at most %d", n, maxBlockLen)
	}
	kind := v >> 1 & 3
	if n == 0 && (kind != 0 || !last) {
		return false, 0, refuse(MalformedMember, "", "empty zstd block that is not a raw one at the end of its frame")
	}
	switch kind {
	case 0: // raw
		return last, n, nil
	case 1: // one byte, n times
		return last, 1, nil
	case 2: // compressed
		return last, n, nil
	default:
		return false, 0, refuse(MalformedMember, "", "zstd block of the reserved type")
	}
}

// frameDecoder decodes frames, one after the other.
type frameDecoder struct {
	frameReader
	zr *zstd.Decoder
}

// newDecoder returns a zstd decoder that does its work on the goroutine that
// calls it and needs no Close.
func newDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxWindow(windowLen),
		zstd.WithDecoderMaxMemory(windowLen))
}

// start begins the frame at the current offset; io.EOF says that the file
// ends there.
func (d *frameDecoder) start() error {
	if _, err := d.src.Peek(1); err == io.EOF {
		return io.EOF
	} else if err != nil {
		return d.readError(err)
	}
	d.frameReader = frameReader{src: d.src, off: d.off}
	return d.zr.Reset(&d.frameReader)
}

// read returns content of the current frame. io.EOF says that the frame is
// complete and its checksum was right.
func (d *frameDecoder) read(p []byte) (int, error) {
	n, err := d.zr.Read(p)
	switch {
	case err == nil:
		return n, nil
	case d.err != nil && d.err != io.EOF:
		return n, d.err // what the frame reader saw says more than what the decoder made of it
	case err == io.EOF && d.part == partEnd:
		return n, io.EOF
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("frame ends inside a block")
	}
	return n, refuse(MalformedMember, "", "zstd frame before byte %d: %w", d.off, err)
}
