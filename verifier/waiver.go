package verifier

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"github.com/truegreen-dev/truegreen/bundle"
)

// WaiverNamespace is the SSHSIG namespace in which waivers are signed.
const WaiverNamespace = "waiver@truegreen.dev"

const (
	waiverFirst = "truegreen.dev/waiver/v1"
	maxReason   = 512
	maxWaiver   = 16 << 10
)

// A Waiver lets a commit, or every commit with a tree, pass the gate without evidence,
// until a day. Its text has one form: these lines, in this order, each once, with LF;
// exactly one of commit and tree.
//
//	truegreen.dev/waiver/v1
//	repository git.example.com/octo/project
//	commit 0123456789abcdef0123456789abcdef01234567
//	expires 2026-12-31T00:00:00Z
//	reason the runner was down; reviewed by hand
//
// The file holds the text, an empty line, and the armored SSH signature over the text,
// without that line. It names the repository so that it counts in no other, and a full
// object id so that it counts for nothing that is not there yet.
type Waiver struct {
	Repository   string
	Commit, Tree string // one of them
	Expires      time.Time
	Reason       string // one line, 1 to 512 bytes

	text []byte
	sig  *bundle.SSHSignature
}

// Text returns the bytes that are signed.
func (w *Waiver) Text() ([]byte, error) {
	kind, id := "commit", w.Commit
	if w.Tree != "" {
		kind, id = "tree", w.Tree
	}
	text := fmt.Appendf(nil, "%s\nrepository %s\n%s %s\nexpires %s\nreason %s\n",
		waiverFirst, w.Repository, kind, id, w.Expires.UTC().Format(time.RFC3339), w.Reason)
	if again, err := parseWaiverText(text); err != nil {
		return nil, fmt.Errorf("waiver: %w", err)
	} else if again.Commit != w.Commit || again.Tree != w.Tree {
		return nil, errors.New("waiver: want a commit or a tree, not both")
	}
	return text, nil
}

// ParseWaiver reads a waiver with its signature, which [Waiver.By] checks.
func ParseWaiver(file []byte) (Waiver, error) {
	w, err := parseWaiver(file)
	if err != nil {
		return Waiver{}, fmt.Errorf("waiver: %w", err)
	}
	return w, nil
}

func parseWaiver(file []byte) (Waiver, error) {
	if len(file) > maxWaiver {
		return Waiver{}, fmt.Errorf("%d bytes, limit %d", len(file), maxWaiver)
	}
	text, sig, ok := bytes.Cut(file, []byte("\n\n"))
	if !ok {
		return Waiver{}, errors.New("no empty line and signature behind the text")
	}
	text = file[:len(text)+1]
	w, err := parseWaiverText(text)
	if err != nil {
		return Waiver{}, err
	}
	if w.sig, err = bundle.ParseSSH(sig); err != nil {
		return Waiver{}, err
	}
	w.text = bytes.Clone(text)
	return w, nil
}

func parseWaiverText(text []byte) (w Waiver, err error) {
	lines := strings.Split(string(text), "\n")
	if len(lines) != 6 || lines[5] != "" {
		return Waiver{}, errors.New("want five lines")
	}
	if lines[0] != waiverFirst {
		return Waiver{}, fmt.Errorf("line 1: want %q", waiverFirst)
	}
	value := func(n int, key string) string {
		v, ok := strings.CutPrefix(lines[n], key+" ")
		if !ok && err == nil {
			err = fmt.Errorf("line %d: want %s", n+1, key)
		}
		return v
	}
	w.Repository = value(1, "repository")
	kind := "commit"
	if strings.HasPrefix(lines[2], "tree ") {
		kind = "tree"
	}
	id, expires := value(2, kind), value(3, "expires")
	w.Reason = value(4, "reason")
	if err != nil {
		return Waiver{}, err
	}
	w.Expires, err = time.Parse(time.RFC3339, expires)
	switch {
	case checkName(w.Repository) != nil:
		return Waiver{}, errors.New("line 2: not the name of a repository")
	case !isObjectID(id):
		return Waiver{}, errors.New("line 3: not a full object id")
	case err != nil || w.Expires.UTC().Format(time.RFC3339) != expires:
		return Waiver{}, errors.New("line 4: not a time as in 2026-12-31T00:00:00Z")
	case len(w.Reason) > maxReason || strings.TrimSpace(w.Reason) != w.Reason || w.Reason == "" ||
		!utf8.ValidString(w.Reason) || strings.IndexFunc(w.Reason, func(c rune) bool { return !unicode.IsPrint(c) }) >= 0:
		return Waiver{}, fmt.Errorf("line 5: a reason has 1 to %d bytes of printable text", maxReason)
	}
	if w.Expires = w.Expires.UTC(); kind == "tree" {
		w.Tree = id
	} else {
		w.Commit = id
	}
	return w, nil
}

// By returns which of the principals has signed the waiver, with a key that counts in
// [WaiverNamespace] at the given time.
func (w *Waiver) By(principals []string, s *bundle.Signers, revoked *bundle.Revoked, at time.Time) (string, error) {
	if w.sig == nil {
		return "", errors.New("not signed")
	}
	if err := w.sig.Verify(WaiverNamespace, w.text); err != nil {
		return "", err
	}
	return signedBy(principals, w.sig.Key(), WaiverNamespace, s, revoked, at)
}

// signedBy returns the first of the principals whose key it is.
func signedBy(principals []string, key ssh.PublicKey, namespace string, s *bundle.Signers, revoked *bundle.Revoked, at time.Time) (string, error) {
	switch {
	case len(principals) == 0:
		return "", errors.New("the policy allows nobody")
	case s == nil:
		return "", errors.New("no allowed_signers given")
	case revoked != nil && revoked.Contains(key):
		return "", fmt.Errorf("key %s is revoked", ssh.FingerprintSHA256(key))
	}
	var first string
	for _, p := range principals {
		ok, why := s.Allows(p, key, namespace, at)
		if ok {
			return p, nil
		}
		if first == "" {
			first = why
		}
	}
	return "", fmt.Errorf("signed by nobody whom the policy allows: %s", first)
}
