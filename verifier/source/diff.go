package source

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The two sides of a patch.
const (
	Base = "base"
	Head = "head"
)

// A Change is what a patch does to one path.
type Change struct {
	Path    string
	Added   bool // the base has no file there
	Deleted bool // the head has none
	// Binary says that the patch shows no lines, so that Lines and Removed are
	// empty.
	Binary  bool
	Lines   []Range // changed or added lines of the head: ascending, disjoint, not adjacent
	Removed int     // removed or changed lines of the base
	// The modes and Git's object ids, as the patch gives them: "" on a side
	// where there is no file, and no ids where nothing but the mode changed.
	BaseMode, HeadMode string
	BaseID, HeadID     string
}

// A Range is the lines From to To of a file, both included and counted from 1.
type Range struct{ From, To int }

const (
	maxDiffLine = 64 << 20 // bytes
	maxChanges  = 1 << 20
	maxLineNo   = 1<<31 - 1
)

// ReadDiff reads the patch that git diff-tree writes with the options -r -p
// --binary --full-index --no-renames --src-prefix=a/ --dst-prefix=b/
// --submodule=short, and without configuration. It returns the changes, their
// paths strictly ascending. A file that becomes a link or a gitlink, or the
// other way round, has two sections in the patch, and is one change here, which
// is neither added nor deleted.
//
// It is strict: the extended header lines in Git's order, full ids of one
// object format, paths quoted as Git quotes them and the same wherever they
// occur, hunks in order and with as many lines as they say. A line is at most
// 64 MiB, a patch at most 2^20 sections; how long it may be in all is for the
// caller to bound.
//
// content, if not nil, returns what a file holds on a side, and false where
// that is not known; it is not asked about gitlinks. What is known must agree:
// the content has the id of the patch, context and removed lines are the
// base's lines at their numbers, added ones the head's, and where both sides
// are known, everything outside of the hunks is equal and a patch that shows no
// lines is of files that Git takes for binary. So a patch that leaves a change
// of these files out, or invents one, is refused. What remains for the caller is
// to compare paths, modes and ids with the listings of the two trees: a path that
// the patch does not mention is not seen here, and the payload of a binary patch
// is read over, since the ids say more.
//
// Which of the possible patches of two files it is, is not checked: lines that it
// removes and adds again count as changed. The text after a hunk's second @@
// must be part of a line of the base above the hunk, and says nothing more.
func ReadDiff(r io.Reader, content func(side, path string) ([]byte, bool)) ([]Change, error) {
	if content == nil {
		content = func(string, string) ([]byte, bool) { return nil, false }
	}
	d := &diffReader{lineReader: newLineReader(r, maxDiffLine), content: content}
	changes, err := d.read()
	if err != nil {
		return nil, fmt.Errorf("diff: line %d: %w", d.number, err)
	}
	// Only now is it known that no section brings the other side.
	for _, c := range changes {
		for _, side := range []string{Base, Head} {
			if side == Base && !c.Added || side == Head && !c.Deleted {
				continue
			}
			if b, _ := content(side, c.Path); len(b) > 0 {
				return nil, fmt.Errorf("diff: path %q: the %s has it, the patch says that it does not", c.Path, side)
			}
		}
	}
	return changes, nil
}

// diffReader reads a patch line by line.
type diffReader struct {
	lineReader
	content func(side, path string) ([]byte, bool)
	again   bool // the line is to be read once more
	digits  int  // of the patch's object ids; 0 before the first
}

// next reads a line; false at the end of the patch.
func (d *diffReader) next() (bool, error) {
	if d.again {
		d.again = false
		return true, nil
	}
	return d.lineReader.next()
}

// must is next where the patch cannot end.
func (d *diffReader) must() error {
	more, err := d.next()
	if err == nil && !more {
		return io.ErrUnexpectedEOF
	}
	return err
}

const gitLine = "diff --git "

// inside is next within a section: false at its end.
func (d *diffReader) inside() (bool, error) {
	more, err := d.next()
	if more && bytes.HasPrefix(d.line, []byte(gitLine)) {
		d.again = true
		return false, nil
	}
	return more, err
}

func (d *diffReader) read() ([]Change, error) {
	var changes []Change
	for {
		more, err := d.next()
		if err != nil || !more {
			return changes, err
		}
		c, err := d.section()
		if err != nil {
			return nil, err
		}
		if len(changes) > 0 {
			last := &changes[len(changes)-1]
			if last.Path == c.Path && last.Deleted && c.Added && last.BaseMode[:3] != c.HeadMode[:3] {
				last.Deleted = false
				last.Binary = last.Binary || c.Binary
				last.Lines, last.HeadMode, last.HeadID = c.Lines, c.HeadMode, c.HeadID
				continue
			}
			if last.Path >= c.Path {
				return nil, fmt.Errorf("path %q: not after %q", c.Path, last.Path)
			}
		}
		if len(changes) == maxChanges {
			return nil, fmt.Errorf("more than %d files", maxChanges)
		}
		changes = append(changes, c)
	}
}

// section reads what the patch says of one path, from the line "diff --git" on.
func (d *diffReader) section() (Change, error) {
	path, err := parseGitLine(string(d.line))
	if err != nil {
		return Change{}, err
	}
	c := Change{Path: path}
	if err := d.header(&c); err != nil {
		return Change{}, fmt.Errorf("path %q: %w", path, err)
	}
	if err := d.body(&c); err != nil {
		return Change{}, fmt.Errorf("path %q: %w", path, err)
	}
	return c, nil
}

