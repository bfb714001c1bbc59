package receipts

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/tlog"
)

// A Proof says where in a log a frame is, for someone who has the frame but not
// the log. Its text form is a C2SP tlog-proof
// (https://c2sp.org/tlog-proof), which any tool of that family checks:
//
//	c2sp.org/tlog-proof@v1 LF
//	"extra " Extra in padded standard base64 LF, absent where Extra is empty
//	"index " Index in decimal LF
//	each of Hashes in padded standard base64 LF
//	LF
//	Checkpoint
type Proof struct {
	Extra      []byte // for the application; nothing authenticates it
	Index      uint64 // of the frame, counted from 0
	Hashes     []Digest
	Checkpoint []byte // the signed note, or its text alone
}

// MaxProof is the largest text of a proof in bytes: room for an Extra of
// MaxDocument bytes.
const MaxProof = 2 << 20

const (
	// maxTree is the largest tree for which package tlog ends, and maxPath the
	// longest audit path in it.
	maxTree = 1 << maxPath
	maxPath = 62

	proofHeader = "c2sp.org/tlog-proof@v1\n"
	proofExtra  = "extra "
	proofIndex  = "index "
)

var errProof = errors.New("proof: malformed")

// Prove verifies log and returns the proof of its frame number index, without a
// checkpoint, and the encoding of that frame. Its memory does not grow with the
// log.
func Prove(log io.Reader, index uint64) (p Proof, frame []byte, err error) {
	l := NewLogReader(log, MaxPayload)
	path := auditPath{index: index, at: -1}
	for _, err := range l.All() {
		if err != nil {
			return Proof{}, nil, fmt.Errorf("proof: %w", err)
		}
		if path.size == index {
			frame = bytes.Clone(l.Raw())
		}
		path.add(l.Raw())
	}
	if frame == nil {
		return Proof{}, nil, fmt.Errorf("proof: frame %d: the log has %d", index, l.Frames())
	}
	return Proof{Index: index, Hashes: path.end()}, frame, nil
}

// Check reports whether the tree of size leaves with this root has frame, a
// whole encoded frame, at p.Index. Root and size must come from a checkpoint that
// the caller trusts: that of p, once its signature is verified, or another.
func (p *Proof) Check(frame []byte, root Digest, size uint64) error {
	if size > maxTree || p.Index >= size {
		return fmt.Errorf("proof: frame %d of a log of %d", p.Index, size)
	}
	path := make(tlog.RecordProof, len(p.Hashes))
	for i, h := range p.Hashes {
		path[i] = tlog.Hash(h)
	}
	if tlog.CheckRecord(path, int64(size), tlog.Hash(root), int64(p.Index), tlog.RecordHash(frame)) != nil {
		return fmt.Errorf("proof: frame %d: not in the log", p.Index)
	}
	return nil
}

// Text returns the text of p's checkpoint, which is what its signatures cover.
func (p *Proof) Text() []byte {
	if end := bytes.Index(p.Checkpoint, []byte("\n\n")); end >= 0 {
		return p.Checkpoint[:end+1]
	}
	return p.Checkpoint
}

// Append appends the text form of p to dst.
func (p *Proof) Append(dst []byte) ([]byte, error) {
	if err := p.valid(); err != nil {
		return nil, err
	}
	start := len(dst)
	dst = append(dst, proofHeader...)
	if len(p.Extra) > 0 {
		dst = append(dst, proofExtra...)
		dst = append(base64.StdEncoding.AppendEncode(dst, p.Extra), '\n')
	}
	dst = append(dst, proofIndex...)
	dst = append(strconv.AppendUint(dst, p.Index, 10), '\n')
	for i := range p.Hashes {
		dst = append(base64.StdEncoding.AppendEncode(dst, p.Hashes[i][:]), '\n')
	}
	dst = append(append(dst, '\n'), p.Checkpoint...)
	if len(dst)-start > MaxProof {
		return nil, fmt.Errorf("proof: %d bytes: the limit is %d", len(dst)-start, MaxProof)
	}
	return dst, nil
}

