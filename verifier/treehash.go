package verifier

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts"
)

// treeHasher checks entries as they come and keeps the tree objects of the
// directories that are still open, so that memory is bounded by one path's
// directories and not by the tree.
type treeHasher struct {
	limits  TreeLimits
	newHash func() hash.Hash
	digits  int // hexadecimal digits of an id
	listing int64
	tree    Tree
	prev    string   // path of the last entry
	above   []string // entries whose path is a proper prefix of prev, or prev itself
	open    []openDir
}

// openDir is a directory whose entries are still coming: its path with the
// final slash, and its tree object in both formats.
type openDir struct {
	path     string
	git, sum []byte
}

func newTreeHasher(format string, limits TreeLimits) (*treeHasher, error) {
	t := &treeHasher{limits: limits.withDefaults(), tree: Tree{Format: format}, open: []openDir{{}}}
	switch format {
	case "sha1":
		t.newHash = sha1.New
	case "sha256":
		t.newHash = sha256.New
	default:
		return nil, fmt.Errorf("object format %q is not known", format)
	}
	t.digits = 2 * t.newHash().Size()
	return t, nil
}

func (t *treeHasher) add(e TreeEntry, encoded int) error {
	if err := t.check(e, encoded); err != nil {
		return err
	}
	for len(t.open) > 1 && !strings.HasPrefix(e.Path, t.top().path) {
		t.closeDir()
	}
	for {
		inside := len(t.top().path)
		slash := strings.IndexByte(e.Path[inside:], '/')
		if slash < 0 {
			break
		}
		t.open = append(t.open, openDir{path: e.Path[:inside+slash+1]})
	}
	d := t.top()
	name := e.Path[len(d.path):]
	d.git, _ = hex.AppendDecode(appendTreeName(d.git, e.Mode, name), []byte(e.ID))
	d.sum = append(appendTreeName(d.sum, e.Mode, name), e.Sum[:]...)
	return nil
}

func (t *treeHasher) check(e TreeEntry, encoded int) error {
	switch e.Mode {
	case "100644", "100755", "120000", "160000":
	default:
		return fmt.Errorf("path %q: mode %q is not known", e.Path, e.Mode)
	}
	if err := checkTreePath(e.Path); err != nil {
		return err
	}
	if !isLowerHex(e.ID, t.digits) {
		return fmt.Errorf("path %q: id is not %d lower-case hexadecimal digits", e.Path, t.digits)
	}
	switch {
	case e.Gitlink() && (e.Size != 0 || e.Sum != GitlinkSum(e.ID)):
		return fmt.Errorf("path %q: sum of a gitlink does not follow from its id", e.Path)
	case !e.Gitlink() && t.digits == 64 && e.ID != e.Sum.String():
		return fmt.Errorf("path %q: id and sum differ in a sha256 repository", e.Path)
	case e.Size < 0:
		return fmt.Errorf("path %q: negative size", e.Path)
	}
	if err := t.place(e.Path); err != nil {
		return err
	}
	t.tree.Entries++
	t.listing += int64(encoded)
	if e.Gitlink() {
		t.tree.Gitlinks++
	}
	switch {
	case t.tree.Entries > t.limits.Entries:
		return fmt.Errorf("%w: more than %d entries", ErrTreeLimit, t.limits.Entries)
	case t.listing > t.limits.Listing:
		return fmt.Errorf("%w: listing of more than %d bytes", ErrTreeLimit, t.limits.Listing)
	case e.Size > t.limits.File:
		return fmt.Errorf("path %q: %w: %d bytes, at most %d", e.Path, ErrTreeLimit, e.Size, t.limits.File)
	case e.Size > t.limits.Total-t.tree.Bytes:
		return fmt.Errorf("%w: more than %d bytes in all", ErrTreeLimit, t.limits.Total)
	}
	t.tree.Bytes += e.Size
	return nil
}

// place checks the order. Between the entry "a" and an entry "a/b" others may
// lie ("a.c"), all of them with the prefix "a": so the entries that a later
// path could still lie below are exactly those that are prefixes of the last.
func (t *treeHasher) place(path string) error {
	if t.prev >= path {
		return fmt.Errorf("path %q: not after %q", path, t.prev)
	}
	for len(t.above) > 0 && !strings.HasPrefix(path, t.above[len(t.above)-1]) {
		t.above = t.above[:len(t.above)-1]
	}
	for _, file := range t.above {
		if path[len(file)] == '/' {
			return fmt.Errorf("path %q: lies below the entry %q", path, file)
		}
	}
	t.above = append(t.above, path)
	t.prev = path
	return nil
}

func (t *treeHasher) top() *openDir { return &t.open[len(t.open)-1] }

func (t *treeHasher) closeDir() {
	d := *t.top()
	t.open = t.open[:len(t.open)-1]
	parent := t.top()
	name := strings.TrimSuffix(d.path[len(parent.path):], "/")
	parent.git = append(appendTreeName(parent.git, "40000", name), hashTree(t.newHash(), d.git)...)
	parent.sum = append(appendTreeName(parent.sum, "40000", name), hashTree(sha256.New(), d.sum)...)
}

func (t *treeHasher) sum() Tree {
	for len(t.open) > 1 {
		t.closeDir()
	}
	t.tree.ID = hex.EncodeToString(hashTree(t.newHash(), t.top().git))
	t.tree.SHA256 = receipts.Digest(hashTree(sha256.New(), t.top().sum))
	return t.tree
}

func appendTreeName(b []byte, mode, name string) []byte {
	b = append(b, mode...)
	b = append(b, ' ')
	b = append(b, name...)
	return append(b, 0)
}

func hashTree(h hash.Hash, object []byte) []byte {
	fmt.Fprintf(h, "tree %d\x00", len(object))
	h.Write(object)
	return h.Sum(nil)
}

func checkTreePath(path string) error {
	if path == "" || len(path) > maxTreePath {
		return fmt.Errorf("path of %d bytes, want 1 to %d", len(path), maxTreePath)
	}
	if strings.IndexByte(path, 0) >= 0 {
		return fmt.Errorf("path %q: holds a NUL byte", path)
	}
	for segment := range strings.SplitSeq(path, "/") {
		switch {
		case segment == "" || segment == "." || segment == "..":
			return fmt.Errorf("path %q: segment %q", path, segment)
		case namesGitDir(segment):
			return fmt.Errorf("path %q: segment %q can mean .git", path, segment)
		}
	}
	return nil
}

// namesGitDir reports whether a file system may take the name for ".git", by
// the rules of git fsck.
func namesGitDir(name string) bool {
	for part := range strings.SplitSeq(name, `\`) {
		part, _, _ = strings.Cut(part, ":")
		part = strings.TrimRight(part, ". ")
		if strings.EqualFold(part, ".git") || strings.EqualFold(part, "git~1") {
			return true
		}
	}
	return strings.EqualFold(strings.Map(dropIgnorable, name), ".git")
}

// dropIgnorable removes the code points that HFS+ ignores in names.
func dropIgnorable(r rune) rune {
	switch {
	case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return -1
	}
	return r
}

func isLowerHex(s string, digits int) bool {
	if len(s) != digits {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
