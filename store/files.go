package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// files is a file, or a folder.
type files struct{ path string }

func (s files) List(context.Context) ([]Candidate, error) {
	info, err := os.Stat(s.path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []Candidate{fileCandidate(s.path)}, nil
	}
	entries, err := os.ReadDir(s.path)
	if err != nil {
		return nil, err
	}
	var list []Candidate
	for _, e := range entries {
		if e.Type().IsRegular() && (strings.HasSuffix(e.Name(), BundleSuffix) || strings.HasSuffix(e.Name(), waiverSuffix)) {
			list = append(list, fileCandidate(filepath.Join(s.path, e.Name())))
		}
	}
	return list, nil
}

func fileCandidate(path string) Candidate {
	return Candidate{Name: path, Waiver: strings.HasSuffix(path, waiverSuffix), at: path}
}

func (s files) Open(_ context.Context, c Candidate) (*Evidence, error) {
	return OpenFile(c.at.(string))
}

// OpenFile opens a bundle in a file, with the sidecars beside it, or a waiver.
func OpenFile(path string) (*Evidence, error) {
	e, err := openFile(path)
	if err != nil || strings.HasSuffix(path, waiverSuffix) {
		return e, err
	}
	begin := strings.TrimSuffix(path, BundleSuffix)
	for _, suffix := range sidecarSuffixes {
		text, err := readFile(begin+suffix, MaxSidecar)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			e.Close()
			return nil, err
		}
		e.Sidecars = append(e.Sidecars, Sidecar{filepath.Base(begin + suffix), text})
	}
	return e, nil
}

// openFile opens a file that has a size. What is not one, a pipe for example, might never
// end.
func openFile(path string) (*Evidence, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("is not a file")}
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &Evidence{ReaderAt: f, Size: info.Size(), close: f.Close}, nil
}

func readFile(path string, limit int64) ([]byte, error) {
	e, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	if e.Size > limit {
		return nil, &fs.PathError{Op: "read", Path: path, Err: ErrTooLarge}
	}
	return io.ReadAll(io.NewSectionReader(e, 0, e.Size))
}
