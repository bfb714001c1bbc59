package verifier

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
)

// GitNamespace is the SSHSIG namespace in which Git signs tags.
const GitNamespace = "git"

const maxTag = 1 << 20

// A GitTag is an annotated tag, as its own bytes state it. They hold the tag's name: a
// signed tag that someone puts under another name says so.
type GitTag struct {
	Object string // what it is a tag of: a full object id
	Type   string // commit, tree, blob or tag
	Name   string

	signed []byte
	sig    []byte // armored; nil: there is none
}

// ParseGitTag reads the bytes of a tag object.
func ParseGitTag(object []byte) (GitTag, error) {
	t, err := parseGitTag(object)
	if err != nil {
		return GitTag{}, fmt.Errorf("tag object: %w", err)
	}
	return t, nil
}

func parseGitTag(object []byte) (GitTag, error) {
	if len(object) > maxTag {
		return GitTag{}, fmt.Errorf("%d bytes, limit %d", len(object), maxTag)
	}
	header, _, _ := bytes.Cut(object, []byte("\n\n"))
	lines := strings.Split(string(header), "\n")
	if len(lines) < 3 {
		return GitTag{}, errors.New("fewer than three header lines")
	}
	var t GitTag
	for i, to := range []struct {
		key   string
		value *string
	}{{"object", &t.Object}, {"type", &t.Type}, {"tag", &t.Name}} {
		value, ok := strings.CutPrefix(lines[i], to.key+" ")
		if !ok || value == "" {
			return GitTag{}, fmt.Errorf("line %d: want %s", i+1, to.key)
		}
		*to.value = value
	}
	if !isObjectID(t.Object) {
		return GitTag{}, errors.New("line 1: not an object id")
	}
	// Git signs all that stands before the signature, wherever that begins.
	t.signed = bytes.Clone(object)
	if i := bytes.LastIndex(object, []byte("\n-----BEGIN SSH SIGNATURE-----\n")); i >= 0 {
		t.signed, t.sig = bytes.Clone(object[:i+1]), bytes.Clone(object[i+1:])
	}
	return t, nil
}

// By returns which of the principals has signed the tag, with a key that counts in
// [GitNamespace] at the given time.
func (t *GitTag) By(principals []string, s *bundle.Signers, revoked *bundle.Revoked, at time.Time) (string, error) {
	if t.sig == nil {
		return "", errors.New("it has no SSH signature")
	}
	sig, err := bundle.ParseSSH(t.sig)
	if err == nil {
		err = sig.Verify(GitNamespace, t.signed)
	}
	if err != nil {
		return "", err
	}
	return signedBy(principals, sig.Key(), GitNamespace, s, revoked, at)
}
