package runner

import (
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
	"github.com/truegreen-dev/truegreen/verifier/source"
)

// writeSources writes the texts of what the patch changes, and of the tests, into
// the evidence.
func (j *job) writeSources(ctx context.Context, spool *bundle.Spool) error {
	refs := verifier.Texts(j.listings[0].listing.Entries, j.listings[1].listing.Entries)
	if len(refs) == 0 {
		return nil
	}
	w, err := spool.Create()
	if err != nil {
		return err
	}
	defer w.Discard()
	entries := make([]verifier.TreeEntry, len(refs))
	for i := range refs {
		entries[i] = refs[i].Entry
	}
	out, n := source.NewSourceWriter(w, source.SourceLimits{}), 0
	err = j.repo.Contents(ctx, entries, 1<<30, func(e verifier.TreeEntry, content []byte) error {
		side := refs[n].Side
		n++
		return out.Add(source.Source{Side: side, File: source.File{Path: e.Path, Content: content}})
	})
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		return err
	}
	j.sources.Name = verifier.FileSources
	j.sources.Digest, j.sources.Size, err = w.Commit()
	return err
}

// readTexts reads what was written, as whoever verifies it does.
func (j *job) readTexts() error {
	var readers [2]io.Reader
	if len(j.sources.Name) > 0 {
		for i, d := range [...]receipts.Digest{j.sources.Digest, j.diff.Digest} {
			r, err := j.openBlob(d)
			if err != nil {
				return err
			}
			defer r.Close()
			readers[i] = r
		}
	}
	var err error
	j.texts, err = verifier.ReadTrees(j.listings[0].listing.Entries, j.listings[1].listing.Entries, &j.Config.Evidence, j.goFacts(), readers[0], readers[1])
	return err
}

// goFacts returns what the go command of the sandbox goes by, nil where that is
// not known: without one, or in an image.
func (j *job) goFacts() *verifier.GoFacts {
	if j.tools.goroot == "" {
		return nil
	}
	facts := &verifier.GoFacts{OS: "linux", Arch: runtime.GOARCH, Version: j.tools.version}
	for _, name := range [...]string{"gcc", "clang"} { // what the go command takes where CC is not set
		bin, err := exec.LookPath(name)
		if err == nil {
			bin, err = filepath.EvalSymlinks(bin)
		}
		facts.Cgo = facts.Cgo || err == nil && slices.ContainsFunc([]string{"/usr/", "/bin/"}, func(dir string) bool { return strings.HasPrefix(bin, dir) })
	}
	return facts
}
