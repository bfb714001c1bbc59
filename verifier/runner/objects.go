package runner

import (
	"bufio"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os/exec"
	"strconv"
	"strings"

	"github.com/truegreen-dev/truegreen/verifier"
)

// batch is a running `git cat-file --batch`: names go in, one per line,
// objects come out in the same order. A name is never an argument, so it
// cannot be taken for an option.
type batch struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *tail
}

// object is one answer. An object that does not exist has no kind.
type object struct {
	id   string
	kind string // "commit", "tree", "blob", "tag", or ""
	size int64
	body io.Reader // size bytes; valid until the visit returns
}

// objects asks for the names in order and visits every answer. Names are
// written while answers are read, so the two pipes cannot block each other.
// The process stays for the next call unless something went wrong.
func (r *Repository) objects(ctx context.Context, names []string, visit func(i int, o object) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.batch == nil {
		if err := r.startBatch(); err != nil {
			return err
		}
	}
	b := r.batch
	stop := context.AfterFunc(ctx, func() { b.cmd.Process.Kill() })
	written := make(chan error, 1)
	go func() { written <- b.ask(names) }()

	var err error
	for i := range names {
		if err = b.answer(names[i], i, visit); err != nil {
			break
		}
	}
	if !stop() || err != nil {
		stderr := b.stderr
		r.dropBatch() // unblocks ask
		<-written
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return &RepositoryError{Code: verifier.UnknownRevision, What: "git could not read an object" + stderr.String()}
		}
		return err
	}
	return <-written
}

func (r *Repository) startBatch() error {
	cmd := exec.Command(r.git, "cat-file", "--batch")
	stderr := r.isolate(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("git cat-file: %w", err)
	}
	r.batch = &batch{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 256<<10), stderr: stderr}
	return nil
}

// dropBatch ends the process. It only ever reads.
func (r *Repository) dropBatch() {
	if r.batch == nil {
		return
	}
	r.batch.in.Close()
	r.batch.cmd.Process.Kill()
	r.batch.cmd.Wait()
	r.batch = nil
}

func (b *batch) ask(names []string) error {
	w := bufio.NewWriterSize(b.in, 32<<10)
	for _, name := range names {
		w.WriteString(name)
		w.WriteByte('\n')
	}
	return w.Flush()
}

func (b *batch) answer(name string, i int, visit func(int, object) error) error {
	line, err := b.out.ReadString('\n')
	if err != nil {
		return io.ErrUnexpectedEOF
	}
	line = strings.TrimSuffix(line, "\n")
	if line == name+" missing" || line == name+" ambiguous" {
		return visit(i, object{})
	}
	fields := strings.Split(line, " ")
	if len(fields) != 3 {
		return fmt.Errorf("git cat-file: unexpected answer %q", line)
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || size < 0 {
		return fmt.Errorf("git cat-file: unexpected size %q", fields[2])
	}
	body := io.LimitedReader{R: b.out, N: size}
	if err := visit(i, object{id: fields[0], kind: fields[1], size: size, body: &body}); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, &body); err != nil || body.N > 0 {
		return io.ErrUnexpectedEOF
	}
	if end, err := b.out.ReadByte(); err != nil || end != '\n' {
		return io.ErrUnexpectedEOF
	}
	return nil
}

var errTooLarge = errors.New("too large to be read")

// newHash starts the hash of an object in the repository's own format.
func (r *Repository) newHash(kind string, size int64) hash.Hash {
	h := sha1.New()
	if r.format == "sha256" {
		h = sha256.New()
	}
	fmt.Fprintf(h, "%s %d\x00", kind, size)
	return h
}

// content reads a whole small object and computes its id again.
func (r *Repository) content(o object, limit int64) ([]byte, error) {
	if o.size > limit {
		return nil, &RepositoryError{Code: verifier.TreeTooLarge, What: o.kind + " " + o.id, Err: errTooLarge}
	}
	b := make([]byte, o.size)
	if _, err := io.ReadFull(o.body, b); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	h := r.newHash(o.kind, o.size)
	h.Write(b)
	if hex.EncodeToString(h.Sum(nil)) != o.id {
		return nil, &RepositoryError{Code: verifier.CorruptObject, What: fmt.Sprintf("%s %s: its bytes have another id", o.kind, o.id), Fix: "run git fsck"}
	}
	return b, nil
}

// ReadFile returns the content of a file or the target of a symbolic link
// that the listing names. It returns [fs.ErrNotExist] if there is none.
func (r *Repository) ReadFile(ctx context.Context, l Listing, path string, limit int64) ([]byte, error) {
	e, ok := l.Find(path)
	if !ok || e.Gitlink() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
	}
	var content []byte
	err := r.objects(ctx, []string{e.ID}, func(_ int, o object) (err error) {
		if o.kind != "blob" {
			return r.missing(e)
		}
		content, err = r.content(o, limit)
		return err
	})
	if errors.Is(err, errTooLarge) {
		return nil, fmt.Errorf("%s: %w: at most %d bytes", path, errTooLarge, limit)
	}
	return content, err
}

// missing is the error for an entry whose blob is not there.
func (r *Repository) missing(e verifier.TreeEntry) error {
	err := &RepositoryError{Code: verifier.UnknownRevision, What: fmt.Sprintf("%q: blob %s is not in the repository", e.Path, e.ID)}
	if r.partial {
		err.What += ", which is a partial clone"
		err.Fix = "git fetch --refetch --no-filter"
	} else {
		err.Fix = "run git fsck"
	}
	return err
}
