//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// store is the one tmpfs behind every writable place, so that its size
// bounds them together. It is bound piece by piece, then taken away.
const store = base + "/.store"

func (t *tree) buildStore(c stageConfig) error {
	if err := os.Mkdir(store, 0o700); err != nil {
		return step("make store", err)
	}
	opts := fmt.Sprintf("mode=0755,size=%d,nr_inodes=%d", c.Disk, c.Inodes)
	if err := unix.Mount("tmpfs", store, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, opts); err != nil {
		return step("mount store", err)
	}
	for _, d := range []struct {
		target string
		mode   uint32
	}{
		{"/tmp", 0o1777}, {"/var/tmp", 0o1777}, {"/dev/shm", 0o1777}, {homeDir, 0o755},
	} {
		name := store + "/" + strings.ReplaceAll(d.target[1:], "/", "-")
		if err := t.scratch(name, d.target, d.mode, c); err != nil {
			return step("bind "+d.target, err)
		}
	}
	return nil
}

// scratch makes a directory in the store and binds it at target.
func (t *tree) scratch(name, target string, mode uint32, c stageConfig) error {
	if err := t.storeDir(name, mode, c); err != nil {
		return err
	}
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return t.bind(source{fd: fd, dir: true, target: target}, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

func (t *tree) storeDir(name string, mode uint32, c stageConfig) error {
	if err := unix.Mkdir(name, mode); err != nil {
		return err
	}
	if err := unix.Chown(name, c.UID, c.GID); err != nil {
		return err
	}
	return unix.Chmod(name, mode)
}

// overlay puts a layer of the store over s. The lower directory gets a short
// name of its own first: overlay options cannot hold every path.
func (t *tree) overlay(i int, s source, c stageConfig) error {
	n := strconv.Itoa(i)
	lower := source{fd: s.fd, dir: true, target: "/.lower" + n, mapped: s.mapped}
	if err := t.bind(lower, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(s.fd, &st); err != nil {
		return err
	}
	upper, work := store+"/upper"+n, store+"/work"+n
	if err := t.storeDir(upper, st.Mode&0o7777, c); err != nil {
		return err
	}
	if err := t.storeDir(work, 0o700, c); err != nil {
		return err
	}
	opts := "lowerdir=" + base + lower.target + ",upperdir=" + upper + ",workdir=" + work
	fd, err := t.place(s.target, true)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// Without redirect_dir, renaming a directory of the lower layer is EXDEV;
	// user namespaces may not use it.
	err = unix.ENOTSUP
	for _, extra := range overlayOptions(c.Mode) {
		if err = unix.Mount("overlay", fdPath(fd), "overlay", unix.MS_NOSUID|unix.MS_NODEV, opts+extra); err == nil {
			return nil
		}
	}
	return step("mount overlay at "+s.target, err)
}

func overlayOptions(m Mode) []string {
	if m == ModeUserNS {
		return []string{",userxattr", ""}
	}
	return []string{",redirect_dir=on", ""}
}

// unstage removes what only the building needed.
func (t *tree) unstage(c stageConfig) error {
	for i, m := range c.Mounts {
		if m.Kind != Overlay {
			continue
		}
		lower := base + "/.lower" + strconv.Itoa(i)
		if err := unix.Unmount(lower, unix.MNT_DETACH); err != nil {
			return step("unmount lower", err)
		}
		if err := unix.Rmdir(lower); err != nil {
			return step("remove lower", err)
		}
	}
	if err := unix.Unmount(store, unix.MNT_DETACH); err != nil {
		return step("unmount store", err)
	}
	return step("remove store", unix.Rmdir(store))
}
