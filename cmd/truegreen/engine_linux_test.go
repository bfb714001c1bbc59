package main

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

func init() {
	programs["deny"] = deny
	commands["engine"] = useEngine
}

// deny runs a command without some system calls: without mount, what stays is a
// container or mode restricted; without seccomp too, nothing does.
func deny() {
	calls := map[string][]uint32{
		"mount":   {unix.SYS_MOUNT, unix.SYS_PIVOT_ROOT, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR},
		"seccomp": {unix.SYS_SECCOMP, unix.SYS_LANDLOCK_CREATE_RULESET},
	}
	var denied []uint32
	for _, name := range strings.Split(os.Args[1], ",") {
		denied = append(denied, calls[name]...)
	}
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}}
	for i, nr := range denied {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jt: uint8(len(denied) - i)})
	}
	filter = append(filter,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, "deny:", err)
		os.Exit(125)
	}
	path, err := exec.LookPath(os.Args[2])
	if err != nil {
		fail(err)
	}
	runtime.LockOSThread() // which is the one that executes
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		fail(err)
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})), 0, 0); err != nil {
		fail(err)
	}
	fail(syscall.Exec(path, os.Args[2:], os.Environ()))
}

// useEngine imports an image with a shell and this Go toolchain under a name that
// no other process uses, removes it after the script, and builds a truegreen that
// needs no libraries.
func useEngine(ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, neg || len(args) != 2, "engine NAME PROGRAM")
	build := exec.Command("go", "build", "-o", ts.MkAbs(args[1]), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		ts.Fatalf("go build: %v\n%s", err, out)
	}
	out, in := io.Pipe()
	go func() { in.CloseWithError(writeImage(in)) }()
	image := fmt.Sprintf("truegreen-script-test:%d-%s", os.Getpid(), strings.ToLower(args[0]))
	ts.Defer(func() { exec.Command("docker", "image", "rm", "--force", image).Run() })
	load := exec.Command("docker", "import", "--change", "ENV PATH=/usr/local/go/bin:/bin", "-", image)
	load.Stdin = out
	if text, err := load.CombinedOutput(); err != nil {
		ts.Fatalf("docker import: %v\n%s", err, text)
	}
	ts.Setenv(args[0], image)
}

// writeImage writes the file system of the image: what go test needs without cgo.
func writeImage(w io.Writer) error {
	tw := tar.NewWriter(w)
	if err := addFile(tw, "bin/busybox", "/bin/busybox"); err != nil {
		return err
	}
	for _, name := range []string{"sh", "cat", "true", "ls"} {
		if err := tw.WriteHeader(&tar.Header{Name: "bin/" + name, Linkname: "busybox", Typeflag: tar.TypeSymlink, Mode: 0o777}); err != nil {
			return err
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	goroot := strings.TrimSpace(string(root))
	if goroot, err = filepath.EvalSymlinks(goroot); err != nil {
		return err
	}
	for _, part := range []string{"VERSION", "go.env", "bin/go", "pkg/tool", "pkg/include", "src"} {
		err := filepath.WalkDir(filepath.Join(goroot, part), func(p string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.Name() == "testdata", p == filepath.Join(goroot, "src/cmd"):
				return fs.SkipDir
			case strings.HasSuffix(p, "_test.go"), d.IsDir():
				return nil
			}
			return addFile(tw, "usr/local/go"+strings.TrimPrefix(p, goroot), p)
		})
		if err != nil {
			return err
		}
	}
	return tw.Close()
}

func addFile(tw *tar.Writer, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := tw.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: int64(info.Mode().Perm()), Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(tw, f)
	return err
}
