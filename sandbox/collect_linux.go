//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// sendFiles sends the files that the Spec names. It runs inside, with no more
// rights than the command had, when nothing else is alive there.
func sendFiles(c stageConfig, report *os.File) error {
	buf := make([]byte, maxEvent)
	left := c.FileBytes
	for i, p := range c.Collect {
		f, size, err := openRegular(string(p))
		if err == nil && size > left {
			f.Close()
			err = errors.New("over the limit for collected bytes")
		}
		head := fileReport{Index: i, Size: size}
		if err != nil {
			head = fileReport{Index: i, Err: errnoText(err)}
		}
		if err := writeJSON(report, eventFile, head); err != nil {
			return err
		}
		if err != nil {
			continue
		}
		left -= size
		err = sendFile(report, f, size, buf)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// sendFile sends size bytes, padding what a file that shrank no longer has
// with an empty event: the supervisor takes that for a broken file.
func sendFile(report *os.File, f *os.File, size int64, buf []byte) error {
	for size > 0 {
		n, err := f.Read(buf[:min(size, int64(len(buf)))])
		if n > 0 {
			if err := writeEvent(report, eventData, buf[:n]); err != nil {
				return err
			}
			size -= int64(n)
		}
		if err != nil || n == 0 {
			if size > 0 {
				return writeEvent(report, eventData, nil)
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return writeEvent(report, eventData, nil)
			}
			return nil
		}
	}
	return nil
}

// openRegular opens the file that p names without following any symbolic
// link. It looks before it opens: opening a pipe or a device can block or
// act.
func openRegular(p string) (*os.File, int64, error) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, p, &how)
	if err != nil {
		return nil, 0, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, 0, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil, 0, unix.ELOOP
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, 0, errors.New("not a regular file")
	}
	rfd, err := unix.Open(fdPath(fd), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, 0, err
	}
	return os.NewFile(uintptr(rfd), p), st.Size, nil
}

// collect receives the files. It trusts neither sizes nor order, and ends a
// stage that sends anything else: it would wait for a reader for ever.
func (a *attempt) collect(buf []byte) {
	if !a.receive(buf) {
		a.stage.kill()
	}
}

func (a *attempt) receive(buf []byte) (ok bool) {
	left := a.spec.Limits.FileBytes
	for i, p := range a.spec.Collect {
		kind, payload, err := readEvent(a.stage.report, buf)
		var head fileReport
		if err != nil || kind != eventFile || json.Unmarshal(payload, &head) != nil || head.Index != i {
			return false
		}
		f := File{Path: p, Err: head.Err}
		if f.Err == "" {
			if head.Size < 0 || head.Size > left {
				return false
			}
			left -= head.Size
			r := &fileReader{events: a.stage.report, buf: buf, left: head.Size}
			if err := a.spec.Sink(p, head.Size, r); err != nil {
				f.Err = err.Error()
			}
			if _, err := io.Copy(io.Discard, r); err != nil {
				return false
			}
			if f.Err == "" {
				f.Size = head.Size
			}
		}
		a.result.Files = append(a.result.Files, f)
	}
	return true
}

// A fileReader joins the data events of one file.
type fileReader struct {
	events io.Reader
	buf    []byte
	chunk  []byte
	left   int64 // bytes of later events
	err    error
}

func (r *fileReader) Read(p []byte) (int, error) {
	for len(r.chunk) == 0 {
		switch {
		case r.err != nil:
			return 0, r.err
		case r.left == 0:
			return 0, io.EOF
		}
		kind, payload, err := readEvent(r.events, r.buf)
		if err != nil || kind != eventData || len(payload) == 0 || int64(len(payload)) > r.left {
			r.err = io.ErrUnexpectedEOF
			continue
		}
		r.chunk, r.left = payload, r.left-int64(len(payload))
	}
	n := copy(p, r.chunk)
	r.chunk = r.chunk[n:]
	return n, nil
}
