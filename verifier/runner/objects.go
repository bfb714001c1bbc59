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
	"syscall"

	"github.com/truegreen-dev/truegreen/verifier"
)

// batch is a running `git cat-file`: names go in, one per line, answers come
// out in the same order. A name is never an argument, so it cannot be taken
// for an option.
type batch struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *tail
	check  bool // --batch-check: answers without bodies, all after the last name
}

// object is one answer. An object that does not exist has no kind.
type object struct {
	id   string
	kind string // "commit", "tree", "blob", "tag", or ""
	size int64
	body io.Reader // size bytes; valid until the visit returns
}

// objectsFunc asks for objects by name and visits the answers in order.
type objectsFunc func(ctx context.Context, names []string, visit func(i int, o object) error) error

// objects asks for the names in order and visits every answer. The process
// stays for the next call unless something went wrong.
func (r *Repository) objects(ctx context.Context, names []string, visit func(i int, o object) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.batch == nil {
		var err error
		if r.batch, err = r.startBatch("--batch"); err != nil {
			return err
		}
	}
	err := r.batch.answers(ctx, names, visit)
	if err != nil {
		r.batch.close()
		r.batch = nil
	}
	return err
}

// moreObjects is objects with a process of its own.
func (r *Repository) moreObjects(ctx context.Context, names []string, visit func(i int, o object) error) error {
	b, err := r.startBatch("--batch")
	if err != nil {
		return err
	}
	defer b.close()
	return b.answers(ctx, names, visit)
}

// kinds visits what kind and size the named objects have, without bodies. It
// asks once about each: base and head have most in common, and what is said here
// is only a first look. Whatever is read is hashed.
func (r *Repository) kinds(ctx context.Context, names []string, visit func(i int, o object) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = make(map[string]object)
	}
	var unknown []string
	asked := make(map[string]bool)
	for _, name := range names {
		if _, ok := r.known[name]; !ok && !asked[name] {
			asked[name] = true
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		b, err := r.startBatch("--batch-check", "--buffer")
		if err != nil {
			return err
		}
		b.check = true
		defer b.close()
		if err := b.answers(ctx, unknown, func(i int, o object) error {
			r.known[unknown[i]] = object{id: o.id, kind: o.kind, size: o.size}
			return nil
		}); err != nil {
			return err
		}
	}
	for i, name := range names {
		if err := visit(i, r.known[name]); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (r *Repository) startBatch(options ...string) (*batch, error) {
	cmd := exec.Command(r.git, append([]string{"cat-file"}, options...)...)
	stderr := r.isolate(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if pipe, ok := out.(syscall.Conn); ok {
		widen(pipe)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	return &batch{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 256<<10), stderr: stderr}, nil
}

// close ends the process. It only ever reads.
func (b *batch) close() {
	b.in.Close()
	b.cmd.Process.Kill()
	b.cmd.Wait()
}

// answers asks for the names and visits every answer. Names are written while
// answers are read, so the two pipes cannot block each other. After an error
// the process is of no more use.
func (b *batch) answers(ctx context.Context, names []string, visit func(i int, o object) error) error {
	stop := context.AfterFunc(ctx, func() { b.cmd.Process.Kill() })
	written := make(chan error, 1)
	go func() { written <- b.ask(names) }()

	var err error
	for i, name := range names {
		if err = b.answer(name, i, visit); err != nil {
			break
		}
	}
	if !stop() || err != nil {
		b.close() // unblocks ask
		<-written
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return &RepositoryError{Code: verifier.UnknownRevision, What: "git could not read an object" + b.stderr.String()}
		}
		return err
	}
	return <-written
}

func (b *batch) ask(names []string) error {
	w := bufio.NewWriterSize(b.in, 32<<10)
	for _, name := range names {
		w.WriteString(name)
		w.WriteByte('\n')
	}
	err := w.Flush()
	if b.check {
		return errors.Join(err, b.in.Close())
	}
	return err
}

func (b *batch) answer(name string, i int, visit func(int, object) error) error {
	text, err := b.out.ReadSlice('\n')
	if err != nil {
		return io.ErrUnexpectedEOF
	}
	line := string(text[:len(text)-1])
	if line == name+" missing" || line == name+" ambiguous" {
		return visit(i, object{})
	}
	id, rest, _ := strings.Cut(line, " ")
	kind, digits, ok := strings.Cut(rest, " ")
	if !ok {
		return fmt.Errorf("git cat-file: unexpected answer %q", line)
	}
	size, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || size < 0 {
		return fmt.Errorf("git cat-file: unexpected size %q", digits)
	}
	o := object{id: id, kind: kind, size: size}
	if b.check {
		return visit(i, o)
	}
	body := io.LimitedReader{R: b.out, N: size}
	o.body = &body
	if err := visit(i, o); err != nil {
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
