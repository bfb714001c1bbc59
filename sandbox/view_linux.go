//go:build amd64 || arm64

package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// boxPrefix begins the name of the directories that hold moved paths.
const boxPrefix = "truegreen-box-"

// A view stands in for mounts where there are none: it says where that which
// the Spec puts at a path really is.
type view struct {
	box   string // private directory, removed when every process is dead
	moved []move // longest target first
	back  []move // copies whose content goes back where it came from
	read  []string
	write []string
}

type move struct{ from, to string }

// newView makes the box and what belongs in it, owned by uid and gid if chown
// is set.
func newView(mounts []Mount, uid, gid int, chown bool) (v *view, err error) {
	v = &view{}
	defer func() {
		if err != nil {
			v.remove()
		}
	}()
	if v.box, err = makeBox(chown); err != nil {
		return v, &refusal{Step: "make a directory for the command", Errno: errnoText(err)}
	}
	id := ids{uid: uid, gid: gid, change: chown}
	for _, m := range []Mount{
		{Target: "/tmp", Kind: Scratch}, {Target: "/var/tmp", Kind: Scratch}, {Target: homeDir, Kind: Scratch},
	} {
		if err := v.add(m, id); err != nil {
			return v, err
		}
	}
	for _, m := range mounts {
		if err := v.add(m, id); err != nil {
			return v, err
		}
	}
	return v, v.linkBox()
}

// linkBox has links in the box to what did not have to be brought there, so that
// a relative path leads from one stand-in to the next as it does from mount to
// mount. What the command may do there, rules say that go by the real paths.
func (v *view) linkBox() error {
	for _, m := range v.moved {
		around, at := v.place(m.from)
		if around != v.box || at == m.to {
			continue
		}
		at, err := v.prepare(m.from, false)
		if err == nil {
			err = os.Symlink(m.to, at)
		}
		if err != nil && !errors.Is(err, os.ErrExist) { // a later mount can cover an earlier one
			return specStep("make mount point "+m.from, err)
		}
	}
	return nil
}

// placedView is the view of a container, where everything is in its place.
func placedView(mounts []Mount) *view {
	v := &view{read: []string{"/"}, write: []string{"/tmp", "/var/tmp", homeDir, "/dev/shm"}}
	for _, m := range mounts {
		if m.Kind != ReadOnly {
			v.write = append(v.write, m.Target)
		}
	}
	return v
}

// add makes one mount's stand-in.
func (v *view) add(m Mount, id ids) error {
	var to string
	switch m.Kind {
	case Scratch:
		var err error
		if to, err = v.prepare(m.Target, true); err != nil {
			return specStep("make "+m.Target, err)
		}
		if err := id.give(to); err != nil {
			return step("make "+m.Target, err)
		}
	case Overlay:
		var err error
		if to, err = v.prepare(m.Target, true); err != nil {
			return specStep("make "+m.Target, err)
		}
		if err := copyTree(m.Source, to, id); err != nil {
			return specStep("copy for "+m.Target, err)
		}
	default:
		// The rule that allows it goes by the real directory.
		real, err := filepath.EvalSymlinks(m.Source)
		if err != nil {
			return specStep("open mount source "+m.Source, err)
		}
		to = real
		if id.change && (m.Kind == Writable || !reachable(real)) {
			if to, err = v.bring(m, real, id); err != nil {
				return specStep("copy for "+m.Target, err)
			}
		}
		if i := slices.IndexFunc(v.moved, func(old move) bool { return below(m.Target, old.from) }); i >= 0 && v.moved[i].from != m.Target {
			// Something of the host cannot appear inside a copy: a link can.
			if err := v.link(m.Target, to); err != nil {
				return specStep("make mount point "+m.Target, err)
			}
		}
	}
	if m.Kind == ReadOnly {
		v.read = append(v.read, to)
	} else {
		v.write = append(v.write, to)
	}
	v.moved = slices.DeleteFunc(v.moved, func(old move) bool { return old.from == m.Target })
	v.moved = append(v.moved, move{m.Target, to})
	slices.SortStableFunc(v.moved, func(a, b move) int { return cmp.Compare(len(b.from), len(a.from)) })
	return nil
}

func (v *view) link(target, to string) error {
	if _, at := v.place(target); at == to {
		return nil
	}
	at, err := v.prepare(target, false)
	if err != nil {
		return err
	}
	return os.Symlink(to, at)
}

