package forge

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"

	"github.com/truegreen-dev/truegreen/internal/lazy"
)

// ErrArchive is in every error of [Unpack] that is about the archive, and not about
// the medium: whoever made it made one that no honest upload is.
var ErrArchive = errors.New("unsafe-archive")

// ErrNoBundle says that an archive is sound, and has no bundle in it.
var ErrNoBundle = errors.New("no bundle in the artifact")

// ArchiveLimits bound what an archive may hold. A zero field is its default.
type ArchiveLimits struct {
	Entries int   // files, 16
	Bundle  int64 // bytes of the bundle, 2 GiB
	Sidecar int64 // bytes of a sidecar, 64 KiB
	Ratio   int64 // bytes that one byte of the archive may become, 20
}

func (l ArchiveLimits) withDefaults() ArchiveLimits {
	if l.Entries == 0 {
		l.Entries = 16
	}
	if l.Bundle == 0 {
		l.Bundle = 2 << 30
	}
	if l.Sidecar == 0 {
		l.Sidecar = 64 << 10
	}
	if l.Ratio == 0 {
		l.Ratio = 20
	}
	return l
}

// Files are the names of what was unpacked.
type Files struct {
	Bundle   string   // NAME.tar.zst
	Sidecars []string // NAME.oidc, NAME.sig
}

const (
	bundleSuffix = ".tar.zst"
	// maxDirectory bounds what opening an archive reads, and with it what it
	// allocates: the directory may claim anything about itself.
	maxDirectory = 256 << 10
	// smallRatio is a size that no ratio is looked at for.
	smallRatio = 64 << 10
)

