//go:build amd64 || arm64

package conformance

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// reports is where the command of these rows leaves what is collected, as the
// Spec has it; reportDir is where that is inside.
const reports = "/tmp/reports"

func reportDir() string { return filepath.Join(os.TempDir(), "reports") }

// collectRows attack whoever reads the files that a command leaves behind, and
// whoever clears them away.
func collectRows() []Row {
	var swapped, named swap
	rows := []Row{
		{ID: "24", Name: "swap a folder for a symbolic link while the report is read", Try: swapFolders,
			Spec: swapped.collect(reports + "/d/passwd"), Check: swapped.check},
		{ID: "39", Name: "leave a fifo, a socket, a folder, a link, a device or 10 GiB of nothing as the report", Try: leaveSpecial,
			Spec: collectSpecial, Check: allRefused},
		{ID: "40", Name: "leave reports with newlines, invalid UTF-8 and nearly 4096 bytes in their paths", Try: leaveNames,
			Spec: named.collect(oddNames(reports)...), Check: allCollected},
		{ID: "42", Name: "make files until there are no inodes", Try: fillInodes, Limits: sandbox.Limits{Inodes: 20000}, Want: []string{"ENOSPC"}},
		{ID: "43", Name: "fill the disk", Try: fillDisk, Limits: sandbox.Limits{Disk: 32 << 20}, Want: []string{"ENOSPC"}},
		{ID: "44", Name: "leave a folder 100,000 deep", Try: digDeep, Want: []string{"ok"}, After: workEmpty},
	}
	for i := range rows {
		r := &rows[i]
		r.Group, r.Own = "files", true
		if r.Check != nil {
			r.Level, r.Want, r.Why = sandbox.LevelRestricted, []string{"ok"}, "what is collected exists only inside"
		} else {
			r.Level, r.Why = sandbox.LevelContainer, "outside it would harm the host"
		}
	}
	return rows
}

// A swap remembers what the collector was given.
type swap struct{ got []string }

func (s *swap) collect(paths ...string) func(*Outside, *sandbox.Spec) {
	return func(_ *Outside, spec *sandbox.Spec) {
		spec.Collect = paths
		spec.Sink = func(_ string, _ int64, r io.Reader) error {
			b, err := io.ReadAll(io.LimitReader(r, 1<<20))
			s.got = append(s.got, string(b))
			return err
		}
	}
}

// ours is what a report of these rows holds.
const ours = "the command's own"

func (s *swap) check(r *sandbox.Result) string {
	for _, b := range s.got {
		if b != ours {
			return "collected something else"
		}
	}
	if r.State != sandbox.StateExited || len(r.Files) != 1 {
		return exitedWell(r)
	}
	switch why := r.Files[0].Err; {
	case why == "", why == "ELOOP":
		return "ok"
	default:
		return why
	}
}

func collectSpecial(_ *Outside, spec *sandbox.Spec) {
	spec.Collect, _ = special()
	spec.Sink = func(string, int64, io.Reader) error { return errors.New("was collected") }
}

// swapFolders leaves a process behind that exchanges the report's folder for a
// link to /etc as fast as it can.
func swapFolders(*Inside) string {
	d, l := reportDir()+"/d", reportDir()+"/l"
	if err := os.MkdirAll(d, 0o755); err != nil {
		return ended(err)
	}
	if err := os.WriteFile(d+"/passwd", []byte(ours), 0o644); err != nil {
		return ended(err)
	}
	if err := os.Symlink("/etc", l); err != nil {
		return ended(err)
	}
	go func() {
		for {
			unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, l, unix.RENAME_EXCHANGE)
		}
	}()
	time.Sleep(20 * time.Millisecond)
	return "left"
}

// special lists what is no report, and why the collector does not take it.
func special() (paths, errs []string) {
	for _, f := range [][2]string{
		{"fifo", "not a regular file"}, {"socket", "not a regular file"}, {"dir", "not a regular file"}, {"link", "ELOOP"},
		{"../../dev/zero", "not a regular file"}, {"sparse", "over the limit for collected bytes"},
	} {
		paths, errs = append(paths, filepath.Join(reports, f[0])), append(errs, f[1])
	}
	return paths, errs
}

