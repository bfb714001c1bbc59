//go:build amd64 || arm64

package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// machineRows are about the machine as a whole, its other instruction sets,
// and what of the kernel must go on working.
func machineRows() []Row {
	rows := []Row{
		{ID: "56", Name: "load a kernel (kexec_load)", Want: []string{"EPERM"}, Try: kexec, Control: mayRefuse(here(kexec))},
		{ID: "56b", Name: "load a module (init_module)", Want: []string{"EPERM"}, Try: loadModule, Control: mayRefuse(here(loadModule))},
		{ID: "56c", Name: "remove a module (delete_module)", Want: []string{"EPERM"}, Try: removeModule, Control: mayRefuse(here(removeModule))},
		{ID: "56d", Name: "reboot", Want: []string{"EPERM"}, Try: reboot, Control: mayRefuse(here(reboot))},
		{ID: "56e", Name: "swapon", Want: []string{"EPERM"}, Try: swapOn, Control: mayRefuse(here(swapOn))},
		{ID: "57", Name: "keyctl from a 32-bit program (int 0x80)", Want: []string{"ENOSYS"}, Try: program32, Control: mayRefuse(here(program32)), Needs: onAMD64},
		{ID: "58", Name: "getpid by its x32 number", Want: []string{"ENOSYS"}, Try: x32, Control: mayRefuse(here(x32)), Needs: onAMD64},
		{ID: "60", Name: "personality(ADDR_NO_RANDOMIZE) works", Level: sandbox.LevelNamespaces, Why: "in mode container, the engine's own filter refuses it", Want: []string{"ok"}, Try: noRandomize, Control: here(noRandomize)},
		{ID: "62", Name: "set the clock", Want: []string{"EPERM"}, Try: setClock, Why: "no control: outside it would set the clock"},
		{ID: "62b", Name: "settimeofday", Want: []string{"EPERM"}, Try: setNoTime, Control: mayRefuse(here(setNoTime))},
		{ID: "63", Name: "tracing a child works", Want: []string{"ok"}, Try: traceChild, Control: here(traceChild), Needs: traceable},
		{ID: "63b", Name: "modify_ldt works", Want: []string{"ok"}, Try: readLDT, Control: mayRefuse(here(readLDT)), Needs: onAMD64},
	}
	for i := range rows {
		rows[i].Group = "kernel"
		if rows[i].Level == sandbox.LevelNone {
			rows[i].Level = sandbox.LevelRestricted
		}
	}
	return rows
}

func onAMD64() string {
	if runtime.GOARCH != "amd64" {
		return "there is nothing like it on " + runtime.GOARCH
	}
	return ""
}

// The following calls are wrong in a way that the kernel finds after it has
// asked for permission: with permission, nothing happens.

func kexec(*Inside) string {
	return past(raw(unix.SYS_KEXEC_LOAD, 0, 1<<20, 0, 0), unix.EINVAL)
}

func loadModule(*Inside) string {
	return past(raw(unix.SYS_INIT_MODULE, 0, 0, uintptr(unsafe.Pointer(cstr("")))), unix.ENOEXEC)
}

func removeModule(*Inside) string {
	return past(raw(unix.SYS_DELETE_MODULE, uintptr(unsafe.Pointer(cstr("no such module"))), unix.O_NONBLOCK), unix.ENOENT)
}

func reboot(*Inside) string { return past(raw(unix.SYS_REBOOT, 0, 0, 0, 0), unix.EINVAL) }

func swapOn(*Inside) string {
	return past(raw(unix.SYS_SWAPON, uintptr(unsafe.Pointer(cstr("/no such file"))), 0), unix.ENOENT)
}

// setNoTime sets neither the time nor the zone.
func setNoTime(*Inside) string { return ended(raw(unix.SYS_SETTIMEOFDAY, 0, 0)) }

func setClock(*Inside) string {
	now := unix.NsecToTimespec(time.Now().UnixNano())
	return ended(unix.ClockSettime(unix.CLOCK_REALTIME, &now))
}

func x32(*Inside) string { return ended(raw(0x40000000 | unix.SYS_GETPID)) }

