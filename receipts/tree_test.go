package receipts

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

// storedHashes is the storage of a tlog tree.
type storedHashes []tlog.Hash

func (s storedHashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, len(indexes))
	for i, at := range indexes {
		if at >= int64(len(s)) {
			return nil, errors.New("no such hash")
		}
		list[i] = s[at]
	}
	return list, nil
}

// Roots and proofs are those of an independent implementation, for every size
// and every leaf.
func TestTreeAgainstTlog(t *testing.T) {
	t.Parallel()
	const sizes = 130
	var log bytes.Buffer
	var raw [][]byte
	w := NewLogWriter(&log)
	var tree Tree
	var stored storedHashes
	if tree.Root() != Sum(nil) || tree.Size() != 0 {
		t.Errorf("the empty tree has size %d and root %s", tree.Size(), tree.Root())
	}
	for size := int64(1); size <= sizes; size++ {
		frame, err := w.Append(&Frame{Seq: uint64(size), Payload: binary.AppendVarint(nil, size)})
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, bytes.Clone(frame))
		tree.Append(frame)
		hashes, err := tlog.StoredHashes(size-1, frame, stored)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, hashes...)
		root, err := tlog.TreeHash(size, stored)
		if err != nil {
			t.Fatal(err)
		}
		if tree.Root() != Digest(root) || tree.Size() != uint64(size) {
			t.Fatalf("size %d: root %s; want %s", size, tree.Root(), root)
		}
		for index := range size {
			path := auditPath{index: uint64(index), at: -1}
			for _, leaf := range raw {
				path.add(leaf)
			}
			p := Proof{Index: uint64(index), Hashes: path.end()}
			want, err := tlog.ProveRecord(size, index, stored)
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(p.Hashes) != fmt.Sprint(digests(want)) || path.stack[0] != tree.Root() {
				t.Fatalf("frame %d of %d: %v; want %v", index, size, p.Hashes, want)
			}
			if err := p.Check(raw[index], tree.Root(), uint64(size)); err != nil {
				t.Fatalf("frame %d of %d: %v", index, size, err)
			}
		}
	}
	for index, want := range raw {
		p, frame, err := Prove(bytes.NewReader(log.Bytes()), uint64(index))
		if err != nil || !bytes.Equal(frame, want) {
			t.Fatalf("frame %d: %x, %v", index, frame, err)
		}
		if err := p.Check(frame, tree.Root(), sizes); err != nil {
			t.Fatal(err)
		}
	}
}

func digests(hashes []tlog.Hash) []Digest {
	var list []Digest
	for _, h := range hashes {
		list = append(list, Digest(h))
	}
	return list
}
