package verifier

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts"
)

// TreeEntry is one file, symbolic link or gitlink of a Git tree, as a tree
// listing records it.
//
// A tree listing is the document that says what was tested, file by file. It
// is a sequence of records, each ended by one NUL byte. The first names the
// version and the repository's object format, sha1 or sha256:
//
//	truegreen/v1 tree sha1 NUL
//
// Each other record is one entry. <id> is Git's object id (40 or 64 lower-case
// hexadecimal digits), <sum> the id of the same object in Git's SHA-256 object
// format, <size> the blob's length in decimal without leading zeros, or "-":
//
//	<mode> SP <id> SP <sum> SP <size> TAB <path> NUL
//
// The mode is 100644, 100755, 120000 (symbolic link: the blob is its target) or
// 160000 (gitlink: a commit of another repository, no content).
// For a blob <sum> is SHA-256("blob " ‖ size ‖ NUL ‖ content), which in a
// sha256 repository equals <id>. For a gitlink it is
// SHA-256("gitlink" ‖ NUL ‖ <id>) over the hexadecimal text.
//
//	100644 ce013625030ba8dba906f756967f9e9ca394464a 2cf8d83d9ee29543b34a87727421fdecb7e3f3a183d337639025de576db9ebb4 6	hello.txt
//
// Paths are raw bytes and strictly ascend bytewise, which is Git's own order
// of full paths. Directories are implied; there are no empty ones. Refused:
//   - an empty path, more than 4096 bytes, a leading, trailing or doubled slash;
//   - a segment "." or "..";
//   - a segment that some file system takes for ".git": any case, the NTFS
//     forms ("git~1", trailing dots, spaces or a stream, after a backslash
//     too) and the HFS+ forms (ignorable code points inside);
//   - a path below the path of another entry.
//
// Anything that parses is encoded again to the same bytes.
type TreeEntry struct {
	Mode string
	ID   string
	Sum  receipts.Digest
	Size int64 // 0 for a gitlink
	Path string
}

// Gitlink reports whether e names a commit of another repository.
func (e TreeEntry) Gitlink() bool { return e.Mode == "160000" }

// GitlinkSum returns the Sum of a gitlink to the commit id.
func GitlinkSum(id string) receipts.Digest {
	return receipts.Sum([]byte("gitlink\x00" + id))
}

// Tree is what a complete listing amounts to.
type Tree struct {
	Format string // object format: "sha1" or "sha256"
	// ID is Git's id of the root tree. In a sha1 repository it names the
	// content only as well as SHA-1 does; SHA256 does not have that limit.
	ID string
	// SHA256 is the id of the root tree in Git's SHA-256 object format, with
	// every gitlink replaced by its Sum. Without gitlinks it is what Git
	// itself computes for the same files in a sha256 repository.
	SHA256   receipts.Digest
	Entries  int   // records, gitlinks included
	Gitlinks int   // entries whose content is not part of the tree
	Bytes    int64 // sum of the sizes
}

// TreeLimits bound a listing. A zero field means the default.
type TreeLimits struct {
	Entries int   // 2^20
	Listing int64 // encoded bytes: 256 MiB
	File    int64 // one file: 2 GiB
	Total   int64 // all files: 16 GiB; at most 2^53
}

func (l TreeLimits) withDefaults() TreeLimits {
	if l.Entries == 0 {
		l.Entries = 1 << 20
	}
	if l.Listing == 0 {
		l.Listing = 256 << 20
	}
	if l.File == 0 {
		l.File = 2 << 30
	}
	if l.Total == 0 {
		l.Total = 16 << 30
	}
	l.Total = min(l.Total, 1<<53)
	return l
}

// ErrTreeLimit is in the chain of every error that says that a [TreeLimits]
// field was exceeded.
var ErrTreeLimit = errors.New("tree is larger than allowed")

const (
	treeHeader  = "truegreen/v1 tree "
	maxTreePath = 4096
	// The longest record: mode, two ids, a size below 2^53 and a path.
	maxTreeRecord = 6 + 1 + 64 + 1 + 64 + 1 + 16 + 1 + maxTreePath + 1
)

// TreeWriter writes a listing and computes both tree ids on the way.
type TreeWriter struct {
	w    *bufio.Writer
	tree *treeHasher
	buf  []byte
	err  error
}

// NewTreeWriter returns a writer of a listing for a repository of the given
// object format, "sha1" or "sha256".
func NewTreeWriter(w io.Writer, format string, limits TreeLimits) (*TreeWriter, error) {
	tree, err := newTreeHasher(format, limits)
	if err != nil {
		return nil, fmt.Errorf("tree listing: %w", err)
	}
	tw := &TreeWriter{w: bufio.NewWriterSize(w, 4<<10), tree: tree}
	tw.w.WriteString(treeHeader + format + "\x00")
	return tw, nil
}

