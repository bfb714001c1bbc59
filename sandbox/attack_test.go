//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// attackMain is the tested code, at its worst. It runs inside and never
// returns.
func attackMain(name string, args []string) {
	switch name {
	case "attempts":
		for _, a := range attempts(args) {
			fmt.Printf("%s %s\n", a.name, errnoText(a.try()))
		}
	case "musts":
		for _, a := range musts() {
			fmt.Printf("%s %s\n", a.name, errnoText(a.try()))
		}
	case "supervise":
		superviseMain(args)
	case "forkbomb":
		forkBomb()
	case "bombs":
		bombs()
	case "threads":
		threads()
	case "nested":
		nestedMain()
	case "denied-flood":
		deniedFlood()
	case "orphan":
		orphanMain()
	case "listened":
		listenedMain(args[0])
	case "hide":
		hide(args[0], args[1])
	case "hog":
		hog()
	case "flood":
		flood(args[0])
	case "stubborn":
		stubborn(args[0])
	case "dial":
		dialMain(args)
	case "dial-many":
		dialMany(args[0], args[1])
	default:
		fmt.Println("no such attack:", name)
		os.Exit(3)
	}
	os.Exit(0)
}

type trick struct {
	name string
	try  func() error
}

// attempts lists what must not work on the network: processes, files and the
// kernel are in package conformance. args: TCP port, UDP port, abstract name,
// path of a socket.
func attempts(args []string) []trick {
	tcp, _ := strconv.Atoi(args[0])
	udp, _ := strconv.Atoi(args[1])
	var list []trick
	add := func(name string, f func() error) { list = append(list, trick{name, f}) }
	open := func(name, p string, flags int) { add(name, func() error { return openErr(p, flags) }) }
	for name, family := range map[string]int{
		"vsock": unix.AF_VSOCK, "alg": unix.AF_ALG, "packet": unix.AF_PACKET, "bluetooth": unix.AF_BLUETOOTH, "tipc": unix.AF_TIPC, "xdp": unix.AF_XDP,
	} {
		add("socket-"+name, func() error { return socketErr(family) })
	}
	add("socket-raw", func() error {
		_, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
		return err
	})

	add("tcp", func() error { return connect(unix.SOCK_STREAM, inet4(tcp)) })
	add("udp", func() error { return sendUDP(udp, answerWait) })
	add("route4", func() error {
		return connect(unix.SOCK_DGRAM, &unix.SockaddrInet4{Port: 53, Addr: [4]byte{192, 0, 2, 1}})
	})
	add("route6", func() error {
		return connect(unix.SOCK_DGRAM, &unix.SockaddrInet6{Port: 53, Addr: [16]byte{0x20, 1, 0xd, 0xb8, 15: 1}})
	})
	add("metadata", func() error {
		return connect(unix.SOCK_STREAM, &unix.SockaddrInet4{Port: 80, Addr: [4]byte{169, 254, 169, 254}})
	})
	add("abstract", func() error { return connect(unix.SOCK_STREAM, &unix.SockaddrUnix{Name: args[2]}) })
	add("path-socket", func() error { return connect(unix.SOCK_STREAM, &unix.SockaddrUnix{Name: args[3]}) })
	open("docker-socket", "/var/run/docker.sock", unix.O_RDONLY)
	return list
}

func raw(trap uintptr, a ...uintptr) error {
	var p [6]uintptr
	copy(p[:], a)
	r, _, errno := unix.RawSyscall6(trap, p[0], p[1], p[2], p[3], p[4], p[5])
	if errno != 0 {
		return errno
	}
	if r == 0 && trap == unix.SYS_CLONE {
		unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	}
	return nil
}

