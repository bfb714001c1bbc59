package source

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestLineReader: lines around the size of the buffer and around the limit,
// and what follows them.
func TestLineReader(t *testing.T) {
	t.Parallel()
	const max = 200 << 10
	for _, n := range []int{0, 1, 64<<10 - 2, 64<<10 - 1, 64 << 10, 64<<10 + 1, 128 << 10, max - 1, max, max + 1, max + 64<<10, 2 * max} {
		long := strings.Repeat("x", n)
		for _, next := range []string{"", "\\\n", "y\n"} {
			r := newLineReader(iotest.HalfReader(strings.NewReader("a\n"+long+"\n"+next)), max)
			if more, err := r.next(); !more || err != nil || string(r.line) != "a" || r.number != 1 {
				t.Fatalf("%.10q, %v, %v", r.line, more, err)
			}
			more, err := r.next()
			if n > max {
				if more || err == nil {
					t.Errorf("a line of %d bytes was read", n)
				}
				continue
			}
			if got := r.backslash(); !more || err != nil || string(r.line) != long || got != (next == "\\\n") {
				t.Errorf("a line of %d bytes: %d, %v, %v, a backslash after it: %v", n, len(r.line), more, err, got)
			}
			if more, err := r.next(); more != (next != "") || err != nil || string(r.line)+"\n" != next && more || r.number != 2+strings.Count(next, "\n") {
				t.Errorf("after a line of %d bytes: %.10q, %v, %v", n, r.line, more, err)
			}
		}
	}
	for _, n := range []int{1, 64 << 10, 100 << 10} {
		r := newLineReader(strings.NewReader(strings.Repeat("x", n)), max)
		if more, err := r.next(); more || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes without a newline: %v, %v", n, more, err)
		}
	}
	// A limit below the buffer's size holds as well.
	r := newLineReader(strings.NewReader("12345\n123456\n"), 5)
	if more, err := r.next(); !more || err != nil {
		t.Error(err)
	}
	if more, err := r.next(); more || err == nil {
		t.Error("a line beyond a small limit was read")
	}
}