// fileName is all that a name may be: one name, without folders, that means the
// same on every system.
var fileName = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$`)

// Unpack writes the one bundle in an artifact's zip, and its sidecars, into a
// folder. Nothing is written unless
//
//   - there are at most as many entries as the limit says, each a regular file, and
//     none encrypted, or packed other than deflated or stored;
//   - there is exactly one bundle, NAME.tar.zst, and nothing beside it but NAME.oidc
//     and NAME.sig: no folders, no other names, none twice, however it is spelled;
//   - sizes are within their limits, and no two entries share bytes;
//
// and nothing is left unless each file has the size and the checksum that the
// archive says. Files that are there are not replaced.
func Unpack(r io.ReaderAt, size int64, into *os.Root, l ArchiveLimits) (Files, error) {
	l = l.withDefaults()
	files, entries, err := openArchive(r, size, l)
	if err != nil {
		return Files{}, err
	}
	for i, e := range entries {
		if err := unpackEntry(e, into); err != nil {
			for _, e := range entries[:i] {
				into.Remove(e.Name)
			}
			return Files{}, err
		}
	}
	return files, nil
}

func refuseArchive(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrArchive, fmt.Errorf(format, args...))
}

// openArchive checks all that can be checked without unpacking.
func openArchive(r io.ReaderAt, size int64, l ArchiveLimits) (Files, []*zip.File, error) {
	d := &directoryReader{r: r, left: maxDirectory}
	z, err := zip.NewReader(d, size)
	if err != nil {
		return Files{}, nil, refuseArchive("zip: %w", err)
	}
	d.left = math.MaxInt64 // the files have limits of their own
	if len(z.File) > l.Entries {
		return Files{}, nil, refuseArchive("%d entries, and the limit is %d", len(z.File), l.Entries)
	}
	for _, e := range z.File {
		if err := checkEntry(e); err != nil {
			return Files{}, nil, refuseArchive("entry %s: %w", quote(e.Name), err)
		}
	}
	files, err := nameFiles(z.File)
	if err != nil {
		return Files{}, nil, err
	}
	if err := checkSizes(z.File, size, l); err != nil {
		return Files{}, nil, err
	}
	return files, z.File, nil
}

// A directoryReader ends after so many bytes.
type directoryReader struct {
	r    io.ReaderAt
	left int64
}

func (d *directoryReader) ReadAt(p []byte, off int64) (int, error) {
	if d.left -= int64(len(p)); d.left < 0 {
		return 0, fmt.Errorf("its directory is larger than %d bytes", maxDirectory)
	}
	return d.r.ReadAt(p, off)
}

func checkEntry(e *zip.File) error {
	const encrypted = 1
	switch {
	case !fileName().MatchString(e.Name), strings.HasSuffix(e.Name, "."):
		return errors.New("not the name of a bundle or a sidecar")
	case !e.Mode().IsRegular() || e.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0:
		return fmt.Errorf("not a regular file: %s", e.Mode())
	case e.Flags&encrypted != 0:
		return errors.New("encrypted")
	case e.Method != zip.Store && e.Method != zip.Deflate:
		return fmt.Errorf("packed by method %d", e.Method)
	case e.Method == zip.Store && e.CompressedSize64 != e.UncompressedSize64:
		return errors.New("two sizes for one stored file")
	}
	return nil
}

// nameFiles finds the one bundle, and refuses whatever does not belong to it.
func nameFiles(entries []*zip.File) (Files, error) {
	var f Files
	seen := map[string]bool{}
	for _, e := range entries {
		folded := strings.ToLower(e.Name)
		if seen[folded] {
			return Files{}, refuseArchive("entry %s: twice, or in two spellings", quote(e.Name))
		}
		seen[folded] = true
		if strings.HasSuffix(e.Name, bundleSuffix) && len(e.Name) > len(bundleSuffix) {
			if f.Bundle != "" {
				return Files{}, refuseArchive("two bundles, %s and %s", f.Bundle, e.Name)
			}
			f.Bundle = e.Name
		}
	}
	if f.Bundle == "" {
		return Files{}, ErrNoBundle
	}
	name := strings.TrimSuffix(f.Bundle, bundleSuffix)
	for _, e := range entries {
		switch e.Name {
		case f.Bundle:
		case name + ".oidc", name + ".sig":
			f.Sidecars = append(f.Sidecars, e.Name)
		default:
			return Files{}, refuseArchive("entry %s: neither the bundle nor its sidecar", quote(e.Name))
		}
	}
	return f, nil
}

func checkSizes(entries []*zip.File, size int64, l ArchiveLimits) error {
	type span struct{ from, to int64 }
	var spans []span
	for _, e := range entries {
		limit := l.Sidecar
		if strings.HasSuffix(e.Name, bundleSuffix) {
			limit = l.Bundle
		}
		packed, whole := e.CompressedSize64, e.UncompressedSize64
		switch {
		case whole > uint64(limit):
			return refuseArchive("entry %s: %d bytes, and the limit is %d", quote(e.Name), whole, limit)
		case packed > uint64(size):
			return refuseArchive("entry %s: larger than the archive", quote(e.Name))
		case whole > smallRatio && whole/uint64(l.Ratio) > packed:
			return refuseArchive("entry %s: %d bytes become %d", quote(e.Name), packed, whole)
		}
		from, err := e.DataOffset()
		if err != nil {
			return refuseArchive("entry %s: %w", quote(e.Name), err)
		}
		s := span{from, from + int64(packed)}
		if s.to > size {
			return refuseArchive("entry %s: ends after the archive", quote(e.Name))
		}
		for _, o := range spans {
			if s.from < o.to && o.from < s.to {
				return refuseArchive("entry %s: shares bytes with another one", quote(e.Name))
			}
		}
		spans = append(spans, s)
	}
	return nil
}

// unpackEntry writes one file. The zip package checks the checksum at the end, and
// the limit is the size that the directory said, which is checked already.
func unpackEntry(e *zip.File, into *os.Root) (err error) {
	in, err := e.Open()
	if err != nil {
		return refuseArchive("entry %s: %w", quote(e.Name), err)
	}
	defer in.Close()
	out, err := into.OpenFile(e.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	defer func() {
		if closed := out.Close(); err == nil && closed != nil {
			err = fmt.Errorf("unpack: %w", closed)
		}
		if err != nil {
			into.Remove(e.Name)
		}
	}()
	from := &sourceReader{r: io.LimitReader(in, int64(e.UncompressedSize64)+1)}
	n, err := io.Copy(out, from)
	switch {
	case from.err != nil:
		return refuseArchive("entry %s: %w", quote(e.Name), from.err)
	case err != nil:
		return fmt.Errorf("unpack: %w", err)
	case uint64(n) != e.UncompressedSize64:
		return refuseArchive("entry %s: %d bytes, and the archive says %d", quote(e.Name), n, e.UncompressedSize64)
	}
	return nil
}

// A sourceReader tells trouble with what is read from trouble with what is written.
type sourceReader struct {
	r   io.Reader
	err error
}

func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
