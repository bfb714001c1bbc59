//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// base is where the new root is mounted while it is built. Everything that
// is needed from the host is opened before it is covered.
const base = "/tmp"

// homeDir is a writable directory in memory that exists in every sandbox.
const homeDir = "/home/sandbox"

// A source is a part of the host that appears inside.
type source struct {
	fd     int // O_PATH; -1 for none
	dir    bool
	link   string // the source is this symbolic link
	target string
	mapped bool
}

// A tree is the file system of one sandbox while it is built.
type tree struct {
	system []source
	dev    []source
	hidden []source // /dev/null over what nobody inside may read
	etc    map[string][]byte
	mounts []source
	root   int // O_PATH of the new root
}

// newTree opens what the tree takes from the host.
func newTree(c stageConfig) (*tree, error) {
	t := &tree{etc: etcFiles(c), root: -1}
	for _, p := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"} {
		s, err := openSource(p, p, true)
		if err != nil {
			return nil, step("open "+p, err)
		}
		t.system = append(t.system, s)
	}
	for _, p := range etcBinds(c.Network) {
		s, err := openSource(p, p, false)
		if err != nil {
			return nil, step("open "+p, err)
		}
		t.system = append(t.system, s)
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		s, err := openSource("/dev/"+name, "/dev/"+name, false)
		if err == nil && s.fd < 0 {
			err = unix.ENOENT
		}
		if err != nil {
			return nil, step("open /dev/"+name, err)
		}
		t.dev = append(t.dev, s)
	}
	for _, name := range []string{"/proc/keys", "/proc/key-users"} {
		if _, err := os.Lstat(name); err != nil {
			continue // this kernel has none
		}
		s, err := openSource("/dev/null", name, false)
		if err != nil {
			return nil, step("open /dev/null", err)
		}
		t.hidden = append(t.hidden, s)
	}
	for _, m := range c.Mounts {
		s := source{fd: -1, dir: true, target: string(m.Target)}
		if m.Kind != Scratch {
			var err error
			if s, err = openSource(string(m.Source), string(m.Target), false); err != nil {
				return nil, specStep("open mount source "+string(m.Source), err)
			}
			if s.fd < 0 {
				return nil, specStep("open mount source "+string(m.Source), unix.ENOENT)
			}
			s.mapped = m.Mapped
			if m.Kind == Overlay && !s.dir {
				return nil, specStep("overlay over "+string(m.Source), unix.ENOTDIR)
			}
		}
		t.mounts = append(t.mounts, s)
	}
	return t, nil
}

// openSource opens p for a bind. A p that does not exist gives fd -1 and no
// error. With keepLink, a symbolic link is copied rather than followed, so
// that /bin -> usr/bin stays what it is.
func openSource(p, target string, keepLink bool) (source, error) {
	s := source{fd: -1, target: target}
	if keepLink {
		link, err := os.Readlink(p)
		if err == nil {
			s.link = link
			return s, nil
		}
	}
	fd, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			return s, nil
		}
		return s, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return s, err
	}
	s.fd, s.dir = fd, st.Mode&unix.S_IFMT == unix.S_IFDIR
	return s, nil
}

// build makes the new root and everything below it.
func (t *tree) build(c stageConfig) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return step("make mounts private", err)
	}
	if err := unix.Mount("tmpfs", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=16m,nr_inodes=16k"); err != nil {
		return step("mount tmpfs", err)
	}
	root, err := unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return step("open new root", err)
	}
	t.root = root
	for _, build := range []func(stageConfig) error{t.buildSystem, t.buildDev, t.buildProc, t.buildStore, t.buildMounts} {
		if err := build(c); err != nil {
			return err
		}
	}
	if err := t.unstage(c); err != nil {
		return err
	}
	ro := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	for _, p := range []string{base + "/dev", base} {
		if p == base && c.lacks(layerReadOnly) {
			continue
		}
		if err := unix.MountSetattr(unix.AT_FDCWD, p, 0, &ro); err != nil {
			return step("make "+strings.TrimPrefix(p, base)+"/ read-only", err)
		}
	}
	return nil
}

func (t *tree) buildSystem(stageConfig) error {
	for name, content := range t.etc {
		p := path.Join(base, "etc", name)
		if err := os.MkdirAll(path.Dir(p), 0o755); err != nil {
			return step("make /etc", err)
		}
		if err := os.WriteFile(p, content, 0o644); err != nil {
			return step("write /etc/"+name, err)
		}
	}
	for _, s := range t.system {
		switch {
		case s.link != "":
			if err := os.Symlink(s.link, base+s.target); err != nil {
				return step("link "+s.target, err)
			}
		case s.fd >= 0:
			if err := t.bind(s, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV); err != nil {
				return step("bind "+s.target, err)
			}
		}
	}
	return step("make /run", os.MkdirAll(base+"/run", 0o755))
}

