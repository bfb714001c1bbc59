//go:build linux && (amd64 || arm64)

package sandbox

import (
	"testing"

	"golang.org/x/sys/unix"
)

// call is what the kernel shows a filter.
type call struct {
	nr, arch uint32
	args     [6]uint64
}

func (c call) word(off uint32) uint32 {
	switch {
	case off == offNr:
		return c.nr
	case off == offArch:
		return c.arch
	case off >= offArg0 && off < 64:
		a := c.args[(off-offArg0)/8]
		if off%8 == 4 {
			return uint32(a >> 32)
		}
		return uint32(a)
	}
	return 0
}

// judge interprets the filter.
func judge(t *testing.T, p []unix.SockFilter, c call) uint32 {
	t.Helper()
	var acc uint32
	for pc := 0; pc < len(p); pc++ {
		i := p[pc]
		var yes bool
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = c.word(i.K)
			continue
		case unix.BPF_RET | unix.BPF_K:
			return i.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			yes = acc == i.K
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			yes = acc > i.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			yes = acc&i.K != 0
		default:
			t.Fatalf("instruction %d: code %#x", pc, i.Code)
		}
		if yes {
			pc += int(i.Jt)
		} else {
			pc += int(i.Jf)
		}
	}
	t.Fatal("ran off the end")
	return 0
}