// musts lists what an ordinary test suite needs.
func musts() []trick {
	return []trick{
		{"write-tmp", func() error { return os.WriteFile("/tmp/a", []byte("a"), 0o644) }},
		{"write-home", func() error { return os.WriteFile("/home/sandbox/a", []byte("a"), 0o644) }},
		{"write-var-tmp", func() error { return os.WriteFile("/var/tmp/a", []byte("a"), 0o644) }},
		{"write-shm", func() error { return os.WriteFile("/dev/shm/a", []byte("a"), 0o644) }},
		{"dev-null", func() error { return os.WriteFile("/dev/null", []byte("a"), 0) }},
		{"urandom", func() error { return openErr("/dev/urandom", unix.O_RDONLY) }},
		{"pty", func() error {
			fd, err := unix.Open("/dev/ptmx", unix.O_RDWR, 0)
			if err != nil {
				return err
			}
			n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
			if err != nil {
				return err
			}
			if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
				return err
			}
			return openErr("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR)
		}},
		{"fifo", func() error { return unix.Mkfifo("/tmp/fifo", 0o600) }},
		{"rename-across", func() error {
			os.Mkdir("/tmp/d1", 0o755)
			os.Mkdir("/tmp/d2", 0o755)
			os.WriteFile("/tmp/d1/f", nil, 0o644)
			return os.Rename("/tmp/d1/f", "/tmp/d2/f")
		}},
		{"exec-from-tmp", func() error { return execCopy("/tmp/true") }},
		{"unix-socket", func() error {
			sa := &unix.SockaddrUnix{Name: "/tmp/s"}
			return echo(unix.AF_UNIX, sa)
		}},
		{"abstract-socket", func() error { return echo(unix.AF_UNIX, &unix.SockaddrUnix{Name: "@own"}) }},
		{"tcp4", func() error { return echo(unix.AF_INET, inet4(0)) }},
		{"netlink", func() error {
			_, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
			return err
		}},
		{"ptrace-child", ptraceChild},
		{"no-aslr", func() error { return raw(unix.SYS_PERSONALITY, 0x0040000) }},
		{"unshare-files", func() error {
			runtime.LockOSThread()
			return raw(unix.SYS_UNSHARE, unix.CLONE_FILES)
		}},
		{"memfd", func() error { _, err := unix.MemfdCreate("x", 0); return err }},
		{"thread-self", func() error { return openErr("/proc/thread-self/status", unix.O_RDONLY) }},
		{"kill-child", func() error {
			c := exec.Command("sleep", "60")
			if err := c.Start(); err != nil {
				return err
			}
			if err := c.Process.Signal(syscall.SIGTERM); err != nil {
				return err
			}
			c.Wait()
			return nil
		}},
		{"read-only-dir-denies", func() error {
			os.Mkdir("/tmp/ro", 0o500)
			if os.WriteFile("/tmp/ro/x", nil, 0o644) == nil {
				return unix.EINVAL
			}
			return nil
		}},
		{"blocking-stdout", func() error {
			flags, err := unix.FcntlInt(1, unix.F_GETFL, 0)
			if err == nil && flags&unix.O_NONBLOCK != 0 {
				return unix.EAGAIN
			}
			return err
		}},
		{"localhost", func() error {
			b, err := os.ReadFile("/etc/hosts")
			if err == nil && !strings.Contains(string(b), "127.0.0.1 localhost") {
				return unix.ENOENT
			}
			return err
		}},
	}
}

func execCopy(p string) error {
	b, err := os.ReadFile("/bin/true")
	if err != nil {
		return err
	}
	if err := os.WriteFile(p, b, 0o755); err != nil {
		return err
	}
	return exec.Command(p).Run()
}

func ptraceChild() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := exec.Command("/bin/true")
	c.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := c.Start(); err != nil {
		return err
	}
	c.Wait()
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(c.Process.Pid, &regs); err != nil {
		return err
	}
	return unix.PtraceCont(c.Process.Pid, 0)
}

// forkBomb starts processes until it cannot, and says how many.
func forkBomb() {
	n := 0
	for ; n < 10000; n++ {
		pid, _, errno := unix.RawSyscall(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0)
		if errno != 0 {
			fmt.Println(n, errnoText(errno))
			return
		}
		if pid == 0 {
			for {
				unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
		}
	}
	fmt.Println(n, "ok")
}

// bombs fills the limit on processes with processes that ask process 1 once and
// threads of another program, and ends when there is no room for one more.
func bombs() {
	self := []string{attackPath, "attack:threads"}
	for range 2 {
		if _, err := syscall.ForkExec(self[0], self, &syscall.ProcAttr{}); err != nil {
			fmt.Println(errnoText(err))
		}
	}
	for full := 0; full < 200; {
		pid, _, errno := unix.RawSyscall(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0)
		if errno != 0 {
			full++
			unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
			continue
		}
		for pid == 0 {
			unix.RawSyscall(unix.SYS_UNSHARE, unix.CLONE_NEWNET, 0, 0)
			unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
		}
	}
}

// threads makes threads until the runtime cannot, which ends the process.
func threads() {
	for range 256 {
		go func() {
			runtime.LockOSThread()
			raw(unix.SYS_PPOLL)
		}()
		runtime.Gosched()
	}
	select {}
}

func hog() {
	var keep [][]byte
	for range 4096 {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		keep = append(keep, b)
		if len(keep)%64 == 0 {
			time.Sleep(10 * time.Millisecond) // polling gets a look
		}
	}
	fmt.Println(len(keep))
}

func flood(bytes string) {
	n, _ := strconv.Atoi(bytes)
	b := []byte(strings.Repeat("x", 64<<10))
	for n > 0 {
		m, err := os.Stdout.Write(b[:min(n, len(b))])
		if err != nil {
			os.Exit(1)
		}
		n -= m
	}
	fmt.Fprint(os.Stderr, "end")
}

// stubborn leaves a process behind that ignores every signal it can, has its
// own session, and holds the output pipes.
func stubborn(mark string) {
	c := exec.Command("sh", "-c", `trap "" TERM INT HUP QUIT USR1; while :; do sleep 0.01; done; : `+mark)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("left", c.Process.Pid)
}
