package runner

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Dirty returns a path at which the work tree or the index differs from the
// listing of HEAD's tree, or "" if none is found. What it names is not part of
// any commit and so not part of a patch.
//
// It is a hint for the user and never decides anything. It reads the index
// itself, because git status and git diff run the repository's filters and
// monitors; so a file that was only touched, and has a filter or other line
// endings, counts as changed, while a changed execute bit alone does not.
// Files that Git does not track, and ignored ones, are not looked at.
func (r *Repository) Dirty(head Listing) (string, error) {
	if r.top == "" {
		return "", nil
	}
	file := filepath.Join(r.gitDir, "index")
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	text, err := readSmall(file, maxIndex)
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(r.top)
	if err != nil {
		return "", err
	}
	defer root.Close()

	// A split index is recognised at its end only, so it is read twice.
	hashLen := r.newHash("blob", 0).Size()
	if err := readIndex(text, hashLen, func(indexEntry) bool { return true }); err != nil {
		return "", err
	}
	rest, dirty := head.Entries, ""
	err = readIndex(text, hashLen, func(e indexEntry) bool {
		if e.mode == "40000" { // a sparse index leaves this whole folder out
			for len(rest) > 0 && strings.HasPrefix(rest[0].Path, e.path) {
				rest = rest[1:]
			}
			return true
		}
		switch {
		case len(rest) > 0 && rest[0].Path < e.path:
			dirty = rest[0].Path // removed from the index
		case len(rest) == 0 || rest[0].Path > e.path, e.id != rest[0].ID, e.mode != rest[0].Mode, e.staged, !r.unchanged(root, e, info.ModTime()):
			dirty = e.path
		default:
			rest = rest[1:]
		}
		return dirty == ""
	})
	if err == nil && dirty == "" && len(rest) > 0 {
		dirty = rest[0].Path
	}
	return dirty, err
}

// unchanged compares a file with what the index remembers of it, and with its
// blob only if that leaves a doubt: other times or size, or a change so close
// to the writing of the index that both have the same time.
func (r *Repository) unchanged(root *os.Root, e indexEntry, written time.Time) bool {
	if e.absent || e.mode == "160000" {
		return true
	}
	info, err := root.Lstat(e.path)
	if err != nil {
		return false
	}
	if e.nanos == 0 { // written by a Git that keeps seconds only
		written = written.Truncate(time.Second)
	}
	when := info.ModTime()
	if when.Unix() == e.mtime && (e.nanos == 0 || when.Nanosecond() == e.nanos) && uint32(info.Size()) == e.size && when.Before(written) {
		return true
	}
	h := r.newHash("blob", info.Size())
	switch {
	case e.mode == "120000" && info.Mode().Type() == os.ModeSymlink:
		target, err := root.Readlink(e.path)
		if err != nil {
			return false
		}
		io.WriteString(h, target)
	case e.mode != "120000" && info.Mode().IsRegular():
		f, err := root.Open(e.path)
		if err != nil {
			return false
		}
		defer f.Close()
		if _, err := io.Copy(h, f); err != nil {
			return false
		}
	default:
		return false
	}
	return hex.EncodeToString(h.Sum(nil)) == e.id
}

const maxIndex = 256 << 20

// indexEntry is what the index knows of a file.
type indexEntry struct {
	path, mode, id string
	mtime          int64
	nanos          int
	size           uint32 // of the file, modulo 2^32
	staged         bool   // one of several versions in an unfinished merge
	absent         bool   // not expected in the work tree, or not to be checked
}

var errIndex = errors.New("index is malformed")

// readIndex visits the entries of an index file of version 2 to 4 until visit
// returns false. hashLen is the size of an id in bytes.
func readIndex(b []byte, hashLen int, visit func(indexEntry) bool) error {
	const fixed = 40 // bytes of an entry before its id
	if len(b) < 12+hashLen || string(b[:4]) != "DIRC" {
		return errIndex
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version < 2 || version > 4 {
		return errors.New("index version " + strconv.Itoa(int(version)) + " is not read")
	}
	b = b[12 : len(b)-hashLen]
	var path string
	for range count {
		if len(b) < fixed+hashLen+2 {
			return errIndex
		}
		flags := binary.BigEndian.Uint16(b[fixed+hashLen:])
		e := indexEntry{
			mode:   strconv.FormatUint(uint64(binary.BigEndian.Uint32(b[24:])), 8),
			id:     hex.EncodeToString(b[fixed : fixed+hashLen]),
			mtime:  int64(binary.BigEndian.Uint32(b[8:])),
			nanos:  int(binary.BigEndian.Uint32(b[12:])),
			size:   binary.BigEndian.Uint32(b[36:]),
			staged: flags&0x3000 != 0,
			absent: flags&0x8000 != 0,
		}
		used := fixed + hashLen + 2
		if version >= 3 && flags&0x4000 != 0 {
			if len(b) < used+2 {
				return errIndex
			}
			extended := binary.BigEndian.Uint16(b[used:])
			e.absent = e.absent || extended&0x4000 != 0
			used += 2
		}
		keep := 0
		if version == 4 {
			drop, n := offset(b[used:])
			if n == 0 || drop > uint64(len(path)) {
				return errIndex
			}
			keep = len(path) - int(drop)
			used += n
		}
		end := bytes.IndexByte(b[used:], 0)
		if end < 0 || keep+end > 4096 {
			return errIndex
		}
		path = path[:keep] + string(b[used:used+end])
		used += end + 1
		if version < 4 {
			used = (used + 7) &^ 7
		}
		if used > len(b) {
			return errIndex
		}
		b = b[used:]
		e.path = path
		if !visit(e) {
			return nil
		}
	}
	if len(b) >= 4 && string(b[:4]) == "link" {
		return errors.New("a split index is not read")
	}
	return nil
}

// offset decodes Git's variable width integer, the one of deltas by offset. It
// returns the bytes used, 0 if there is none.
func offset(b []byte) (v uint64, n int) {
	for n < len(b) && n < 8 {
		c := b[n]
		n++
		v = v<<7 | uint64(c&0x7f)
		if c < 0x80 {
			return v, n
		}
		v++
	}
	return 0, 0
}