// Add appends one entry. Entries are added in the order of their paths. After
// an error the writer is unusable.
func (w *TreeWriter) Add(e TreeEntry) error {
	if w.err != nil {
		return w.err
	}
	w.buf = appendTreeEntry(w.buf[:0], e)
	if w.err = w.tree.add(e, len(w.buf)); w.err != nil {
		w.err = fmt.Errorf("tree listing: %w", w.err)
		return w.err
	}
	_, w.err = w.w.Write(w.buf)
	return w.err
}

// Close ends the listing and returns what it amounts to. It does not close
// the underlying writer.
func (w *TreeWriter) Close() (Tree, error) {
	if w.err != nil {
		return Tree{}, w.err
	}
	w.err = errors.New("tree listing: closed")
	if err := w.w.Flush(); err != nil {
		return Tree{}, err
	}
	return w.tree.sum(), nil
}

// ReadTree reads a whole listing, calls visit (if not nil) for each entry in
// order, and returns what the listing amounts to. It is strict: see
// [TreeEntry]. What visit was shown counts only once ReadTree returned
// without an error and the ids are the expected ones.
func ReadTree(r io.Reader, limits TreeLimits, visit func(TreeEntry) error) (Tree, error) {
	br := bufio.NewReaderSize(r, 2*maxTreeRecord)
	format, err := readTreeHeader(br)
	if err != nil {
		return Tree{}, fmt.Errorf("tree listing: %w", err)
	}
	tree, err := newTreeHasher(format, limits)
	if err != nil {
		return Tree{}, fmt.Errorf("tree listing: %w", err)
	}
	for {
		record, err := br.ReadSlice(0)
		if err == io.EOF && len(record) == 0 {
			return tree.sum(), nil
		}
		if err != nil {
			return Tree{}, fmt.Errorf("tree listing: entry %d: %w", tree.tree.Entries, unendedRecord(err))
		}
		e, err := parseTreeEntry(record[:len(record)-1])
		if err == nil {
			err = tree.add(e, len(record))
		}
		if err != nil {
			return Tree{}, fmt.Errorf("tree listing: entry %d: %w", tree.tree.Entries, err)
		}
		if visit != nil {
			if err := visit(e); err != nil {
				return Tree{}, err
			}
		}
	}
}

func readTreeHeader(br *bufio.Reader) (format string, err error) {
	header, err := br.ReadSlice(0)
	if err != nil {
		return "", fmt.Errorf("header: %w", unendedRecord(err))
	}
	format, ok := strings.CutPrefix(string(header[:len(header)-1]), treeHeader)
	if !ok {
		return "", errors.New("header: not a tree listing of version 1")
	}
	return format, nil
}

func unendedRecord(err error) error {
	switch err {
	case io.EOF:
		return io.ErrUnexpectedEOF
	case bufio.ErrBufferFull:
		return errors.New("record too long")
	}
	return err
}

func appendTreeEntry(b []byte, e TreeEntry) []byte {
	b = append(b, e.Mode...)
	b = append(b, ' ')
	b = append(b, e.ID...)
	b = append(b, ' ')
	b = hex.AppendEncode(b, e.Sum[:])
	b = append(b, ' ')
	if e.Gitlink() {
		b = append(b, '-')
	} else {
		b = strconv.AppendInt(b, e.Size, 10)
	}
	b = append(b, '\t')
	b = append(b, e.Path...)
	return append(b, 0)
}

// parseTreeEntry splits a record; [treeHasher.add] checks what the fields say.
func parseTreeEntry(record []byte) (TreeEntry, error) {
	meta, path, ok := bytes.Cut(record, []byte{'\t'})
	fields := strings.Split(string(meta), " ")
	if !ok || len(fields) != 4 {
		return TreeEntry{}, errors.New("want mode, id, sum and size, then a tab and the path")
	}
	e := TreeEntry{Mode: fields[0], ID: fields[1], Path: string(path)}
	var err error
	if e.Sum, err = receipts.ParseDigest(fields[2]); err != nil {
		return TreeEntry{}, err
	}
	if e.Gitlink() && fields[3] == "-" {
		return e, nil
	}
	e.Size, err = strconv.ParseInt(fields[3], 10, 64)
	if err != nil || strconv.FormatInt(e.Size, 10) != fields[3] || e.Gitlink() {
		return TreeEntry{}, fmt.Errorf("size %q is not canonical", fields[3])
	}
	return e, nil
}
