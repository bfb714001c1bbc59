package guard

import (
	"container/list"
	"crypto/sha256"
	"sync"
)

// A cache keeps the reports that were asked for last.
type cache struct {
	mu    sync.Mutex
	limit int
	items map[[sha256.Size]byte]*list.Element
	order *list.List // of *cached, the one asked for last in front
}

type cached struct {
	key    [sha256.Size]byte
	report Report
}

func newCache(limit int) *cache {
	return &cache{limit: limit, items: map[[sha256.Size]byte]*list.Element{}, order: list.New()}
}

// get returns a copy that is the caller's own.
func (c *cache) get(key [sha256.Size]byte) (Report, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.items[key]
	if !ok {
		return Report{}, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).report.clone(), true
}

// put keeps a report that nobody else has.
func (c *cache) put(key [sha256.Size]byte, r Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.items[key]; ok {
		c.order.MoveToFront(e)
		e.Value.(*cached).report = r
		return
	}
	c.items[key] = c.order.PushFront(&cached{key, r})
	if c.order.Len() > c.limit {
		last := c.order.Back()
		c.order.Remove(last)
		delete(c.items, last.Value.(*cached).key)
	}
}
