//go:build amd64 || arm64

package conformance

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Exit codes of attempts that are judged by how the command ended.
const (
	exitNoThread = 2 // of the Go runtime, for a thread that it did not get
	exitClosed   = 7
	exitWrong    = 9
)

// hold is how long a bomb keeps what it took, so that whoever only looks now
// and then sees it.
const hold = 2 * time.Second

// forkBomb starts processes until it cannot. Then it ends a few, without which
// the Go runtime, refused a thread, would end this one.
func forkBomb() string {
	var pids [16 * bombPids]uintptr
	for n := range pids {
		pid, _, errno := unix.RawSyscall(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0)
		if errno != 0 {
			for _, p := range pids[:min(n, 8)] {
				unix.RawSyscall(unix.SYS_KILL, p, uintptr(unix.SIGKILL), 0)
				unix.RawSyscall6(unix.SYS_WAIT4, p, 0, 0, 0, 0, 0)
			}
			return ended(errno)
		}
		if pid == 0 {
			for {
				unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
		}
		pids[n] = pid
	}
	return "ok"
}

// threadBomb starts threads until the runtime cannot, which ends the process.
func threadBomb() string {
	for range 16 * bombPids {
		ready := make(chan bool)
		go func() {
			runtime.LockOSThread()
			ready <- true
			select {}
		}()
		<-ready
	}
	return "ok"
}

func openMany() string {
	for range 1 << 21 {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return ended(err)
		}
	}
	return "ok"
}

// hostOpens says whether the host can still open a file.
func hostOpens() string {
	f, err := os.Open("/dev/null")
	if err != nil {
		return err.Error()
	}
	f.Close()
	return ""
}

// step is how much a memory bomb takes at a time.
const step = 4 << 20

// touch takes size bytes of memory, piece by piece.
func touch(size int) string {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return ended(err)
	}
	for at := 0; at < size; at += step {
		if err := unix.Madvise(b[at:at+step], unix.MADV_POPULATE_WRITE); err != nil {
			return ended(err)
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(hold)
	runtime.KeepAlive(b)
	return "ok"
}

// touchMany takes twice the limit in four processes that each stay below it.
func touchMany() string {
	const size = bombMemory / 2
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return ended(err)
	}
	at := uintptr(unsafe.Pointer(&b[0]))
	for range 4 {
		pid, _, errno := unix.RawSyscall(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0)
		if errno != 0 {
			return ended(errno)
		}
		if pid == 0 {
			// A copy of one thread: system calls and nothing else.
			unix.RawSyscall(unix.SYS_MADVISE, at, size, unix.MADV_POPULATE_WRITE)
			for {
				unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
		}
	}
	time.Sleep(hold)
	runtime.KeepAlive(b)
	return "ok"
}

// fillMemfd writes to memory that appears in no process's resident set.
func fillMemfd() string {
	fd, err := unix.MemfdCreate("fill", unix.MFD_CLOEXEC)
	if err != nil {
		return ended(err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	defer f.Close()
	return fillFile(f, 2*bombMemory)
}

// fillSegment does the same with a segment, which it maps piece by piece.
// segmentOrNone ends with exit code 0 only if no such segment can be made: then
// nothing is used, and no limit is hit.
func segmentOrNone() string {
	got := fillSegment()
	if got != "ENOSYS" && got != "EINVAL" && got != "ENOSPC" && got != "ENOMEM" {
		os.Exit(exitWrong)
	}
	return got
}

func fillSegment() string {
	const size = 2 * bombMemory
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, size, unix.IPC_CREAT|0o600)
	if err != nil {
		return ended(err)
	}
	b, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		return ended(err)
	}
	for at := 0; at < size; at += step {
		piece := b[at : at+step]
		if err := unix.Madvise(piece, unix.MADV_POPULATE_WRITE); err != nil {
			return ended(err)
		}
		if err := unix.Madvise(piece, unix.MADV_DONTNEED); err != nil {
			return ended(err)
		}
		time.Sleep(time.Millisecond)
	}
	if err := unix.SysvShmDetach(b); err != nil {
		return ended(err)
	}
	time.Sleep(hold)
	return "ok"
}

func fill(p string, size int64) string {
	f, err := os.Create(p)
	if err != nil {
		return ended(err)
	}
	defer f.Close()
	return fillFile(f, size)
}

func fillFile(f *os.File, size int64) string {
	b := make([]byte, 1<<20)
	for ; size > 0; size -= int64(len(b)) {
		if _, err := f.Write(b); err != nil {
			return ended(err)
		}
		if size%(16<<20) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	time.Sleep(hold)
	return "ok"
}

// pour sends size bytes without a line break.
func pour(fd int, size int64) string {
	b := make([]byte, 64<<10)
	for i := range b {
		b[i] = 'x'
	}
	for size > 0 {
		n, err := unix.Write(fd, b[:min(size, int64(len(b)))])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return ended(err)
		}
		size -= int64(n)
	}
	return "ok"
}

func readInput() string {
	n, err := os.Stdin.Read(make([]byte, 1))
	switch {
	case errors.Is(err, io.EOF):
		return "end of file"
	case err != nil:
		return ended(err)
	}
	return strconv.Itoa(n) + " byte"
}

// closeOutput gives up both pipes and ends some time later.
func closeOutput() string {
	unix.Close(1)
	unix.Close(2)
	time.Sleep(time.Second)
	os.Exit(exitClosed)
	return ""
}

func blockOnPipe() {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return
	}
	pour(p[1], 1<<30)
}

func spin() {
	for i := uint64(1); i != 0; i++ {
	}
}

// leaveDescendant leaves a process that has every reason to stay.
func leaveDescendant() string {
	c := exec.Command("/bin/sh", "-c", `trap "" TERM INT HUP QUIT; while :; do sleep 1; done`)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err.Error()
	}
	return "left"
}
