package foreign

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Digest returns the name under which a [Seen] may keep a receipt: no two pairs of issuer
// and id have one, whatever bytes they are of.
func Digest(issuer, id string) [sha256.Size]byte {
	text := binary.BigEndian.AppendUint64([]byte("truegreen/v1 seen\x00"), uint64(len(issuer)))
	return sha256.Sum256(append(append(text, issuer...), id...))
}

// DefaultSeen is how many receipts a [SeenMemory] remembers.
const DefaultSeen = 1 << 16

// A SeenMemory is a [Seen] of one process. When it is full of receipts that still count,
// it is an error to add one: to forget one would be to take it again. It is safe for
// several goroutines. The zero SeenMemory is empty and ready.
type SeenMemory struct {
	Now   func() time.Time // nil: time.Now
	Limit int              // of receipts; 0: DefaultSeen

	mu    sync.Mutex
	until map[[sha256.Size]byte]time.Time
	next  time.Time // no receipt that is here ends before
}

var _ Seen = (*SeenMemory)(nil)

var errSeenFull = errors.New("full of receipts that still count")

// Add implements [Seen].
func (m *SeenMemory) Add(ctx context.Context, issuer, id string, until time.Time) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	limit, now := m.Limit, time.Now
	if limit == 0 {
		limit = DefaultSeen
	}
	if m.Now != nil {
		now = m.Now
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := Digest(issuer, id)
	if _, seen := m.until[key]; seen {
		return false, nil
	}
	if len(m.until) >= limit {
		m.sweep(now())
	}
	if len(m.until) >= limit {
		return false, fmt.Errorf("%w: %d", errSeenFull, len(m.until))
	}
	if m.until == nil {
		m.until = map[[sha256.Size]byte]time.Time{}
	}
	m.until[key] = until
	if !until.IsZero() && (m.next.IsZero() || until.Before(m.next)) {
		m.next = until
	}
	return true, nil
}

// sweep forgets the receipts that do not count any more. It looks for them only if there
// can be one, so that adding to what is full stays cheap.
func (m *SeenMemory) sweep(now time.Time) {
	if m.next.IsZero() || now.Before(m.next) {
		return
	}
	m.next = time.Time{}
	for key, until := range m.until {
		switch {
		case until.IsZero():
		case !now.Before(until):
			delete(m.until, key)
		case m.next.IsZero() || until.Before(m.next):
			m.next = until
		}
	}
}
