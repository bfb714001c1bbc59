package bundle

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"
)

// sniff refuses files that are not zstd, with a guess at what they are.
func sniff(r io.ReaderAt, size int64) error {
	if size == 0 {
		return refuse(NotABundle, "", "the file is empty")
	}
	buf := make([]byte, min(size, blockLen))
	n, err := r.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	head := buf[:n]
	if bytes.HasPrefix(head, []byte(frameHeader)[:4]) {
		return nil
	}
	return refuse(NotABundle, "", "%s", guess(head))
}

func guess(head []byte) string {
	switch {
	case len(head) < 4 && bytes.HasPrefix([]byte(frameHeader), head):
		return "no more than the start of a zstd file"
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		return "gzip, want zstd"
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		return "a zip archive: extract the bundle from it first"
	case len(head) > 262 && string(head[257:262]) == "ustar":
		return "a tar that is not compressed, want zstd"
	case len(head) >= 4 && head[0]&0xf0 == 0x50 && string(head[1:4]) == "\x2a\x4d\x18":
		return "a skippable zstd frame, which a bundle has none of"
	case len(bytes.Trim(head, "\x00")) == 0:
		return "nothing but zero bytes"
	case isText(head):
		return "text, want zstd"
	default:
		return "not zstd"
	}
}

// isText allows for a character that is cut off at the end.
func isText(b []byte) bool {
	for len(b) > 0 {
		c, n := utf8.DecodeRune(b)
		if c == utf8.RuneError && n <= 1 {
			return len(b) < utf8.UTFMax && !utf8.FullRune(b)
		}
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != '\x1b' {
			return false
		}
		b = b[n:]
	}
	return true
}