// bring copies what the command's uid could not get at, or not change.
func (v *view) bring(m Mount, real string, id ids) (string, error) {
	info, err := os.Stat(real)
	if err != nil {
		return "", err
	}
	to, err := v.prepare(m.Target, info.IsDir())
	if err != nil {
		return "", err
	}
	if m.Kind == Writable {
		v.back = append(v.back, move{to, real})
		return to, copyTree(real, to, id)
	}
	if info.IsDir() {
		return to, copyTree(real, to, ids{link: real})
	}
	src, err := os.OpenRoot(filepath.Dir(real))
	if err != nil {
		return "", err
	}
	defer src.Close()
	dst, err := os.OpenRoot(filepath.Dir(to))
	if err != nil {
		return "", err
	}
	defer dst.Close()
	return to, copyFile(src, dst, filepath.Base(real), filepath.Base(to), ids{})
}

// giveBack writes what became of brought directories to where they came from.
func (v *view) giveBack() error {
	if v == nil {
		return nil
	}
	for _, m := range v.back {
		var st unix.Stat_t
		if err := unix.Stat(m.to, &st); err != nil {
			return err
		}
		if err := emptyDir(m.to); err != nil {
			return err
		}
		if err := copyTree(m.from, m.to, ids{uid: int(st.Uid), gid: int(st.Gid), change: true}); err != nil {
			return err
		}
	}
	v.back = nil
	return nil
}

// reachable reports whether everybody can get to p, and read it if it is a
// directory.
func reachable(p string) bool {
	var st unix.Stat_t
	if unix.Stat(p, &st) != nil || st.Mode&0o004 == 0 {
		return false
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		p = filepath.Dir(p)
	}
	return enterable(p) == nil
}

// place returns where a target's stand-in is made: inside that of the target
// around it, if there is one, else in the box.
func (v *view) place(target string) (around, at string) {
	for _, m := range v.moved {
		if m.from != target && below(target, m.from) {
			return m.to, m.to + strings.TrimPrefix(target, m.from)
		}
	}
	return v.box, v.box + target
}

// prepare makes the directories on the way to a stand-in and, with dir, it
// itself. A symbolic link on the way is refused: the copies made before may be
// of hostile trees, and a link there leads anywhere.
func (v *view) prepare(target string, dir bool) (string, error) {
	around, at := v.place(target)
	root, err := os.OpenRoot(around)
	if err != nil {
		return "", err
	}
	defer root.Close()
	way := "."
	names := strings.Split(strings.Trim(strings.TrimPrefix(at, around), "/"), "/")
	for i, name := range names {
		way = filepath.Join(way, name)
		info, err := root.Lstat(way)
		last := i == len(names)-1
		switch {
		case errors.Is(err, os.ErrNotExist):
			if last && !dir {
				return at, nil
			}
			err = root.Mkdir(way, 0o755)
		case err == nil && last && !dir:
			err = unix.EEXIST
		case err == nil && info.Mode()&os.ModeSymlink != 0:
			err = unix.ELOOP
		case err == nil && !info.IsDir():
			err = unix.ENOTDIR
		}
		if err != nil {
			return "", err
		}
	}
	return at, nil
}

func below(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

// rewrite replaces every path in s that lies at or below a moved target: one
// that stands at the start, or after one of space : = , ; " ' or file://, and
// ends at one of these, at a slash or at the end.
func (v *view) rewrite(s string) string {
	const around = " :=,;\"'\n\t"
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] == '/' && (i == 0 || strings.IndexByte(around, s[i-1]) >= 0 || strings.HasSuffix(s[:i], "file://")) {
			if m := v.match(s[i:], around); m != nil {
				b.WriteString(m.to)
				i += len(m.from)
				continue
			}
		}
		b.WriteByte(s[i])
		i++
	}
	return b.String()
}

func (v *view) match(s, around string) *move {
	for i := range v.moved {
		m := &v.moved[i]
		if rest, ok := strings.CutPrefix(s, m.from); ok && (rest == "" || rest[0] == '/' || strings.IndexByte(around, rest[0]) >= 0) {
			return m
		}
	}
	return nil
}