func TestFilter(t *testing.T) {
	t.Parallel()
	const (
		allow  = unix.SECCOMP_RET_ALLOW
		eperm  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		enosys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		eafno  = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
		i386   = unix.AUDIT_ARCH_I386
		mine   = auditArch
	)
	p := filter(rules{inet: true}, false)
	for name, c := range map[string]struct {
		call call
		want uint32
	}{
		"read":             {call{unix.SYS_READ, mine, [6]uint64{}}, allow},
		"keyctl":           {call{unix.SYS_KEYCTL, mine, [6]uint64{}}, eperm},
		"i386 keyctl":      {call{288, i386, [6]uint64{}}, enosys},
		"i386 read":        {call{3, i386, [6]uint64{}}, enosys},
		"arm read":         {call{3, unix.AUDIT_ARCH_ARM, [6]uint64{}}, enosys},
		"x32 read":         {call{0x40000000, mine, [6]uint64{}}, enosys},
		"x32 keyctl":       {call{0x40000000 | unix.SYS_KEYCTL, mine, [6]uint64{}}, enosys},
		"compat of x32":    {call{520, mine, [6]uint64{}}, enosys},
		"minus one":        {call{^uint32(0), mine, [6]uint64{}}, enosys},
		"newest":           {call{newestCall, mine, [6]uint64{}}, allow},
		"newer":            {call{newestCall + 1, mine, [6]uint64{}}, enosys},
		"fork":             {call{unix.SYS_CLONE, mine, [6]uint64{uint64(unix.SIGCHLD)}}, allow},
		"thread":           {call{unix.SYS_CLONE, mine, [6]uint64{unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD}}, allow},
		"clone user":       {call{unix.SYS_CLONE, mine, [6]uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}}, eperm},
		"clone high":       {call{unix.SYS_CLONE, mine, [6]uint64{1<<32 | unix.CLONE_NEWUSER}}, eperm},
		"clone3":           {call{unix.SYS_CLONE3, mine, [6]uint64{}}, enosys},
		"unshare files":    {call{unix.SYS_UNSHARE, mine, [6]uint64{unix.CLONE_FILES}}, allow},
		"unshare net":      {call{unix.SYS_UNSHARE, mine, [6]uint64{unix.CLONE_NEWNET}}, eperm},
		"socket unix":      {call{unix.SYS_SOCKET, mine, [6]uint64{unix.AF_UNIX}}, allow},
		"socket inet6":     {call{unix.SYS_SOCKET, mine, [6]uint64{unix.AF_INET6}}, allow},
		"socket netlink":   {call{unix.SYS_SOCKET, mine, [6]uint64{unix.AF_NETLINK}}, allow},
		"socket vsock":     {call{unix.SYS_SOCKET, mine, [6]uint64{unix.AF_VSOCK}}, eafno},
		"socket high":      {call{unix.SYS_SOCKET, mine, [6]uint64{1<<32 | unix.AF_VSOCK}}, eafno},
		"socketpair alg":   {call{unix.SYS_SOCKETPAIR, mine, [6]uint64{unix.AF_ALG}}, eafno},
		"ioctl TCGETS":     {call{unix.SYS_IOCTL, mine, [6]uint64{0, unix.TCGETS}}, allow},
		"ioctl TIOCSTI":    {call{unix.SYS_IOCTL, mine, [6]uint64{0, unix.TIOCSTI}}, eperm},
		"ioctl high":       {call{unix.SYS_IOCTL, mine, [6]uint64{0, 0xdead<<32 | unix.TIOCSTI}}, eperm},
		"ioctl TIOCLINUX":  {call{unix.SYS_IOCTL, mine, [6]uint64{0, ioctlLinux}}, eperm},
		"personality":      {call{unix.SYS_PERSONALITY, mine, [6]uint64{0x40000}}, allow},
		"ptrace":           {call{unix.SYS_PTRACE, mine, [6]uint64{}}, allow},
		"landlock":         {call{unix.SYS_LANDLOCK_CREATE_RULESET, mine, [6]uint64{}}, allow},
		"nested filter":    {call{unix.SYS_SECCOMP, mine, [6]uint64{}}, allow},
		"name_to_handle":   {call{unix.SYS_NAME_TO_HANDLE_AT, mine, [6]uint64{}}, allow},
		"open_tree_attr":   {call{unix.SYS_OPEN_TREE_ATTR, mine, [6]uint64{}}, eperm},
		"setns":            {call{unix.SYS_SETNS, mine, [6]uint64{}}, eperm},
		"io_uring_enter":   {call{unix.SYS_IO_URING_ENTER, mine, [6]uint64{}}, eperm},
		"perf_event_open":  {call{unix.SYS_PERF_EVENT_OPEN, mine, [6]uint64{}}, eperm},
		"userfaultfd":      {call{unix.SYS_USERFAULTFD, mine, [6]uint64{}}, eperm},
		"open_by_handle":   {call{unix.SYS_OPEN_BY_HANDLE_AT, mine, [6]uint64{}}, eperm},
		"memfd_secret":     {call{unix.SYS_MEMFD_SECRET, mine, [6]uint64{}}, allow},
		"process_vm_readv": {call{unix.SYS_PROCESS_VM_READV, mine, [6]uint64{}}, allow},
	} {
		if got := judge(t, p, c.call); got != c.want {
			t.Errorf("%s: %#x, want %#x", name, got, c.want)
		}
	}
	for _, nr := range deniedCalls() {
		if got := judge(t, p, call{nr: nr, arch: mine}); got != eperm {
			t.Errorf("denied call %d: %#x", nr, got)
		}
	}
}

