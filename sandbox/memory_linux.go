//go:build amd64 || arm64

package sandbox

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A memoryPoll stands in for a memory cgroup: now and then it adds up the
// resident sets below a process, the files in memory that these hold open and
// have no name, and the System V shared memory of their namespace. Shared pages
// count more than once. What comes and goes between two looks is not seen, nor is
// memory of a file that nobody holds open and whose mapping is not resident; the
// report calls it polled.
type memoryPoll struct {
	mu    sync.Mutex
	max   int64
	hit   bool
	end   chan struct{}
	ended sync.WaitGroup

	held   heldFiles
	shared *os.File // /proc/sysvipc/shm of the sandbox; nil where something else limits it
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
			n := m.look(pid)
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
	if m.end != nil {
		close(m.end)
		m.ended.Wait()
		m.end = nil
	}
	if m.shared != nil {
		m.shared.Close()
		m.shared = nil
	}
}

func (m *memoryPoll) peak() (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.max, m.hit
}

func (m *memoryPoll) look(pid int) int64 {
	pids := descendants(pid)
	sum := m.held.look(pids, maxHeldLook)
	if m.shared != nil {
		sum += sharedMemory(m.shared)
	}
	for _, p := range pids {
		sum += resident(p)
	}
	return sum
}

// descendants returns the processes below pid, ascending.
func descendants(pid int) []int {
	var all []int
	for list := children(pid); len(list) > 0; {
		p := list[len(list)-1]
		list = append(list[:len(list)-1], children(p)...)
		all = append(all, p)
	}
	slices.Sort(all)
	return all
}

func resident(pid int) int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.ParseInt(f[1], 10, 64)
	return n * int64(os.Getpagesize())
}
