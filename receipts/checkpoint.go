package receipts

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Checkpoint is the text of a C2SP tlog-checkpoint without its signatures:
//
//	origin LF
//	number of leaves, decimal LF
//	root, padded standard base64 LF
//	extension lines, each not empty, each with LF
//
// (https://c2sp.org/tlog-checkpoint). There is one text for each value.
type Checkpoint struct {
	Origin     string
	Size       uint64
	Root       Digest
	Extensions []string
}

// MaxCheckpoint is the largest text that ParseCheckpoint reads.
const MaxCheckpoint = 3584

var errCheckpoint = errors.New("checkpoint: malformed")

// Append appends the text of c to dst.
func (c *Checkpoint) Append(dst []byte) ([]byte, error) {
	if !plainLine(c.Origin) {
		return nil, fmt.Errorf("%w: origin", errCheckpoint)
	}
	start := len(dst)
	dst = append(append(dst, c.Origin...), '\n')
	dst = append(strconv.AppendUint(dst, c.Size, 10), '\n')
	dst = append(base64.StdEncoding.AppendEncode(dst, c.Root[:]), '\n')
	for _, line := range c.Extensions {
		if !plainLine(line) {
			return nil, fmt.Errorf("%w: extension %q", errCheckpoint, line)
		}
		dst = append(append(dst, line...), '\n')
	}
	if len(dst)-start > MaxCheckpoint {
		return nil, fmt.Errorf("checkpoint: %d bytes: the limit is %d", len(dst)-start, MaxCheckpoint)
	}
	return dst, nil
}

// ParseCheckpoint reads the text of a checkpoint.
func ParseCheckpoint(text []byte) (Checkpoint, error) {
	if len(text) > MaxCheckpoint {
		return Checkpoint{}, fmt.Errorf("checkpoint: %d bytes: the limit is %d", len(text), MaxCheckpoint)
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 4 || lines[len(lines)-1] != "" {
		return Checkpoint{}, fmt.Errorf("%w: lines", errCheckpoint)
	}
	lines = lines[:len(lines)-1]
	for _, line := range lines {
		if !plainLine(line) {
			return Checkpoint{}, fmt.Errorf("%w: line %q", errCheckpoint, line)
		}
	}
	c := Checkpoint{Origin: lines[0]}
	var err error
	if c.Size, err = strconv.ParseUint(lines[1], 10, 64); err != nil || strconv.FormatUint(c.Size, 10) != lines[1] {
		return Checkpoint{}, fmt.Errorf("%w: size", errCheckpoint)
	}
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(root) != len(c.Root) {
		return Checkpoint{}, fmt.Errorf("%w: root", errCheckpoint)
	}
	c.Root = Digest(root)
	if len(lines) > 3 {
		c.Extensions = lines[3:]
	}
	return c, nil
}

// plainLine reports whether s is a line of printable ASCII, not empty. The C2SP
// text allows more of UTF-8; nothing that truegreen writes needs it.
func plainLine(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return s != ""
}