// valid reports what of p has no text form.
func (p *Proof) valid() error {
	if len(p.Hashes) > maxPath {
		return fmt.Errorf("%w: %d hashes", errProof, len(p.Hashes))
	}
	if len(p.Extra) > MaxProof {
		return fmt.Errorf("%w: extra of %d bytes", errProof, len(p.Extra))
	}
	text := p.Text()
	if _, err := ParseCheckpoint(text); err != nil {
		return fmt.Errorf("proof: %w", err)
	}
	if signatures := p.Checkpoint[len(text):]; len(signatures) == 1 || !bytes.HasSuffix(p.Checkpoint, []byte("\n")) || !utf8.Valid(signatures) {
		return fmt.Errorf("%w: signatures", errProof)
	}
	return nil
}

// ParseProof reads the text form of a proof and checks nothing but the form.
func ParseProof(text []byte) (Proof, error) {
	if len(text) > MaxProof {
		return Proof{}, fmt.Errorf("proof: %d bytes: the limit is %d", len(text), MaxProof)
	}
	p, err := parseProof(text)
	if err != nil {
		return Proof{}, err
	}
	// One proof has one text, whatever the decoders above let pass.
	if again, err := p.Append(nil); err != nil {
		return Proof{}, err
	} else if !bytes.Equal(again, text) {
		return Proof{}, fmt.Errorf("%w: not in canonical form", errProof)
	}
	return p, nil
}

func parseProof(text []byte) (p Proof, err error) {
	rest, ok := bytes.CutPrefix(text, []byte(proofHeader))
	if !ok {
		return p, fmt.Errorf("%w: header", errProof)
	}
	line, rest, _ := bytes.Cut(rest, []byte("\n"))
	if extra, ok := bytes.CutPrefix(line, []byte(proofExtra)); ok {
		if p.Extra, err = base64.StdEncoding.AppendDecode(nil, extra); err != nil {
			return p, fmt.Errorf("%w: extra", errProof)
		}
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
	}
	index, ok := bytes.CutPrefix(line, []byte(proofIndex))
	if !ok {
		return p, fmt.Errorf("%w: index", errProof)
	}
	if p.Index, err = strconv.ParseUint(string(index), 10, 64); err != nil {
		return p, fmt.Errorf("%w: index", errProof)
	}
	for {
		if line, rest, ok = bytes.Cut(rest, []byte("\n")); !ok {
			return p, fmt.Errorf("%w: no checkpoint", errProof)
		}
		if len(line) == 0 {
			break
		}
		if len(p.Hashes) == maxPath {
			return p, fmt.Errorf("%w: more than %d hashes", errProof, maxPath)
		}
		var h Digest
		if base64.StdEncoding.DecodedLen(len(line)) > len(h)+1 {
			return p, fmt.Errorf("%w: hash %d", errProof, len(p.Hashes))
		}
		raw, err := base64.StdEncoding.AppendDecode(nil, line)
		if err != nil || copy(h[:], raw) != len(h) || len(raw) != len(h) {
			return p, fmt.Errorf("%w: hash %d", errProof, len(p.Hashes))
		}
		p.Hashes = append(p.Hashes, h)
	}
	p.Checkpoint = bytes.Clone(rest)
	return p, nil
}

// An auditPath is the stack of a [Tree] that keeps, of every merge that involves
// the subtree of one leaf, the other side.
type auditPath struct {
	index  uint64
	at     int // position in stack of the subtree that holds leaf index, -1 before it came
	size   uint64
	stack  []Digest
	hashes []Digest
}

func (a *auditPath) add(data []byte) {
	a.stack = append(a.stack, Digest(tlog.RecordHash(data)))
	if a.size == a.index {
		a.at = len(a.stack) - 1
	}
	for n := a.size; n&1 == 1; n >>= 1 {
		a.merge()
	}
	a.size++
}

func (a *auditPath) merge() {
	top := len(a.stack) - 1
	left, right := &a.stack[top-1], &a.stack[top]
	switch a.at {
	case top:
		a.hashes = append(a.hashes, *left)
		a.at--
	case top - 1:
		a.hashes = append(a.hashes, *right)
	}
	*left = node(left, right)
	a.stack = a.stack[:top]
}

// end merges what is left into the root and returns the path.
func (a *auditPath) end() []Digest {
	for len(a.stack) > 1 {
		a.merge()
	}
	return a.hashes
}
