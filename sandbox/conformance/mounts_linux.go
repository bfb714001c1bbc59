//go:build amd64 || arm64

package conformance

import (
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// mountRows try to change the tree that the command sees.
func mountRows() []Row {
	const here = ^uintptr(99) // AT_FDCWD
	rows := []Row{
		{ID: "26", Name: "move the work folder away", Own: true, Level: sandbox.LevelNamespaces, Want: []string{"EBUSY", "EACCES"}, Why: "EBUSY: it is a mount point; EACCES where the folder above it is not the command's, which is asked first. A mount point exists only inside, and in mode container there are none",
			Try: func(in *Inside) string {
				return ended(os.Rename(in.Work, filepath.Join(os.TempDir(), in.Secret+"-moved")))
			}},
		{ID: "26b", Name: "put a file in the place of a mounted one", Own: true, Level: sandbox.LevelNamespaces, Want: []string{"EXDEV"}, Why: "a mount point exists only inside",
			Try: replaceProgram},
		{ID: "26c", Name: "remove a mounted file", Own: true, Level: sandbox.LevelNamespaces, Want: []string{"EROFS"}, Why: "a mount point exists only inside",
			Try: func(in *Inside) string { return ended(unix.Unlink(in.Program)) }},
		{ID: "31", Name: "mount", Try: func(*Inside) string { return ended(unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "")) }},
		{ID: "32", Name: "unmount /proc", Try: unmount},
		{ID: "33", Name: "clone a mount (open_tree)", Try: func(*Inside) string {
			return closing(rawFD(unix.SYS_OPEN_TREE, here, uintptr(unsafe.Pointer(cstr("/"))), unix.OPEN_TREE_CLONE|unix.AT_RECURSIVE))
		}},
		{ID: "33b", Name: "open a file system (fsopen)", Try: func(*Inside) string {
			return closing(rawFD(unix.SYS_FSOPEN, uintptr(unsafe.Pointer(cstr("tmpfs"))), 0))
		}},
		{ID: "33c", Name: "move a mount (move_mount)", Try: func(*Inside) string {
			return past(raw(unix.SYS_MOVE_MOUNT, ^uintptr(0), uintptr(unsafe.Pointer(cstr(""))), here, uintptr(unsafe.Pointer(cstr("/"))), unix.MOVE_MOUNT_F_EMPTY_PATH), unix.EBADF)
		}},
		{ID: "33d", Name: "pick a file system (fspick)", Try: func(*Inside) string {
			return closing(rawFD(unix.SYS_FSPICK, here, uintptr(unsafe.Pointer(cstr("/"))), 0))
		}},
		{ID: "33e", Name: "pivot_root", Try: func(*Inside) string { return past(unix.PivotRoot("/", "/"), unix.EBUSY, unix.EINVAL) }},
		{ID: "34", Name: "mount /usr writable again", Try: remount},
		{ID: "34b", Name: "make /usr writable (mount_setattr)", Try: setAttr},
		{ID: "35", Name: "chroot", Try: func(*Inside) string { return ended(unix.Chroot("/")) }},
	}
	for i := range rows {
		r := &rows[i]
		r.Group = "files"
		if r.Want == nil {
			r.Level, r.Want, r.Control = sandbox.LevelRestricted, []string{"EPERM"}, mayRefuse(asRoot(r.ID))
		}
	}
	return append(rows,
		Row{ID: "35b", Group: "files", Name: "walk through /proc/PPID/root", Level: sandbox.LevelRestricted, Want: []string{"EACCES"},
			Try:     onParent(func(dir string, _ int) string { return open(dir+"/root/", unix.O_RDONLY) }),
			Control: onVictim(func(dir string, _ int) string { return open(dir+"/root/", unix.O_RDONLY) })},
	)
}

func replaceProgram(in *Inside) string {
	p := filepath.Join(os.TempDir(), in.Secret+"-program")
	if err := os.WriteFile(p, []byte("#!/bin/sh\n"), 0o755); err != nil {
		return "write: " + ended(err)
	}
	defer os.Remove(p)
	return ended(os.Rename(p, in.Program))
}

// unmount needs a /proc of its own to show what it can do outside.
func unmount(*Inside) string {
	unix.Mount("proc", "/proc", "proc", 0, "")
	return ended(unix.Unmount("/proc", unix.MNT_DETACH))
}

// remount needs a mount point at /usr to show what it can do outside.
func remount(*Inside) string {
	unix.Mount("/usr", "/usr", "", unix.MS_BIND, "")
	return ended(unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, ""))
}

func setAttr(*Inside) string {
	unix.Mount("/usr", "/usr", "", unix.MS_BIND, "")
	return ended(unix.MountSetattr(unix.AT_FDCWD, "/usr", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}))
}
