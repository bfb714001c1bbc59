//go:build amd64 || arm64

package conformance

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The attempts of fileRows to gain privileges by files.

// setuidTmp is the condition that the host gives setuid programs their due.
func setuidTmp() string {
	var st unix.Statfs_t
	if err := unix.Statfs(os.TempDir(), &st); err != nil || st.Flags&unix.ST_NOSUID != 0 {
		return os.TempDir() + " is mounted nosuid"
	}
	return ""
}

func runSetuid(in *Inside) string {
	out, err := exec.Command(in.Setuid, "-u").Output()
	if err != nil {
		return ended(err)
	}
	if uid := strings.TrimSpace(string(out)); uid != strconv.Itoa(os.Getuid()) {
		return "uid " + uid
	}
	return "own uid"
}

// nobodyID is who tries outside what privileges a program gives.
const nobodyID = 65534

// asNobody executes a program that its user need not be able to reach by path.
func asNobody(program string, arg ...string) (string, error) {
	f, err := os.Open(program)
	if err != nil {
		return "", err
	}
	defer f.Close()
	c := exec.Command("/proc/self/fd/3", arg...)
	c.Args[0], c.Dir, c.ExtraFiles = filepath.Base(program), "/", []*os.File{f}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyID, Gid: nobodyID}}
	out, err := c.Output()
	return string(out), err
}

func setuidWorks(o *Outside) string {
	out, err := asNobody(o.Setuid, "-u")
	if err == nil && strings.TrimSpace(out) != "0" {
		return "uid " + strings.TrimSpace(out)
	}
	return ended(err)
}

// effective returns "none" if a status file shows no effective capability.
func effective(status string) string {
	_, rest, _ := strings.Cut(status, "CapEff:")
	value, _, _ := strings.Cut(rest, "\n")
	switch value = strings.TrimSpace(value); {
	case value == "":
		return "no status"
	case strings.Trim(value, "0") == "":
		return "none"
	}
	return "has " + value
}

func becomeRoot(*Inside) string { return ended(raw(unix.SYS_SETRESUID, 0, 0, 0)) }

func giveToRoot(in *Inside) string {
	p := filepath.Join(in.Work, "given")
	if err := os.WriteFile(p, nil, 0o600); err != nil {
		return "write: " + ended(err)
	}
	defer os.Remove(p)
	return ended(os.Chown(p, 0, 0))
}

func runFileCap(in *Inside) string {
	out, err := exec.Command(in.FileCap, "/proc/self/status").Output()
	if err != nil {
		return ended(err)
	}
	return effective(string(out))
}

func fileCapWorks(o *Outside) string {
	out, err := asNobody(o.FileCap, "/proc/self/status")
	if err != nil {
		return ended(err)
	}
	return found(effective(out))
}

func makeSetuid(in *Inside) string {
	for _, dir := range []string{in.Work, os.TempDir()} {
		p := filepath.Join(dir, "setuid")
		if err := os.WriteFile(p, []byte("#!/bin/sh\n"), 0o755); err != nil {
			return ended(err)
		}
		if err := os.Chmod(p, 0o755|fs.ModeSetuid); err != nil {
			return ended(err)
		}
	}
	return "ok"
}

// makeSetuidHere shows that noSetuid would find one.
func makeSetuidHere(o *Outside) string {
	p := filepath.Join(o.Work, "setuid")
	if err := os.WriteFile(p, nil, 0o700); err != nil {
		return ended(err)
	}
	defer os.Remove(p)
	if err := os.Chmod(p, 0o700|fs.ModeSetuid); err != nil {
		return ended(err)
	}
	if noSetuid(o) == "ok" {
		return "not found"
	}
	return "ok"
}

func noSetuid(o *Outside) string {
	got := "ok"
	filepath.WalkDir(o.Dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode()&fs.ModeSetuid != 0 {
			got = p + " is setuid"
		}
		return nil
	})
	return got
}
