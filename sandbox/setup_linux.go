//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// setup is the first stage: process 1 of the new namespaces, where the mode
// makes any, still holding the capabilities to build in them. It builds, gives
// everything up and executes the init stage, so that no thread, page or
// descriptor of the privileged half is left when the command starts.
func setup(report *os.File) error {
	runtime.LockOSThread()
	if err := quiet(); err != nil {
		return err
	}
	c, err := readConfig()
	if err != nil {
		return err
	}
	if err := die(c.Mode); err != nil {
		return err
	}
	self, err := openSelf(c.UID)
	if err != nil {
		return step("open own executable", err)
	}
	how := "moved"
	if !c.Mode.loose() && !c.lacks("ipc") {
		limitShared(c.Memory)
	}
	if c.mounts() {
		if how, err = buildTree(c); err != nil {
			return err
		}
	}
	if err := writeEvent(report, eventEntered, []byte(how)); err != nil {
		return step("report", err)
	}
	if err := setRlimits(c.Pids); err != nil {
		return err
	}
	unix.Umask(0o022)
	if err := drop(c); err != nil {
		return err
	}
	for _, fd := range []uintptr{fdConfig, fdReport, fdControl} {
		if _, err := unix.FcntlInt(fd, unix.F_SETFD, 0); err != nil {
			return step("keep descriptors", err)
		}
	}
	return step("execute init stage", execFD(self, nameInit, initEnv()))
}

// buildTree makes the namespaces a place to live in and enters it.
func buildTree(c stageConfig) (how string, err error) {
	t, err := newTree(c)
	if err != nil {
		return "", err
	}
	if c.Switch && !c.lacks(layerUID) {
		if err := setIDs(c.UID, c.GID); err != nil {
			return "", err
		}
	}
	if err := t.build(c); err != nil {
		return "", err
	}
	if !c.lacks("uts") {
		if err := unix.Sethostname([]byte("sandbox")); err != nil {
			return "", step("sethostname", err)
		}
	}
	if c.Network == NetworkNone && !c.lacks("net") {
		if err := loopbackUp(); err != nil {
			return "", step("bring loopback up", err)
		}
	}
	if len(c.Connect) > 0 {
		if err := offerListeners(c.Connect); err != nil {
			return "", err
		}
	}
	return t.enter()
}

// openSelf returns a descriptor of the running program that uid may execute.
// A program file that others may not execute is copied into memory first.
func openSelf(uid int) (int, error) {
	fd, err := unix.Open("/proc/self/exe", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, err
	}
	if st.Mode&0o001 != 0 || int(st.Uid) == uid && st.Mode&0o100 != 0 {
		return fd, nil
	}
	mem, err := unix.MemfdCreate("self", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	for off := int64(0); off < st.Size; {
		n, err := unix.Sendfile(mem, fd, &off, int(st.Size-off))
		if err != nil {
			return -1, err
		}
		if n == 0 {
			return -1, fmt.Errorf("executable shrank to %d bytes", off)
		}
	}
	if err := unix.Fchmod(mem, 0o555); err != nil {
		return -1, err
	}
	// A writable descriptor would make the execution fail with ETXTBSY.
	ro, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", mem), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	unix.Close(mem)
	return ro, err
}

func execFD(fd int, name string, env []string) error {
	empty, err := unix.BytePtrFromString("")
	if err != nil {
		return err
	}
	argv, err := syscall.SlicePtrFromStrings([]string{name})
	if err != nil {
		return err
	}
	envp, err := syscall.SlicePtrFromStrings(env)
	if err != nil {
		return err
	}
	return execveat(fd, empty, argv, envp)
}

// loopbackUp works without netlink; the kernel assigns 127.0.0.1 and ::1
// itself when the interface comes up.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return err
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}
