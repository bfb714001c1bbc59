//go:build amd64 || arm64

package sandbox

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Memory need not belong to a process: it can be in a memfd, in a file that was
// deleted from a tmpfs, or in a System V segment.

// maxHeldLook bounds how many descriptors one look goes through.
const maxHeldLook = 8192

// A heldFiles adds up the memory of files without a name that processes hold
// open, each file once. What one look does not get to is left to the next, which
// begins there.
type heldFiles struct {
	memfd device // that all memfds are on
	pid   int    // where the next look begins
	fd    int
	seen  map[fileID]bool // in this round
	sum   int64
	last  int64 // of the last whole round
}

type device struct{ major, minor uint32 }

type fileID struct {
	device
	inode uint64
}

// look goes through as many descriptors as budget says. It returns the number of
// bytes found in the last whole round or so far in this one, whichever is more.
func (h *heldFiles) look(pids []int, budget int) int64 {
	if h.seen == nil {
		h.seen, h.sum, h.memfd = map[fileID]bool{}, 0, memfdDevice()
	}
	for _, pid := range pids {
		if pid < h.pid {
			continue
		}
		if pid > h.pid {
			h.pid, h.fd = pid, 0
		}
		if budget = h.process(budget); budget == 0 {
			return max(h.last, h.sum)
		}
	}
	h.last = h.sum
	h.pid, h.fd, h.seen = 0, 0, nil
	return h.last
}

// process goes through the descriptors of a process from h.fd on, and returns
// what is left of the budget.
func (h *heldFiles) process(budget int) int {
	dir := "/proc/" + strconv.Itoa(h.pid) + "/fd"
	f, err := os.Open(dir)
	if err != nil {
		return budget
	}
	defer f.Close()
	// The kernel lists them ascending; the first two entries are . and ..
	if _, err := f.Seek(int64(h.fd)+2, io.SeekStart); err != nil {
		return budget
	}
	for {
		names, err := f.Readdirnames(min(budget, 256))
		for _, name := range names {
			n, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			h.file(dir + "/" + name)
			h.fd = n + 1
			if budget--; budget == 0 {
				return 0
			}
		}
		if err != nil || len(names) == 0 {
			return budget
		}
	}
}

func (h *heldFiles) file(path string) {
	var st unix.Statx_t
	// What a file system elsewhere would have to be asked for is not needed.
	const want = unix.STATX_TYPE | unix.STATX_INO | unix.STATX_NLINK | unix.STATX_BLOCKS
	if unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, want, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	id := fileID{device{st.Dev_major, st.Dev_minor}, st.Ino}
	if h.seen[id] || id.device != h.memfd && (st.Nlink > 0 || !onTmpfs(path)) {
		return
	}
	h.seen[id] = true
	h.sum += int64(st.Blocks) * 512
}

func onTmpfs(path string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && fs.Type == unix.TMPFS_MAGIC
}

// memfdDevice returns the device of the file system that memfds are made on. It
// is mounted nowhere, so only they, and mappings, are on it.
func memfdDevice() device {
	fd, err := unix.MemfdCreate("device", unix.MFD_CLOEXEC)
	if err != nil {
		return device{}
	}
	defer unix.Close(fd)
	var st unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO, &st) != nil {
		return device{}
	}
	return device{st.Dev_major, st.Dev_minor}
}

const (
	sharedPages   = "/proc/sys/kernel/shmall" // pages of all segments
	sharedSegment = "/proc/sys/kernel/shmmax" // bytes of one
	sharedList    = "/proc/sysvipc/shm"
)

// limitShared has the own ipc namespace hold no more System V shared memory than
// limit bytes, rounded up to pages. Only the root of the host may say so.
func limitShared(limit int64) {
	page := int64(os.Getpagesize())
	for name, n := range map[string]int64{sharedPages: (limit-1)/page + 1, sharedSegment: limit} {
		// What is in force is read back in the init stage.
		os.WriteFile(name, strconv.AppendInt(nil, n, 10), 0)
	}
}

// sharedLimit returns the number of bytes that all System V segments can have
// together, 0 if that is more than most.
func sharedLimit(most int64) int64 {
	b, err := os.ReadFile(sharedPages)
	if err != nil {
		return 0
	}
	page := int64(os.Getpagesize())
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || n > (most-1)/page+1 {
		return 0
	}
	return n * page
}

// lookAtShared takes the list of segments of process 1's namespace from it: who
// opens that list sees the own namespace.
func lookAtShared(pid, fd int) *os.File {
	p, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(p)
	got, err := unix.PidfdGetfd(p, fd, 0)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(got), sharedList)
}

// maxSegments bounds the list: the kernel's own bound is 4096 unless changed.
const maxSegments = 1 << 15

// sharedMemory adds up the memory of all segments in a list, attached or not.
func sharedMemory(list *os.File) int64 {
	if _, err := list.Seek(0, io.SeekStart); err != nil {
		return 0
	}
	var sum int64
	column := [2]int{-1, -1}
	s := bufio.NewScanner(list)
	for n := 0; s.Scan() && n <= maxSegments; n++ {
		f := strings.Fields(s.Text())
		if n == 0 {
			for i, name := range f {
				switch name {
				case "rss":
					column[0] = i
				case "swap":
					column[1] = i
				}
			}
			continue
		}
		for _, i := range column {
			if i >= 0 && i < len(f) {
				bytes, _ := strconv.ParseInt(f[i], 10, 64)
				sum += bytes
			}
		}
	}
	return sum
}
