//go:build amd64 || arm64

package sandbox

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A memoryPoll stands in for a memory cgroup: it adds up the resident sets
// below a process, now and then. Shared pages count more than once, and what
// comes and goes between two looks is not seen; the report calls it polled.
type memoryPoll struct {
	mu    sync.Mutex
	max   int64
	hit   bool
	end   chan struct{}
	ended sync.WaitGroup
}

const pollInterval = 100 * time.Millisecond

func (m *memoryPoll) start(pid int, limit int64, over func()) {
	m.end = make(chan struct{})
	m.ended.Go(func() {
		t := time.NewTicker(pollInterval)
		defer t.Stop()
		for {
			select {
			case <-m.end:
				return
			case <-t.C:
			}
			n := residentBelow(pid)
			m.mu.Lock()
			m.max = max(m.max, n)
			hit := n > limit && !m.hit
			m.hit = m.hit || hit
			m.mu.Unlock()
			if hit {
				over()
			}
		}
	})
}

func (m *memoryPoll) stop() {
	if m.end == nil {
		return
	}
	close(m.end)
	m.ended.Wait()
	m.end = nil
}

func (m *memoryPoll) peak() (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.max, m.hit
}

func residentBelow(pid int) int64 {
	var sum int64
	for list := children(pid); len(list) > 0; {
		p := list[len(list)-1]
		list = append(list[:len(list)-1], children(p)...)
		b, err := os.ReadFile("/proc/" + strconv.Itoa(p) + "/statm")
		if err != nil {
			continue
		}
		if f := strings.Fields(string(b)); len(f) > 1 {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			sum += n * int64(os.Getpagesize())
		}
	}
	return sum
}
