//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hide fills memory that no process maps, says so and waits. What is memfd,
// deleted or sysv; crowded holds 900 descriptors before it.
func hide(what, size string) {
	n, _ := strconv.Atoi(size)
	fail := func(err error) {
		fmt.Println(what, errnoText(err))
		os.Exit(1)
	}
	fill := func(fd int) {
		b := make([]byte, 1<<20)
		for i := range b {
			b[i] = 1
		}
		for left := n; left > 0; {
			m, err := unix.Write(fd, b[:min(left, len(b))])
			if err != nil {
				fail(err)
			}
			left -= m
		}
	}
	switch what {
	case "memfd", "crowded":
		for i := 0; what == "crowded" && i < 900; i++ {
			if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
				fail(err)
			}
		}
		fd, err := unix.MemfdCreate("hidden", 0)
		if err != nil {
			fail(err)
		}
		if _, err := unix.Dup(fd); err != nil { // counts once
			fail(err)
		}
		fill(fd)
	case "deleted":
		name := filepath.Join("/dev/shm", fmt.Sprintf("truegreen-test-%d", os.Getpid()))
		fd, err := unix.Open(name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, 0o600)
		if err != nil {
			fail(err)
		}
		if err := unix.Unlink(name); err != nil {
			fail(err)
		}
		fill(fd)
	case "sysv":
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, n, unix.IPC_CREAT|0o600)
		if err != nil {
			fail(err)
		}
		mem, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			fail(err)
		}
		for i := 0; i < len(mem); i += 4096 {
			mem[i] = 1
		}
		if err := unix.SysvShmDetach(mem); err != nil {
			fail(err)
		}
	}
	fmt.Println("hidden")
	time.Sleep(time.Minute)
}

// TestHeldFiles: what a process holds open without a name is counted, once,
// and however many descriptors there are.
func TestHeldFiles(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const size = 8 << 20
	var pids []int
	for _, what := range []string{"memfd", "crowded", "deleted"} {
		if what == "deleted" {
			if _, err := os.Stat("/dev/shm"); err != nil || !onTmpfs("/dev/shm") {
				t.Log("no tmpfs at /dev/shm")
				continue
			}
		}
		c := exec.Command(self, "attack:hide", what, strconv.Itoa(size))
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer c.Wait()
		defer c.Process.Kill()
		said := make([]byte, 7)
		if _, err := out.Read(said); err != nil || string(said) != "hidden\n" {
			t.Fatalf("%s: %q, %v", what, said, err)
		}
		var h heldFiles
		if n := h.look([]int{c.Process.Pid}, maxHeldLook); n < size || n > size+1<<20 {
			t.Errorf("%s: %d bytes, want about %d", what, n, size)
		}
		pids = append(pids, c.Process.Pid)
	}
	// Looks that do not get to the end go on from there, and come to the same.
	var whole, parts heldFiles
	want := whole.look(pids, maxHeldLook)
	got := parts.look(pids, 7)
	for n := 0; parts.seen != nil; n++ {
		if n == 10_000 {
			t.Fatal("the round does not end")
		}
		got = parts.look(pids, 7)
	}
	if got != want || want < size*int64(len(pids)) {
		t.Errorf("in parts %d bytes, whole %d, of %d processes", got, want, len(pids))
	}
	// What was found stays while the next round is under way, and not longer.
	if got = parts.look(pids, 7); got != want {
		t.Errorf("at the beginning of the next round %d bytes, want %d", got, want)
	}
	parts.look(nil, 7) // ends that round
	if got = parts.look(nil, 7); got != 0 {
		t.Errorf("%d bytes of no process", got)
	}
}

// TestHiddenMemory: memory that no process maps is under the limit, whoever
// enforces it.
func TestHiddenMemory(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		for _, what := range []string{"memfd", "deleted", "sysv"} {
			r, out := mustRun(t, mode, Spec{
				Argv: []string{attackPath, "attack:hide", what, strconv.Itoa(96 << 20)}, Mounts: []Mount{attackMount(t)},
				Limits: Limits{Memory: 64 << 20, Wall: time.Minute},
			})
			l := limit(t, r, "memory")
			if said := strings.TrimSpace(out.stdout.String()); said != "" && said != "hidden" {
				// Refused by the kernel, which is as good.
				if what != "sysv" || r.State != StateExited || !strings.Contains(said, "EINVAL") && !strings.Contains(said, "ENOSPC") {
					t.Errorf("%s: %s %q, %q", what, r.State, r.Why, said)
				}
				continue
			}
			if r.State != StateSignaled || !l.Hit || l.By == "polled" && l.Peak < 64<<20 {
				t.Errorf("%s: %s %q, %+v", what, r.State, r.Why, l)
			}
		}
	})
}

// TestSharedLimit: where root made the namespace, the kernel holds all
// segments together to the memory limit; where not, their sum is polled.
func TestSharedLimit(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		r, out := mustRun(t, mode, Spec{Argv: sh("cat " + sharedPages), Limits: Limits{Memory: 64<<20 + 1}})
		var pages uint64 // unlimited is more than an int64 holds
		if _, err := fmt.Sscan(out.stdout.String(), &pages); err != nil {
			t.Fatal(err)
		}
		enforced := false
		for _, l := range r.Isolation.Limits {
			if l.Name == "shared" {
				enforced = true
				if l.By != "ipcns" || l.Value != 64<<20+int64(os.Getpagesize()) || uint64(l.Value) != pages*uint64(os.Getpagesize()) {
					t.Errorf("limit %+v, %d pages inside", l, pages)
				}
			}
		}
		if enforced != (os.Geteuid() == 0) {
			t.Errorf("enforced %t as uid %d; %d pages inside", enforced, os.Geteuid(), pages)
		}
	})
}

func TestSharedMemory(t *testing.T) {
	t.Parallel()
	f, err := os.CreateTemp(t.TempDir(), "shm")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b bytes.Buffer
	b.WriteString("       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n")
	b.WriteString("         0          0  1600             536870912 12345 12345      0  1000  1000  1000  1000          0          0          0             536870912                  4096\n")
	b.WriteString("         0          1  1600                  4096 12345 12345      1  1000  1000  1000  1000          0          0          0                     0                     0\n")
	b.WriteString("broken\n")
	if _, err := f.Write(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n := sharedMemory(f); n != 536870912+4096 {
			t.Errorf("%d bytes", n)
		}
	}
}
