//go:build amd64 || arm64

package conformance

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/sandbox"
)

const (
	readOnlyOrDenied = "EROFS comes from the mount; EACCES from Landlock in mode restricted, which has no mounts of its own"
	elsewhereDenied  = "EACCES in mode restricted, where the program's folder may be one that the uid cannot enter; ENOENT in a container, where it is not"
	absentOrDenied   = "ENOENT where the tree does not have it; EACCES in mode restricted, which shares the host's tree"
)

func fileRows() []Row {
	restricted := sandbox.LevelRestricted
	rows := []Row{
		{ID: "22g", Name: "leave a file in the host's /tmp", Want: []string{"ok"}, Level: sandbox.LevelContainer, Why: "writing is allowed: what counts is that nothing arrives",
			Try: drop("/tmp"), Control: dropHere("/tmp"), After: arrived("/tmp")},
		{ID: "22e", Name: "leave a file in the host's /var/tmp", Want: []string{"ok"}, Level: sandbox.LevelContainer, Why: "writing is allowed: what counts is that nothing arrives",
			Try: drop("/var/tmp"), Control: dropHere("/var/tmp"), After: arrived("/var/tmp")},
		{ID: "22d", Name: "write into the caller's home", Want: []string{"ENOENT", "EROFS", "EACCES"}, Why: absentOrDenied + "; EROFS where something else is mounted below that path",
			Try: func(in *Inside) string { return create(in.Home, in.Secret) }, Control: func(o *Outside) string { return create(o.Home, o.Secret) }},
		{ID: "23", Name: "write to a file of the host through a symbolic link in the work folder", Want: []string{"ENOENT", "EACCES"}, Why: absentOrDenied,
			Try: throughLink, Control: here(throughLink), After: fileUnchanged},
		{ID: "23b", Name: "write to /usr through a symbolic link in the work folder", Want: []string{"EROFS", "EACCES"}, Why: readOnlyOrDenied,
			Try: func(in *Inside) string { return throughLinkTo("/usr/bin/."+in.Secret, unix.O_WRONLY|unix.O_CREAT)(in) }, Control: mayRefuse(writable("/usr/bin"))},
		{ID: "25", Name: "hard link a file of the host into the work folder", Want: []string{"ENOENT", "EACCES", "EXDEV"}, Why: absentOrDenied + "; EXDEV is Landlock's answer to a link from where it allows less",
			Try: hardLink, Control: here(hardLink)},
		{ID: "25b", Name: "hard link a file of /usr into /tmp", Want: []string{"EXDEV", "EACCES", "EPERM"}, Why: "EXDEV: another mount; EACCES or EPERM in mode restricted, where it may be the same (Landlock, protected_hardlinks). No control: outside it would depend on the layout of the disks",
			Try: func(in *Inside) string { return linkTo("/usr/bin/env", filepath.Join(os.TempDir(), in.Secret+"-env")) }},
		{ID: "27", Name: "make a block device", Want: []string{"EPERM", "EACCES"}, Why: "EPERM for lack of CAP_MKNOD, EACCES from Landlock, whichever is asked first",
			Try: makeDevice(unix.S_IFBLK, 254, 0), Control: mayRefuse(here(makeDevice(unix.S_IFBLK, 254, 0)))},
		{ID: "27b", Name: "make a character device (/dev/mem)", Want: []string{"EPERM", "EACCES"}, Why: "EPERM for lack of CAP_MKNOD, EACCES from Landlock, whichever is asked first",
			Try: makeDevice(unix.S_IFCHR, 1, 1), Control: mayRefuse(here(makeDevice(unix.S_IFCHR, 1, 1)))},
		{ID: "28", Name: "open the host's disk", Want: []string{"ENOENT", "EACCES"}, Why: absentOrDenied,
			Try: openDisk, Control: mayRefuse(here(openDisk))},
		{ID: "28b", Name: "open /dev/kmsg", Want: []string{"ENOENT", "EACCES", "EPERM"}, Why: absentOrDenied + "; EPERM from dmesg_restrict",
			Try: opens("/dev/kmsg", unix.O_RDONLY), Control: mayRefuse(here(opens("/dev/kmsg", unix.O_RDONLY)))},
		{ID: "28c", Name: "open /dev/mem", Want: []string{"ENOENT", "EACCES"}, Why: absentOrDenied,
			Try: opens("/dev/mem", unix.O_RDONLY), Control: mayRefuse(here(opens("/dev/mem", unix.O_RDONLY)))},
		{ID: "28d", Name: "find any device of the host but null, zero, full, random, urandom, ptmx, tty", Want: []string{"none"}, Level: sandbox.LevelContainer,
			Try: strangeDevices, Control: func(o *Outside) string { return found(strangeDevices(&Inside{Outside: *o})) }},
		{ID: "28e", Name: "open /dev/tty", Want: []string{"ENOENT", "ENXIO", "EACCES"}, Why: "ENXIO where the tree has it, and there is no terminal; EACCES in mode restricted, by Landlock. No control: who runs this need not have one",
			Try: opens("/dev/tty", unix.O_RDWR)},
		{ID: "36", Name: "become root by a setuid program", Want: []string{"own uid", "EACCES", "ENOENT"}, Why: elsewhereDenied, Needs: all(rootOnly, setuidTmp),
			Try: runSetuid, Control: setuidWorks},
		{ID: "36b", Name: "become root by setresuid", Want: []string{"EPERM", "EINVAL"}, Why: "EINVAL in mode userns, where there is no uid 0",
			Try: becomeRoot, Control: mayRefuse(here(becomeRoot))},
		{ID: "36c", Name: "give a file to root", Want: []string{"EPERM", "EINVAL"}, Why: "EINVAL in mode userns, where there is no uid 0",
			Try: giveToRoot, Control: mayRefuse(here(giveToRoot))},
		{ID: "37", Name: "gain a capability by a program with file capabilities", Want: []string{"none", "EPERM", "EACCES", "ENOENT"}, Why: "EPERM where the mount honours them: the bounding set is empty, so the program does not start; " + elsewhereDenied, Needs: all(rootOnly, setuidTmp),
			Try: runFileCap, Control: fileCapWorks},
		{ID: "38", Name: "leave a setuid program for the host", Want: []string{"ok"}, Own: true, Why: "making one is allowed: what counts is that none arrives",
			Try: makeSetuid, Control: makeSetuidHere, After: noSetuid},
		{ID: "41", Name: "make a file immutable (chattr +i)", Want: []string{"EPERM", "ENOTTY", "ENOTSUP"}, Why: "EPERM for lack of CAP_LINUX_IMMUTABLE; ENOTTY or ENOTSUP where the file system has no such flag",
			Try: immutable, Control: mayRefuse(here(immutable))},
		{ID: "41b", Name: "block clean-up by modes and extended attributes", Want: []string{"ok"}, Own: true, Why: "doing it is allowed: what counts is that nothing stays. No control: outside it would stay",
			Try: litter, After: workEmpty},
	}
	for _, w := range []struct{ id, dir string }{{"22", "/usr/bin"}, {"22b", "/etc"}, {"22f", "/run"}, {"22h", "/"}, {"22i", "/dev"}} {
		rows = append(rows, Row{ID: w.id, Name: "create a file in " + w.dir, Want: []string{"EROFS", "EACCES", "ENOENT"}, Why: readOnlyOrDenied + "; ENOENT where an image has no such folder",
			Try: func(in *Inside) string { return create(w.dir, in.Secret) }, Control: mayRefuse(writable(w.dir))})
	}
	rows = append(rows, Row{ID: "22c", Name: "create a file in GOROOT", Want: []string{"EROFS", "EACCES", "ENOENT"}, Why: readOnlyOrDenied + "; ENOENT where Go is not below /usr",
		Needs: func() string {
			if goroot() == "" {
				return "there is no go command"
			}
			return ""
		},
		Try: func(in *Inside) string { return create(in.Goroot, in.Secret) }, Control: mayRefuse(func(o *Outside) string { return writable(o.Goroot)(o) })})
	for _, p := range []struct{ id, path string }{
		{"29", "/sys/kernel/mm/ksm/run"}, {"29b", "/sys/power/state"},
	} {
		rows = append(rows, Row{ID: p.id, Name: "open " + p.path + " for writing", Want: []string{"ENOENT", "EACCES", "EROFS"}, Why: absentOrDenied + "; EROFS in a container, which has a read-only /sys",
			Try: opens(p.path, unix.O_WRONLY), Control: mayRefuse(here(opens(p.path, unix.O_WRONLY)))})
	}
	for _, p := range []struct{ id, path string }{
		{"30", "/proc/sys/kernel/core_pattern"}, {"30b", "/proc/sysrq-trigger"}, {"30c", "/proc/sys/vm/overcommit_memory"},
	} {
		rows = append(rows, Row{ID: p.id, Name: "open " + p.path + " for writing", Want: []string{"EACCES", "EROFS", "ENOENT"},
			Why: "EACCES: it is root's; EROFS where an engine mounts it read-only; ENOENT where the kernel has none",
			Try: opens(p.path, unix.O_WRONLY), Control: mayRefuse(here(opens(p.path, unix.O_WRONLY)))})
	}
	for i := range rows {
		rows[i].Group = "files"
		if rows[i].Level == sandbox.LevelNone {
			rows[i].Level = restricted
		}
	}
	return rows
}