func noRandomize(*Inside) string {
	const addrNoRandomize = 0x0040000
	return ended(raw(unix.SYS_PERSONALITY, addrNoRandomize))
}

func traceChild(*Inside) string {
	c := exec.Command("/proc/self/exe", "x")
	c.Args[0] = nameVictim
	c.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := c.Start(); err != nil {
		return ended(err)
	}
	defer c.Process.Kill()
	var ws unix.WaitStatus
	if _, err := unix.Wait4(c.Process.Pid, &ws, 0, nil); err != nil {
		return ended(err)
	}
	var info [128]byte // siginfo_t
	if err := raw(unix.SYS_PTRACE, unix.PTRACE_GETSIGINFO, uintptr(c.Process.Pid), 0, uintptr(unsafe.Pointer(&info))); err != nil {
		return ended(err)
	}
	return ended(unix.PtraceDetach(c.Process.Pid))
}

func readLDT(*Inside) string {
	const modifyLDT = 154 // on amd64, the only one of ours that has it
	var b [16]byte
	return ended(raw(modifyLDT, 0, uintptr(unsafe.Pointer(&b)), unsafe.Sizeof(b)))
}

// program32 runs a 32-bit program that calls keyctl and dies by a signal that
// says what came of it.
func program32(in *Inside) string {
	p := filepath.Join(os.TempDir(), in.Secret+"-i386")
	if err := os.WriteFile(p, elf32(), 0o755); err != nil {
		return "write: " + ended(err)
	}
	defer os.Remove(p)
	c := exec.Command(p)
	if err := c.Start(); err != nil {
		return "execute: " + ended(err)
	}
	c.Wait()
	ws, _ := c.ProcessState.Sys().(syscall.WaitStatus)
	if !ws.Signaled() {
		return "did not run"
	}
	switch ws.Signal() {
	case unix.SIGILL:
		return "ENOSYS"
	case unix.SIGSEGV:
		return "ok"
	case unix.SIGTRAP:
		return "EPERM"
	case unix.SIGFPE:
		return "another errno"
	}
	return "died"
}

// elf32 returns a static i386 program. It asks for the id of its process
// keyring and then executes ud2 after ENOSYS, hlt after success, int3 after EPERM
// and divides by zero else: with every system call refused, it could not even exit.
func elf32() []byte {
	const base, entry = 0x08048000, 52 + 32
	code := []byte{
		0xb8, 0x20, 0x01, 0x00, 0x00, // mov eax, 288 (keyctl)
		0x31, 0xdb, // xor ebx, ebx (KEYCTL_GET_KEYRING_ID)
		0xb9, 0xfe, 0xff, 0xff, 0xff, // mov ecx, -2 (process keyring)
		0xba, 0x01, 0x00, 0x00, 0x00, // mov edx, 1 (create)
		0xcd, 0x80, // int 0x80
		0x83, 0xf8, 0xda, // cmp eax, -38 (ENOSYS)
		0x74, 0x0e, // je to ud2
		0x85, 0xc0, // test eax, eax
		0x79, 0x0c, // jns to hlt
		0x83, 0xf8, 0xff, // cmp eax, -1 (EPERM)
		0x74, 0x04, // je to int3
		0x31, 0xc9, // xor ecx, ecx
		0xf7, 0xf1, // div ecx
		0xcc,       // int3
		0x0f, 0x0b, // ud2
		0xf4, // hlt
	}
	w32 := func(b []byte, v uint32) []byte { return append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24)) }
	b := []byte{0x7f, 'E', 'L', 'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	b = append(b, 2, 0, 3, 0) // ET_EXEC, EM_386
	for _, v := range []uint32{1, base + entry, 52, 0, 0} {
		b = w32(b, v)
	}
	b = append(b, 52, 0, 32, 0, 1, 0, 0, 0, 0, 0, 0, 0)
	size := uint32(entry + len(code))
	for _, v := range []uint32{1, 0, base, base, size, size, 5, 0x1000} {
		b = w32(b, v)
	}
	return append(b, code...)
}