// TestFilterListens: with a listener, nested calls are referred to it, nothing
// else changes, and nobody else can listen.
func TestFilterListens(t *testing.T) {
	t.Parallel()
	alone, listens := filter(rules{inet: true}, false), filter(rules{inet: true}, true)
	const ns = unix.CLONE_NEWUSER | 1<<40
	nested := map[uint32]bool{}
	for _, c := range nestedCalls {
		nested[c.nr] = true
		flags := [6]uint64{ns}
		if got := judge(t, listens, call{c.nr, auditArch, flags}); got != unix.SECCOMP_RET_USER_NOTIF {
			t.Errorf("%s: %#x", c.name, got)
		}
		if got := judge(t, alone, call{c.nr, auditArch, flags}); got != unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM) {
			t.Errorf("%s without a listener: %#x", c.name, got)
		}
	}
	for nr := range uint32(newestCall + 2) {
		for _, args := range [][6]uint64{{}, {ns}, {unix.AF_VSOCK, unix.TIOCSTI}, {1, 1}} {
			c := call{nr, auditArch, args}
			a, l := judge(t, alone, c), judge(t, listens, c)
			if a != l && (!nested[nr] || l != unix.SECCOMP_RET_USER_NOTIF || a != unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM)) {
				t.Errorf("call %d%v: %#x with a listener, %#x without", nr, args, l, a)
			}
		}
	}
	for flags, want := range map[uint64]uint32{
		0: unix.SECCOMP_RET_ALLOW, unix.SECCOMP_FILTER_FLAG_TSYNC: unix.SECCOMP_RET_ALLOW,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER:                                               unix.SECCOMP_RET_ERRNO | uint32(unix.EBUSY),
		1<<33 | unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC:      unix.SECCOMP_RET_ERRNO | uint32(unix.EBUSY),
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV: unix.SECCOMP_RET_ERRNO | uint32(unix.EBUSY),
	} {
		if got := judge(t, listens, call{unix.SYS_SECCOMP, auditArch, [6]uint64{unix.SECCOMP_SET_MODE_FILTER, flags}}); got != want {
			t.Errorf("seccomp with flags %#x: %#x, want %#x", flags, got, want)
		}
	}
}

// TestFilterShared: where the uid has other processes, calls on them are
// refused, and on the process itself they are not.
func TestFilterShared(t *testing.T) {
	t.Parallel()
	const (
		allow  = unix.SECCOMP_RET_ALLOW
		eperm  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		enosys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		eafno  = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
	)
	shared, alone := filter(rules{shared: true}, false), filter(rules{}, false)
	for name, c := range map[string]struct {
		nr    uint32
		args  [6]uint64
		want  uint32
		alone uint32
	}{
		"own limits":          {unix.SYS_PRLIMIT64, [6]uint64{0, 7}, allow, allow},
		"other's limits":      {unix.SYS_PRLIMIT64, [6]uint64{4711, 7}, eperm, allow},
		"own limits, high":    {unix.SYS_PRLIMIT64, [6]uint64{1 << 32, 7}, allow, allow}, // the kernel reads 32 bits
		"own affinity":        {unix.SYS_SCHED_SETAFFINITY, [6]uint64{}, allow, allow},
		"other's affinity":    {unix.SYS_SCHED_SETAFFINITY, [6]uint64{4711}, eperm, allow},
		"own priority":        {unix.SYS_SETPRIORITY, [6]uint64{unix.PRIO_PROCESS, 0, 19}, allow, allow},
		"other's priority":    {unix.SYS_SETPRIORITY, [6]uint64{unix.PRIO_PROCESS, 4711, 19}, eperm, allow},
		"the user's priority": {unix.SYS_SETPRIORITY, [6]uint64{unix.PRIO_USER, 0, 19}, eperm, allow},
		"the group's":         {unix.SYS_SETPRIORITY, [6]uint64{unix.PRIO_PGRP, 0, 19}, allow, allow},
		"the user's i/o":      {unix.SYS_IOPRIO_SET, [6]uint64{3, 0}, eperm, allow},
		"own i/o":             {unix.SYS_IOPRIO_SET, [6]uint64{1, 0}, allow, allow},
		"attach a segment":    {unix.SYS_SHMAT, [6]uint64{}, enosys, allow},
		"make a queue":        {unix.SYS_MSGGET, [6]uint64{}, enosys, allow},
		"inet":                {unix.SYS_SOCKET, [6]uint64{unix.AF_INET}, eafno, eafno},
		"unix":                {unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX}, allow, allow},
		"ioctl":               {unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSTI}, eperm, eperm},
		"read":                {unix.SYS_READ, [6]uint64{}, allow, allow},
	} {
		if got := judge(t, shared, call{c.nr, auditArch, c.args}); got != c.want {
			t.Errorf("%s: %#x, want %#x", name, got, c.want)
		}
		if got := judge(t, alone, call{c.nr, auditArch, c.args}); got != c.alone {
			t.Errorf("%s, uid of its own: %#x, want %#x", name, got, c.alone)
		}
	}
}