// header reads the modes and ids.
func (d *diffReader) header(c *Change) error {
	if err := d.must(); err != nil {
		return err
	}
	mode := func(prefix string, to *string) bool {
		m, ok := strings.CutPrefix(string(d.line), prefix)
		if ok {
			*to = m
		}
		return ok
	}
	needsIndex := true
	switch {
	case mode("old mode ", &c.BaseMode):
		if err := d.must(); err != nil {
			return err
		}
		if !mode("new mode ", &c.HeadMode) {
			return errors.New("no new mode after the old one")
		}
		if !isMode(c.BaseMode) || !isMode(c.HeadMode) || c.BaseMode == c.HeadMode || c.BaseMode[:3] != c.HeadMode[:3] {
			return fmt.Errorf("mode %q cannot become %q", c.BaseMode, c.HeadMode)
		}
		needsIndex = false
	case mode("new file mode ", &c.HeadMode):
		if c.Added = true; !isMode(c.HeadMode) {
			return fmt.Errorf("mode %q is not known", c.HeadMode)
		}
	case mode("deleted file mode ", &c.BaseMode):
		if c.Deleted = true; !isMode(c.BaseMode) {
			return fmt.Errorf("mode %q is not known", c.BaseMode)
		}
	default:
		return d.index(c)
	}
	more, err := d.inside()
	if err != nil {
		return err
	}
	if more {
		return d.index(c)
	}
	if needsIndex {
		return errors.New("no index line")
	}
	return nil
}

// index parses the line with the ids, and the mode if no line before had it.
func (d *diffReader) index(c *Change) error {
	rest, ok := strings.CutPrefix(string(d.line), "index ")
	if !ok {
		return errors.New("want an index line")
	}
	ids, mode, hasMode := strings.Cut(rest, " ")
	base, head, ok := strings.Cut(ids, "..")
	if !ok || hasMode != (c.BaseMode == "" && c.HeadMode == "") || hasMode && !isMode(mode) {
		return errors.New("the index line is malformed")
	}
	if d.digits == 0 && (len(base) == 40 || len(base) == 64) {
		d.digits = len(base)
	}
	if !isHex(base, d.digits) || !isHex(head, d.digits) {
		return errors.New("an id is not 40 or 64 lower-case hexadecimal digits, as the others of the patch")
	}
	none := strings.Repeat("0", d.digits)
	if (base == none) != c.Added || (head == none) != c.Deleted || base == head {
		return errors.New("the ids are not those of such a change")
	}
	if hasMode {
		c.BaseMode, c.HeadMode = mode, mode
	}
	if !c.Added {
		c.BaseID = base
	}
	if !c.Deleted {
		c.HeadID = head
	}
	return nil
}

// body reads what follows the header, and compares it with the contents.
func (d *diffReader) body(c *Change) error {
	base, err := d.side(Base, c.Path, c.BaseMode, c.BaseID)
	if err != nil {
		return err
	}
	head, err := d.side(Head, c.Path, c.HeadMode, c.HeadID)
	if err != nil {
		return err
	}
	more, err := d.inside()
	if err != nil {
		return err
	}
	switch {
	case !more:
		empty := cmp.Or(c.BaseID, c.HeadID)
		if empty != "" && ((!c.Added && !c.Deleted) || empty != blobID(nil, d.digits)) {
			return errors.New("the ids differ, and no line does")
		}
		return sameRest(base, head)
	case c.BaseID == "" && c.HeadID == "":
		return errors.New("lines without an index line")
	case string(d.line) == "GIT binary patch":
		c.Binary = true
		return d.binary(base, head)
	}
	from, to := fileLabel("a/", c.Path), fileLabel("b/", c.Path)
	if c.Added {
		from = "/dev/null"
	}
	if c.Deleted {
		to = "/dev/null"
	}
	if string(d.line) != "--- "+from {
		return fmt.Errorf("want a line with --- and %s", from)
	}
	if err := d.must(); err != nil {
		return err
	}
	if string(d.line) != "+++ "+to {
		return fmt.Errorf("want a line with +++ and %s", to)
	}
	return d.hunks(c, base, head)
}

// side returns what is known of one side of a file.
func (d *diffReader) side(side, path, mode, id string) (*diffSide, error) {
	switch mode {
	case "":
		return &diffSide{known: true}, nil
	case "160000":
		return &diffSide{known: true, data: []byte("Subproject commit " + id + "\n")}, nil
	}
	data, known := d.content(side, path)
	if known && id != "" && blobID(data, len(id)) != id {
		return nil, fmt.Errorf("the %s's content is not that of the id in the patch", side)
	}
	return &diffSide{known: known, data: data}, nil
}

// blobID returns Git's id of a blob, as so many hexadecimal digits.
func blobID(content []byte, digits int) string {
	h := sha1.New()
	if digits == 64 {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

func isMode(s string) bool {
	return s == "100644" || s == "100755" || s == "120000" || s == "160000"
}

func isHex(s string, digits int) bool {
	return len(s) == digits && digits > 0 && strings.Trim(s, "0123456789abcdef") == ""
}