// apply moves the paths of a configuration.
func (v *view) apply(c *stageConfig) {
	list := func(l [][]byte) {
		for i := range l {
			l[i] = []byte(v.rewrite(string(l[i])))
		}
	}
	list(c.Argv)
	list(c.Collect)
	for i, kv := range c.Env {
		name, value, _ := strings.Cut(string(kv), "=")
		c.Env[i] = []byte(name + "=" + v.rewrite(value))
	}
	c.Dir = []byte(v.rewrite(string(c.Dir)))
	c.Tmp = v.rewrite("/tmp")
	c.Read, c.Write = toBytes(v.read), toBytes(v.write)
}

func (v *view) remove() {
	if v != nil && v.box != "" {
		removeTree(v.box)
		v.box = ""
	}
}

// makeBox makes the box in the first directory where programs may be
// executed and, if they run as somebody else, that everybody can enter.
func makeBox(others bool) (string, error) {
	err := error(unix.ENOENT)
	for _, parent := range []string{os.TempDir(), "/tmp", "/var/tmp", "/dev/shm", "/run"} {
		if parent, err = filepath.EvalSymlinks(parent); err != nil {
			continue
		}
		if err = usable(parent, others); err != nil {
			continue
		}
		sweep(parent, boxPrefix)
		var dir string
		if dir, err = os.MkdirTemp(parent, fmt.Sprintf("%s%d-", boxPrefix, os.Getpid())); err == nil {
			return dir, os.Chmod(dir, 0o711)
		}
	}
	return "", err
}

func usable(dir string, others bool) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return err
	}
	if fs.Flags&(unix.ST_NOEXEC|unix.ST_RDONLY) != 0 {
		return fmt.Errorf("%s is mounted noexec or read-only", dir)
	}
	if fs.Bavail == 0 {
		return fmt.Errorf("%s: %w", dir, unix.ENOSPC)
	}
	if others {
		return enterable(dir)
	}
	return nil
}

// enterable reports the first directory on the way to dir that not everybody
// can enter.
func enterable(dir string) error {
	for p := dir; ; p = filepath.Dir(p) {
		var st unix.Stat_t
		if err := unix.Stat(p, &st); err != nil {
			return err
		}
		if st.Mode&0o001 == 0 {
			return fmt.Errorf("%s: %w for other users", p, unix.EACCES)
		}
		if p == "/" {
			return nil
		}
	}
}

// ids is whose the copies are. What is the caller's own and only to be read
// can be a link to it.
type ids struct {
	uid, gid int
	change   bool
	link     string // the source's path
}

func (id ids) give(p string) error {
	if !id.change {
		return nil
	}
	return os.Lchown(p, id.uid, id.gid)
}

// copyTree copies files, directories and symbolic links with their modes and
// times. Both sides are reached through an [os.Root]: no link of the tree
// leads out of it.
func copyTree(from, to string, id ids) error {
	src, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	dst, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	return copyDir(src, dst, ".", id)
}

func copyDir(src, dst *os.Root, dir string, id ids) error {
	d, err := src.Open(dir)
	if err != nil {
		return err
	}
	entries, err := d.ReadDir(-1)
	d.Close()
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			if err := dst.Mkdir(name, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
				return err
			}
			err = copyDir(src, dst, name, id)
		case e.Type() == os.ModeSymlink:
			var link string
			if link, err = src.Readlink(name); err == nil {
				err = dst.Symlink(link, name)
			}
			if err == nil && id.change {
				err = dst.Lchown(name, id.uid, id.gid)
			}
		case e.Type().IsRegular():
			if id.link != "" && os.Link(filepath.Join(id.link, name), filepath.Join(dst.Name(), name)) == nil {
				continue
			}
			err = copyFile(src, dst, name, name, id)
		default:
			err = fmt.Errorf("%s: is no file, directory or symbolic link", name)
		}
		if err != nil {
			return err
		}
	}
	info, err := src.Stat(dir)
	if err != nil {
		return err
	}
	if id.change {
		if err := dst.Lchown(dir, id.uid, id.gid); err != nil {
			return err
		}
	}
	if err := dst.Chmod(dir, info.Mode().Perm()); err != nil {
		return err
	}
	return dst.Chtimes(dir, info.ModTime(), info.ModTime())
}

func copyFile(src, dst *os.Root, from, to string, id ids) error {
	in, err := src.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := dst.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := out.ReadFrom(in); err != nil {
		return err
	}
	if id.change {
		if err := out.Chown(id.uid, id.gid); err != nil {
			return err
		}
	}
	if err := out.Chmod(info.Mode().Perm()); err != nil {
		return err
	}
	return dst.Chtimes(to, info.ModTime(), info.ModTime())
}