func (t *tree) buildDev(stageConfig) error {
	dev := base + "/dev"
	if err := os.Mkdir(dev, 0o755); err != nil {
		return step("make /dev", err)
	}
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0755,size=64k,nr_inodes=64"); err != nil {
		return step("mount /dev", err)
	}
	for _, s := range t.dev {
		if err := t.bind(s, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return step("bind "+s.target, err)
		}
	}
	for name, link := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
		"ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(link, dev+"/"+name); err != nil {
			return step("link /dev/"+name, err)
		}
	}
	if err := os.Mkdir(dev+"/pts", 0o755); err != nil {
		return step("make /dev/pts", err)
	}
	if err := unix.Mount("devpts", dev+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return step("mount /dev/pts", err)
	}
	return step("make /dev/shm", os.Mkdir(dev+"/shm", 0o755))
}

func (t *tree) buildProc(stageConfig) error {
	if err := os.Mkdir(base+"/proc", 0o555); err != nil {
		return step("make /proc", err)
	}
	if err := unix.Mount("proc", base+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return step("mount /proc", err)
	}
	// Keys are the uid's, and in mode userns that is the caller's own.
	for _, s := range t.hidden {
		if err := t.bind(s, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return step("cover "+s.target, err)
		}
	}
	return nil
}

func (t *tree) buildMounts(c stageConfig) error {
	for i, m := range c.Mounts {
		s := t.mounts[i]
		var err error
		switch m.Kind {
		case ReadOnly:
			err = t.bind(s, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
		case Writable:
			err = t.bind(s, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
		case Scratch:
			err = t.scratch(store+"/scratch"+strconv.Itoa(i), s.target, 0o755, c)
		case Overlay:
			err = t.overlay(i, s, c)
		}
		if err != nil {
			return step("mount at "+s.target, err)
		}
	}
	return nil
}

// bind clones s with everything mounted below it and attaches it at its
// target with the attributes set on all of it.
func (t *tree) bind(s source, attrs uint64) error {
	fd, err := unix.OpenTree(s.fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	defer unix.Close(fd)
	attr := unix.MountAttr{Attr_set: attrs}
	if s.mapped {
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = fdMapping
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	at, err := t.place(s.target, s.dir)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := unix.MoveMount(fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

// place opens target inside the new root and makes what is missing of it. A
// symbolic link on the way is refused: the trees mounted before may be
// hostile, and a link there could put this mount over something else.
func (t *tree) place(target string, dir bool) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(t.root, target, &how)
	if err == nil {
		return fd, nil
	}
	if !errors.Is(err, unix.ENOENT) {
		return -1, specStep("open mount point "+target, err)
	}
	parent := t.root
	if up := path.Dir(target); up != "/" {
		if parent, err = t.place(up, true); err != nil {
			return -1, err
		}
		defer unix.Close(parent)
	}
	name := path.Base(target)
	if dir {
		err = unix.Mkdirat(parent, name, 0o755)
	} else {
		err = unix.Mknodat(parent, name, unix.S_IFREG|0o644, 0)
	}
	if err != nil {
		return -1, specStep("make mount point "+target, err)
	}
	if fd, err = unix.Openat2(t.root, target, &how); err != nil {
		return -1, specStep("open mount point "+target, err)
	}
	return fd, nil
}

// enter makes the tree the root and loses sight of the host's. An initramfs
// root cannot be pivoted away, and the filters of container engines know no
// pivot_root: there it is covered instead, and the difference is reported.
func (t *tree) enter() (how string, err error) {
	if err := unix.Chdir(base); err != nil {
		return "", step("enter new root", err)
	}
	how = "pivot_root"
	if err = unix.PivotRoot(".", "."); err == nil {
		err = step("unmount old root", unix.Unmount(".", unix.MNT_DETACH))
	} else if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		how = "chroot"
		if err = unix.Mount(".", "/", "", unix.MS_MOVE, ""); err == nil {
			err = unix.Chroot(".")
		}
	}
	if err != nil {
		return "", step("switch root", err)
	}
	return how, step("enter new root", unix.Chdir("/"))
}

func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
