//go:build amd64 || arm64

package sandbox

import "testing"

// TestHeldIDs: whoever holds a uid of mode restricted does not take the first one
// that seems free. In containers of one host, which see nothing of each other, all
// would take the same, and a sandbox on the host, which ends whatever has its uid,
// would end theirs.
func TestHeldIDs(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for range 20 { // all the same, once in 422 to the power of 19
		h, err := holdID()
		if err != nil {
			t.Fatal(err)
		}
		if h.id < firstHeldUID || h.id > lastHeldUID || h.id >= firstUID {
			t.Errorf("uid %d is not from %d to %d", h.id, firstHeldUID, lastHeldUID)
		}
		if again, err := lockID(h.id); err == nil {
			again.release()
			t.Errorf("uid %d is held twice", h.id)
		}
		seen[h.id] = true
		h.release()
	}
	if len(seen) == 1 {
		t.Errorf("always the same: %v", seen)
	}
}