// create makes a file and removes it.
func create(dir, name string) string {
	p := filepath.Join(dir, "."+name)
	fd, err := unix.Open(p, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err == nil {
		unix.Close(fd)
		unix.Unlink(p)
	}
	return ended(err)
}

// writable asks instead of doing it: the host's own folders stay as they are.
func writable(p string) func(*Outside) string {
	return func(*Outside) string { return ended(unix.Faccessat(unix.AT_FDCWD, p, unix.W_OK, unix.AT_EACCESS)) }
}

// drop leaves a file.
func drop(dir string) func(*Inside) string {
	return func(in *Inside) string {
		return ended(os.WriteFile(filepath.Join(dir, in.Secret+"-dropped"), nil, 0o600))
	}
}

func dropHere(dir string) func(*Outside) string {
	return func(o *Outside) string {
		got := drop(dir)(&Inside{Outside: *o})
		if got != "ok" {
			return got
		}
		if arrived(dir)(o) == "ok" {
			return "was not there"
		}
		return "ok"
	}
}

// arrived looks for the file and removes it.
func arrived(dir string) func(*Outside) string {
	return func(o *Outside) string {
		if err := os.Remove(filepath.Join(dir, o.Secret+"-dropped")); !errors.Is(err, fs.ErrNotExist) {
			return "it arrived"
		}
		return "ok"
	}
}

func throughLink(in *Inside) string { return throughLinkTo(in.File, unix.O_WRONLY)(in) }

func throughLinkTo(target string, flags int) func(*Inside) string {
	return func(in *Inside) string {
		link := filepath.Join(in.Work, "link")
		os.Remove(link)
		if err := os.Symlink(target, link); err != nil {
			return "symlink: " + ended(err)
		}
		defer os.Remove(link)
		return open(link, flags)
	}
}

func fileUnchanged(o *Outside) string {
	b, err := os.ReadFile(o.File)
	if err == nil && string(b) != o.Secret {
		return "the file changed"
	}
	return ended(err)
}

func hardLink(in *Inside) string { return linkTo(in.File, filepath.Join(in.Work, "hard")) }

func linkTo(from, to string) string {
	err := unix.Link(from, to)
	if err == nil {
		unix.Unlink(to)
	}
	return ended(err)
}

func makeDevice(kind uint32, major, minor uint32) func(*Inside) string {
	return func(in *Inside) string {
		p := filepath.Join(in.Work, "device")
		err := unix.Mknod(p, kind|0o600, int(unix.Mkdev(major, minor)))
		if err == nil {
			unix.Unlink(p)
		}
		return ended(err)
	}
}

// openDisk opens the first block device of the host.
func openDisk(in *Inside) string {
	if in.Disk == "" {
		return "no disk"
	}
	return open(in.Disk, unix.O_RDONLY)
}

// strangeDevices names a device that a test suite has no use for.
func strangeDevices(in *Inside) string {
	ordinary := []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/ptmx", "/dev/tty"}
	for _, p := range in.Devices {
		if slices.Contains(ordinary, p) {
			continue
		}
		if st, err := os.Stat(p); err == nil && st.Mode()&fs.ModeDevice != 0 {
			return "has " + p
		}
	}
	return "none"
}

// found makes "ok" of an answer that something is there.
func found(got string) string {
	if strings.HasPrefix(got, "has ") {
		return "ok"
	}
	return got
}

const (
	fsIocGetFlags = 0x80086601
	fsIocSetFlags = 0x40086602
	flagImmutable = 0x10
)

func immutable(in *Inside) string {
	p := filepath.Join(in.Work, "immutable")
	f, err := os.Create(p)
	if err != nil {
		return "create: " + ended(err)
	}
	defer os.Remove(p)
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), fsIocGetFlags)
	if err != nil {
		return ended(err)
	}
	if err := unix.IoctlSetPointerInt(int(f.Fd()), fsIocSetFlags, flags|flagImmutable); err != nil {
		return ended(err)
	}
	return ended(unix.IoctlSetPointerInt(int(f.Fd()), fsIocSetFlags, flags))
}

