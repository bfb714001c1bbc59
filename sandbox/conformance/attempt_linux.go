//go:build amd64 || arm64

package conformance

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ended is what an attempt answers: "ok", or the name of the errno.
func ended(err error) string {
	if err == nil {
		return "ok"
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if name := unix.ErrnoName(errno); name != "" {
			return name
		}
	}
	return err.Error()
}

// past is ended where these errnos mean that permission was granted: what they
// complain about is looked at later.
func past(err error, granted ...error) string {
	for _, g := range granted {
		if errors.Is(err, g) {
			return "ok"
		}
	}
	return ended(err)
}

func open(p string, flags int) string {
	fd, err := unix.Open(p, flags|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	return ended(err)
}

// raw makes a system call. A child that it may have made ends at once. Pointers
// are converted in the call.
//
//go:uintptrescapes
func raw(trap uintptr, a ...uintptr) error {
	var p [6]uintptr
	copy(p[:], a)
	r, _, errno := unix.RawSyscall6(trap, p[0], p[1], p[2], p[3], p[4], p[5])
	if errno != 0 {
		return errno
	}
	if trap == unix.SYS_CLONE || trap == unix.SYS_CLONE3 {
		if r == 0 {
			unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
		}
		var ws unix.WaitStatus
		unix.Wait4(int(r), &ws, unix.WALL, nil)
	}
	return nil
}

// rawFD makes a system call that returns a descriptor.
//
//go:uintptrescapes
func rawFD(trap uintptr, a ...uintptr) (int, error) {
	var p [6]uintptr
	copy(p[:], a)
	r, _, errno := unix.RawSyscall6(trap, p[0], p[1], p[2], p[3], p[4], p[5])
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

// cstr returns a string as the kernel reads it.
func cstr(s string) *byte { return &append([]byte(s), 0)[0] }

// closing closes a descriptor that should not have been had.
func closing(fd int, err error) string {
	if err == nil {
		unix.Close(fd)
	}
	return ended(err)
}

// here is a control: the same attempt in the supervisor.
func here(try func(*Inside) string) func(*Outside) string {
	return func(o *Outside) string { return try(&Inside{Outside: *o}) }
}

// plain is a control: the same attempt by a child of the supervisor that has
// its own session and nothing else to itself.
func plain(id string) func(*Outside) string {
	return func(o *Outside) string { return o.child(id, &syscall.SysProcAttr{Setsid: true}) }
}

// asRoot is a control: the same attempt with all capabilities in new
// namespaces, which is what a sandbox would be without the rest.
func asRoot(id string) func(*Outside) string {
	return func(o *Outside) string {
		attr := &syscall.SysProcAttr{
			Setsid:       true,
			Cloneflags:   unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
			Unshareflags: unix.CLONE_NEWNS, // which makes the mounts private
		}
		if o.UID != 0 {
			attr.Cloneflags |= unix.CLONE_NEWUSER
			attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: o.UID, Size: 1}}
			attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
		}
		return o.child(id, attr)
	}
}

// child makes one attempt in a child process.
func (o *Outside) child(id string, attr *syscall.SysProcAttr) string {
	in := Inside{Outside: *o}
	cmd := exec.Command(o.Program, in.argument(), id)
	cmd.Args[0] = nameInside
	cmd.SysProcAttr = attr
	out, err := cmd.Output()
	got := map[string]string{}
	read(string(out), []string{id}, got)
	if answer, ok := got[id]; ok {
		return answer
	}
	return fmt.Sprint("child: ", ended(err))
}

// mayRefuse marks a control that the host may refuse, too, by its version,
// its configuration or the user's lack of privilege: what ends in an errno
// outside cannot be shown to be refused inside.
func mayRefuse(control func(*Outside) string) func(*Outside) string {
	return func(o *Outside) string {
		got := control(o)
		if got != "ok" {
			return hostRefuses + "outside it ends in " + got + ", too"
		}
		return got
	}
}

// rootOnly is the condition of rows whose target only root can plant.
func rootOnly() string {
	if os.Geteuid() != 0 {
		return "only root can plant the target"
	}
	return ""
}

// all is a condition made of several.
func all(conditions ...func() string) func() string {
	return func() string {
		for _, c := range conditions {
			if why := c(); why != "" {
				return why
			}
		}
		return ""
	}
}

// sysctl reads a setting, "" if there is none.
func sysctl(name string) string {
	b, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
