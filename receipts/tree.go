package receipts

import (
	"crypto/sha256"
	"hash"
	"math/bits"
)

// A Tree computes the RFC 6962 root over leaves as they are appended, in memory
// that grows with the logarithm of their number. The zero Tree is empty.
type Tree struct {
	size uint64
	// stack holds the roots of the perfect subtrees that the leaves so far
	// consist of, the largest first: one for each 1 bit of size.
	stack []Digest
	leaf  hash.Hash
	zero  [1]byte // what a leaf's hash begins with
}

// Append adds a leaf: SHA-256(0 ‖ data).
func (t *Tree) Append(data []byte) {
	if t.leaf == nil {
		t.leaf = sha256.New()
	}
	t.leaf.Reset()
	t.leaf.Write(t.zero[:])
	t.leaf.Write(data)
	t.stack = append(t.stack, Digest{})
	top := len(t.stack) - 1
	t.leaf.Sum(t.stack[top][:0])
	for range bits.TrailingZeros64(^t.size) {
		t.stack[top-1] = node(&t.stack[top-1], &t.stack[top])
		t.stack = t.stack[:top]
		top--
	}
	t.size++
}

// Size returns the number of leaves.
func (t *Tree) Size() uint64 { return t.size }

// Root returns the root; that of an empty tree is SHA-256 of nothing.
func (t *Tree) Root() Digest {
	if t.size == 0 {
		return Sum(nil)
	}
	root := t.stack[len(t.stack)-1]
	for i := len(t.stack) - 2; i >= 0; i-- {
		root = node(&t.stack[i], &root)
	}
	return root
}

// node returns SHA-256(1 ‖ left ‖ right).
func node(left, right *Digest) Digest {
	var b [1 + 2*sha256.Size]byte
	b[0] = 1
	copy(b[1:], left[:])
	copy(b[1+sha256.Size:], right[:])
	return sha256.Sum256(b[:])
}
