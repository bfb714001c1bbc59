package verifier

import (
	"errors"
	"fmt"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts"
)

// A Patch is the document that says what was tested. Its digest is in the first
// frame of the log, in every args document and in the seal, and the task's id
// is derived from it.
type Patch struct {
	V          int             `json:"v"`
	Repository receipts.Bytes  `json:"repository"` // host/path, or local/NAME
	Base       string          `json:"base"`       // commit id; "" where the base is the empty tree
	BaseTree   TreeID          `json:"base_tree"`
	Head       string          `json:"head"` // commit id
	Tree       TreeID          `json:"tree"` // of the tested tree
	Diff       receipts.Digest `json:"diff"` // of the Git patch from base tree to tested tree
}

// A TreeID names a tree twice: as Git does and by the root of Git's SHA-256
// object format; see [Tree].
type TreeID struct {
	Git      string          `json:"git"`
	SHA256   receipts.Digest `json:"sha256"`
	Gitlinks int             `json:"gitlinks"`
}

// TreeIDOf returns the name of t.
func TreeIDOf(t Tree) TreeID { return TreeID{t.ID, t.SHA256, t.Gitlinks} }

// ParsePatch reads a patch document.
func ParsePatch(doc []byte) (Patch, error) {
	var p Patch
	if err := receipts.Decode(doc, &p); err != nil {
		return Patch{}, fmt.Errorf("patch %w", err)
	}
	if err := p.check(); err != nil {
		return Patch{}, fmt.Errorf("patch document: %w", err)
	}
	return p, nil
}

// Document returns the encoding of p.
func (p *Patch) Document() ([]byte, error) {
	p.V = receipts.DocumentVersion
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("patch document: %w", err)
	}
	return receipts.Encode(p)
}

func (p *Patch) check() error {
	switch {
	case p.V != receipts.DocumentVersion:
		return fmt.Errorf("unknown version %d", p.V)
	case !isObjectID(p.Head) || p.Base != "" && !isObjectID(p.Base):
		return errors.New("commit: want 40 or 64 lower-case hexadecimal digits")
	case !isObjectID(p.Tree.Git) || !isObjectID(p.BaseTree.Git):
		return errors.New("tree: want 40 or 64 lower-case hexadecimal digits")
	case len(p.Tree.Git) != len(p.Head) || len(p.BaseTree.Git) != len(p.Head) || p.Base != "" && len(p.Base) != len(p.Head):
		return errors.New("ids of two object formats")
	case p.Repository == "" || len(p.Repository) > 1024 || strings.ContainsAny(string(p.Repository), "@\n\x00"):
		return errors.New("repository: want host/path without user information")
	}
	return nil
}

func isObjectID(s string) bool { return isLowerHex(s, 40) || isLowerHex(s, 64) }
