//go:build amd64 || arm64

package sandbox

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Trees travel to and from a container as tar archives of regular files,
// directories and symbolic links, with modes and times. A source that is one
// file is an archive of one entry named ".".

// writeTree archives a file or a directory.
func writeTree(w io.Writer, source string) error {
	tw := tar.NewWriter(w)
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		f, err := os.Open(source)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := writeEntry(tw, ".", "", info, f); err != nil {
			return err
		}
		return tw.Close()
	}
	root, err := os.OpenRoot(source)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := writeDir(tw, root, "."); err != nil {
		return err
	}
	return tw.Close()
}

func writeDir(tw *tar.Writer, root *os.Root, dir string) error {
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	info, err := d.Stat()
	if err == nil {
		err = writeEntry(tw, dir, "", info, nil)
	}
	var entries []os.DirEntry
	if err == nil {
		entries, err = d.ReadDir(-1)
	}
	d.Close()
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			err = writeDir(tw, root, name)
		case e.Type() == os.ModeSymlink:
			var link string
			var info os.FileInfo
			if link, err = root.Readlink(name); err == nil {
				if info, err = root.Lstat(name); err == nil {
					err = writeEntry(tw, name, link, info, nil)
				}
			}
		case e.Type().IsRegular():
			var f *os.File
			if f, err = root.Open(name); err == nil {
				var info os.FileInfo
				if info, err = f.Stat(); err == nil {
					err = writeEntry(tw, name, "", info, f)
				}
				f.Close()
			}
		default:
			err = fmt.Errorf("%s: is no file, directory or symbolic link", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func writeEntry(tw *tar.Writer, name, link string, info os.FileInfo, content io.Reader) error {
	h := &tar.Header{Name: name, Linkname: link, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatPAX}
	switch {
	case link != "":
		h.Typeflag = tar.TypeSymlink
	case info.IsDir():
		h.Typeflag = tar.TypeDir
	default:
		h.Typeflag, h.Size = tar.TypeReg, info.Size()
	}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	if content == nil {
		return nil
	}
	_, err := io.CopyN(tw, content, h.Size)
	return err
}

// readTree unpacks an archive at target: a directory, which is made if it is not
// there, or a file, which must not be. Nothing gets outside of it, whatever the
// names and links say; more than bytes or files is an error.
func readTree(r io.Reader, target string, bytes, files int64, id ids) error {
	tr := tar.NewReader(r)
	top, err := tr.Next()
	if err != nil {
		return fmt.Errorf("an archive without a beginning: %w", err)
	}
	if filepath.Clean(top.Name) != "." {
		return fmt.Errorf("an archive that begins with %q", top.Name)
	}
	if top.Typeflag == tar.TypeReg {
		return readOne(tr, top, target, bytes)
	}
	if top.Typeflag != tar.TypeDir {
		return fmt.Errorf("an archive that begins with an entry of type %q", top.Typeflag)
	}
	if err := os.Mkdir(target, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	root, err := os.OpenRoot(target)
	if err != nil {
		return err
	}
	defer root.Close()
	dirs := []*tar.Header{top}
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if files--; files < 0 {
			return errors.New("an archive with too many entries")
		}
		if bytes -= h.Size; bytes < 0 || h.Size < 0 {
			return errors.New("an archive that is too large")
		}
		name := filepath.Clean(h.Name)
		if filepath.IsAbs(name) || name == "." || name == ".." || strings.HasPrefix(name, "../") || strings.IndexByte(name, 0) >= 0 {
			return fmt.Errorf("an archive with the name %q", h.Name)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			if err := root.Mkdir(name, 0o700); err != nil {
				return err
			}
			dirs = append(dirs, h)
			continue
		case tar.TypeSymlink:
			err = root.Symlink(h.Linkname, name)
		case tar.TypeReg:
			err = readFile(tr, root, name, h)
		default:
			err = fmt.Errorf("an archive with an entry of type %q", h.Typeflag)
		}
		if err == nil && id.change {
			err = root.Lchown(name, id.uid, id.gid)
		}
		if err != nil {
			return err
		}
	}
	for i := len(dirs) - 1; i >= 0; i-- { // children first: theirs are the last writes
		h := dirs[i]
		name := filepath.Clean(h.Name)
		if id.change {
			if err := root.Lchown(name, id.uid, id.gid); err != nil {
				return err
			}
		}
		if err := root.Chmod(name, os.FileMode(h.Mode).Perm()); err != nil && !errors.Is(err, os.ErrPermission) {
			return err // the top belongs to the engine's mount, perhaps
		}
		if err := root.Chtimes(name, h.ModTime, h.ModTime); err != nil && !errors.Is(err, os.ErrPermission) {
			return err
		}
	}
	return nil
}

// readOne unpacks the archive of one file.
func readOne(tr *tar.Reader, h *tar.Header, target string, bytes int64) error {
	if h.Size < 0 || h.Size > bytes {
		return errors.New("an archive that is too large")
	}
	root, err := os.OpenRoot(filepath.Dir(target))
	if err != nil {
		return err
	}
	defer root.Close()
	if err := readFile(tr, root, filepath.Base(target), h); err != nil {
		return err
	}
	if _, err := tr.Next(); err != io.EOF {
		return errors.New("an archive of one file with more in it")
	}
	return nil
}

func readFile(r io.Reader, root *os.Root, p string, h *tar.Header) error {
	f, err := root.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, r, h.Size)
	if err == nil {
		err = f.Chmod(os.FileMode(h.Mode).Perm())
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = root.Chtimes(p, h.ModTime, h.ModTime)
	}
	return err
}

// emptyDir removes what is in a directory.
func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// carry sends the content of the mounts, as archives.
func carry(out *eventWriter, mounts []Mount) error {
	for _, m := range mounts {
		if m.Kind == Scratch {
			continue
		}
		if err := sendTree(out, m.Source); err != nil {
			return specStep("send "+m.Source, err)
		}
	}
	return nil
}

// sendTree sends one file or directory as the events of an archive.
func sendTree(out *eventWriter, source string) error {
	w := &partWriter{out}
	if err := writeTree(w, source); err != nil {
		return err
	}
	return out.event(eventTree, nil)
}

// A partWriter cuts a stream into events.
type partWriter struct{ out *eventWriter }

func (w *partWriter) Write(p []byte) (int, error) {
	for n := 0; n < len(p); n += maxEvent {
		if err := w.out.event(eventPart, p[n:min(len(p), n+maxEvent)]); err != nil {
			return n, err
		}
	}
	return len(p), nil
}

// A partReader joins the events of one archive again.
type partReader struct {
	next func() (kind byte, payload []byte, err error)
	rest []byte
	done bool
}

func (r *partReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.done {
			return 0, io.EOF
		}
		kind, payload, err := r.next()
		switch {
		case err != nil:
			return 0, err
		case kind == eventTree:
			r.done = true
		case kind == eventPart:
			r.rest = payload
		default:
			return 0, fmt.Errorf("unexpected event %q in an archive", kind)
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