// litter makes what a careless rm -r stumbles over.
func litter(in *Inside) string {
	for _, dir := range []string{in.Work, os.TempDir()} {
		d := filepath.Join(dir, "locked")
		if err := os.MkdirAll(filepath.Join(d, "a", "b"), 0o755); err != nil {
			return ended(err)
		}
		if err := os.WriteFile(filepath.Join(d, "a", "file"), nil, 0o400); err != nil {
			return ended(err)
		}
		unix.Setxattr(d, "user.x", []byte(strings.Repeat("x", 1024)), 0) // where the file system has them
		for _, p := range []string{filepath.Join(d, "a"), d} {
			if err := os.Chmod(p, 0); err != nil {
				return ended(err)
			}
		}
	}
	return "ok"
}

func workEmpty(o *Outside) string {
	list, err := os.ReadDir(o.Work)
	list = slices.DeleteFunc(list, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), givenPrefix) })
	if err == nil && len(list) > 0 {
		return list[0].Name() + " stays in the work folder"
	}
	return ended(err)
}

// goroot returns the folder of the go command's tree, "" if there is none.
func goroot() string {
	p, err := exec.LookPath("go")
	if err != nil {
		return ""
	}
	if p, err = filepath.EvalSymlinks(p); err != nil {
		return ""
	}
	return filepath.Dir(filepath.Dir(p))
}
