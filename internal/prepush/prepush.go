// Package prepush knows what Git says to a pre-push hook, decides what a push comes to,
// and has the text of the hook that is installed. It is pure: it runs nothing.
//
// Git calls the hook with the name of the remote, or again its URL where it has no name,
// and the URL. On standard input there is a line for each reference that would change:
//
//	<local ref> SP <local id> SP <remote ref> SP <remote id> LF
//
// An id is 40 hexadecimal digits, or 64 in a repository of the SHA-256 object format, and
// all zeros where there is nothing: on the left for a reference that is to be deleted,
// whose local ref is then "(delete)"; on the right for a new one. The local ref is what
// was typed, so it may be HEAD, an id, or an expression that has spaces in it. The local
// id is that of the object, which for an annotated tag is the tag and no commit. Where the
// remote has everything already there are no lines, and the hook is called all the same,
// as it is for --dry-run.
package prepush

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// MaxInput is the size of standard input that is read: more than a hundred thousand
// references.
const MaxInput = 32 << 20

// deleted is the local ref of a reference that is to be deleted.
const deleted = "(delete)"

// An Update is what a push does to one reference of the remote.
type Update struct {
	Local    string // what was typed
	LocalID  string
	Remote   string // the reference
	RemoteID string // what it is now
}

// Deletes reports whether the reference goes.
func (u Update) Deletes() bool { return isZero(u.LocalID) }

// Creates reports whether the reference is new.
func (u Update) Creates() bool { return isZero(u.RemoteID) }

// String returns the line of u, without its end.
func (u Update) String() string {
	return strings.Join([]string{u.Local, u.LocalID, u.Remote, u.RemoteID}, " ")
}

// Parse reads the standard input of a pre-push hook.
func Parse(text []byte) ([]Update, error) {
	if len(text) > MaxInput {
		return nil, fmt.Errorf("pre-push: standard input has more than %d bytes", MaxInput)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		return nil, errors.New("pre-push: the last line does not end")
	}
	var updates []Update
	for line := range bytes.Lines(text) {
		u, err := parseLine(string(line[:len(line)-1]))
		if err == nil && len(updates) > 0 && len(u.LocalID) != len(updates[0].LocalID) {
			err = errors.New("ids of two object formats")
		}
		if err != nil {
			return nil, fmt.Errorf("pre-push: line %d: %w", len(updates)+1, err)
		}
		updates = append(updates, u)
	}
	return updates, nil
}

// parseLine reads a line from its end: what was typed can have spaces, a reference not.
func parseLine(line string) (Update, error) {
	var u Update
	rest := line
	for _, field := range []*string{&u.RemoteID, &u.Remote, &u.LocalID} {
		i := strings.LastIndexByte(rest, ' ')
		if i < 0 {
			return Update{}, errors.New("want four fields")
		}
		rest, *field = rest[:i], rest[i+1:]
	}
	u.Local = rest
	switch {
	case !isID(u.LocalID) || !isID(u.RemoteID) || len(u.LocalID) != len(u.RemoteID):
		return Update{}, errors.New("id: want 40 or 64 lower-case hexadecimal digits")
	case !isRef(u.Remote):
		return Update{}, errors.New("remote: not a reference")
	case u.Local == "" || hasControl(u.Local):
		return Update{}, errors.New("local: empty, or with a control character")
	case u.Deletes() != (u.Local == deleted):
		return Update{}, errors.New("half of a deletion")
	case u.Deletes() && u.Creates():
		return Update{}, errors.New("nothing on both sides")
	}
	return u, nil
}

func isID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

func isZero(id string) bool { return strings.Trim(id, "0") == "" }

// isRef is not all of Git's rule: it holds off what would not be shown as one word.
func isRef(s string) bool {
	return strings.HasPrefix(s, "refs/") && len(s) > len("refs/") && !strings.Contains(s, " ") && !hasControl(s)
}

func hasControl(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f }) >= 0
}

// FromPreCommit returns what the pre-commit framework hands to a hook in place of
// standard input: one reference, the first of the push that it looks at. Deletions it does
// not hand on, nor that a push has further references. TO_REF is missing where all the
// history is new; resolve then says what the local branch names.
func FromPreCommit(getenv func(string) string, resolve func(rev string) (id string, err error)) (remote string, _ []Update, _ error) {
	local, ref := getenv("PRE_COMMIT_LOCAL_BRANCH"), getenv("PRE_COMMIT_REMOTE_BRANCH")
	if remote = getenv("PRE_COMMIT_REMOTE_NAME"); remote == "" || local == "" || ref == "" {
		return "", nil, errors.New("pre-push: no PRE_COMMIT_REMOTE_NAME, PRE_COMMIT_LOCAL_BRANCH and PRE_COMMIT_REMOTE_BRANCH: not the stage pre-push of pre-commit")
	}
	id, from := getenv("PRE_COMMIT_TO_REF"), getenv("PRE_COMMIT_FROM_REF")
	if !isID(id) {
		rev := id
		if rev == "" {
			rev = local
		}
		var err error
		if id, err = resolve(rev); err != nil {
			return "", nil, fmt.Errorf("pre-push: %w", err)
		}
	}
	if !isID(from) || len(from) != len(id) {
		from = strings.Repeat("0", len(id))
	}
	u, err := parseLine(Update{local, id, ref, from}.String())
	if err != nil {
		return "", nil, fmt.Errorf("pre-push: PRE_COMMIT variables: %w", err)
	}
	return remote, []Update{u}, nil
}
