package receipts

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A Receipt binds one tool call to what was asked and what came back, and to
// the receipt before it.
type Receipt struct {
	Task, Job, Call ID
	ToolName        Digest // of the tool's name
	Args            Digest // of the args document
	Result          Digest // of the result document
	Artifacts       []Digest
	EventSeq        uint64 // sequence number of the ToolCallCompleted frame
	Prev            Digest // chain hash of the receipt before; zero for the first
	MAC             Digest // of the body
}

const (
	// MaxArtifacts is how many artifacts a receipt record can name. The body
	// itself could name 2^32-1.
	MaxArtifacts = 256
	bodyMin      = 188
	macSize      = 32
)

// AppendBody appends the body: 188 + 32·N bytes, without the MAC.
func (r *Receipt) AppendBody(dst []byte) []byte {
	for _, id := range [...]*ID{&r.Task, &r.Job, &r.Call} {
		dst = append(dst, id[:]...)
	}
	for _, d := range [...]*Digest{&r.ToolName, &r.Args, &r.Result} {
		dst = append(dst, d[:]...)
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(r.Artifacts)))
	for i := range r.Artifacts {
		dst = append(dst, r.Artifacts[i][:]...)
	}
	dst = binary.LittleEndian.AppendUint64(dst, r.EventSeq)
	return append(dst, r.Prev[:]...)
}

// AppendRecord appends the record: body ‖ MAC.
func (r *Receipt) AppendRecord(dst []byte) []byte {
	return append(r.AppendBody(dst), r.MAC[:]...)
}

// ChainHash returns SHA-256(body), which the next receipt's Prev must be.
func (r *Receipt) ChainHash() Digest { return Sum(r.AppendBody(nil)) }

var errRecordSize = errors.New("receipt record: length and artifact count differ")

// ParseRecord reads a record. Every byte of it is a field's, so a record that
// parses is the encoding of what was parsed.
func ParseRecord(b []byte) (Receipt, error) {
	if len(b) < bodyMin+macSize {
		return Receipt{}, fmt.Errorf("receipt record: %d bytes: want at least %d", len(b), bodyMin+macSize)
	}
	n := binary.LittleEndian.Uint32(b[144:148])
	if n > MaxArtifacts {
		return Receipt{}, fmt.Errorf("receipt record: %d artifacts: the limit is %d", n, MaxArtifacts)
	}
	if len(b) != bodyMin+macSize+32*int(n) {
		return Receipt{}, errRecordSize
	}
	var r Receipt
	for _, id := range [...]*ID{&r.Task, &r.Job, &r.Call} {
		b = b[copy(id[:], b):]
	}
	for _, d := range [...]*Digest{&r.ToolName, &r.Args, &r.Result} {
		b = b[copy(d[:], b):]
	}
	b = b[4:]
	if n > 0 {
		r.Artifacts = make([]Digest, n)
	}
	for i := range r.Artifacts {
		b = b[copy(r.Artifacts[i][:], b):]
	}
	r.EventSeq = binary.LittleEndian.Uint64(b)
	b = b[8:]
	b = b[copy(r.Prev[:], b):]
	copy(r.MAC[:], b)
	return r, nil
}

// ParseRecords reads records that follow each other, at most max of them.
func ParseRecords(b []byte, max int) ([]Receipt, error) {
	var list []Receipt
	for len(b) > 0 {
		if len(list) == max {
			return nil, fmt.Errorf("receipt records: more than %d", max)
		}
		size := len(b)
		if size >= bodyMin+macSize {
			if n := binary.LittleEndian.Uint32(b[144:148]); n <= MaxArtifacts {
				size = min(size, bodyMin+macSize+32*int(n))
			}
		}
		r, err := ParseRecord(b[:size])
		if err != nil {
			return nil, fmt.Errorf("receipt %d: %w", len(list), err)
		}
		list, b = append(list, r), b[size:]
	}
	return list, nil
}