func leaveSpecial(*Inside) string {
	if err := os.Mkdir(reportDir(), 0o755); err != nil {
		return ended(err)
	}
	at := func(name string) string { return filepath.Join(reportDir(), name) }
	_, listening := listen(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: at("socket")})
	err := errors.Join(
		unix.Mkfifo(at("fifo"), 0o644), listening, os.Mkdir(at("dir"), 0o755), os.Symlink("/etc/passwd", at("link")),
		os.WriteFile(at("sparse"), nil, 0o644), os.Truncate(at("sparse"), 10<<30),
	)
	return ended(err)
}

func allRefused(r *sandbox.Result) string {
	_, errs := special()
	if len(r.Files) != len(errs) {
		return exitedWell(r)
	}
	for i, f := range r.Files {
		if f.Err != errs[i] {
			return f.Path + ": " + f.Err
		}
	}
	return exitedWell(r)
}

// oddNames are paths that are legal and rare. The last has nearly as many
// bytes as the kernel takes.
func oddNames(dir string) []string {
	long := strings.Repeat("/"+strings.Repeat("x", 200), 19)
	long += "/" + strings.Repeat("y", unix.PathMax-1-len(reports)-movedMore-len(long)-1)
	return []string{dir + "/a\nb", dir + "/\xff\xfe", dir + "/..x", dir + "/ ", dir + long}
}

// movedMore is the room for the longer names of modes that move paths.
const movedMore = 100

func leaveNames(*Inside) string {
	for _, p := range oddNames(reportDir()) {
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return ended(err)
		}
		if err := os.WriteFile(p, []byte(ours), 0o644); err != nil {
			return ended(err)
		}
	}
	return "left"
}

func allCollected(r *sandbox.Result) string {
	if len(r.Files) != len(oddNames(reports)) {
		return exitedWell(r)
	}
	for _, f := range r.Files {
		if f.Err != "" || f.Size != int64(len(ours)) {
			return oneLine(f.Path) + ": " + f.Err
		}
	}
	return exitedWell(r)
}

func fillInodes(*Inside) string {
	for i := range 1 << 21 {
		fd, err := unix.Open(os.TempDir()+"/"+strconv.Itoa(i), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return ended(err)
		}
		unix.Close(fd)
	}
	return "ok"
}

func fillDisk(*Inside) string {
	f, err := os.Create(os.TempDir() + "/big")
	if err != nil {
		return ended(err)
	}
	defer f.Close()
	b := make([]byte, 1<<20)
	for range 1 << 14 {
		if _, err := f.Write(b); err != nil {
			return ended(err)
		}
	}
	return "ok"
}

// digDeep makes a path that is much longer than any path may be. Each step of a
// path costs Landlock a step up to the root, so pieces are dug near the root
// and then hung below each other, the last one first.
func digDeep(*Inside) string {
	const pieces, depth = 1000, 100
	tmp, err := unix.Open(os.TempDir(), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ended(err)
	}
	below := "" // the piece that was dug before
	for i := range pieces {
		name := "piece" + strconv.Itoa(i)
		bottom, err := dig(tmp, name, depth)
		if err != nil {
			return "dig: " + ended(err)
		}
		if below != "" {
			err = unix.Renameat(tmp, below, bottom, "d")
		}
		unix.Close(bottom)
		if err != nil {
			return "hang: " + ended(err)
		}
		below = name
	}
	return "ok"
}

// dig makes folders in each other and opens the last.
func dig(dir int, name string, depth int) (int, error) {
	if err := unix.Mkdirat(dir, name, 0o755); err != nil {
		return -1, err
	}
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for i := 1; i < depth && err == nil; i++ {
		above := fd
		if err = unix.Mkdirat(above, "d", 0o755); err == nil {
			fd, err = unix.Openat(above, "d", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		}
		unix.Close(above)
	}
	return fd, err
}
