package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Pointer files (.git, HEAD, commondir) and the configuration are small.
const (
	maxPointer = 64 << 10
	maxConfig  = 4 << 20
	maxShallow = 64 << 20
)

// find locates the real directories by Git's rules: upwards from dir, the
// first folder with a .git in it, or one that is a Git directory itself.
func (r *Repository) find(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return errors.Join(err, errors.New("no such folder"))
	}
	for at := dir; ; at = filepath.Dir(at) {
		gitDir, err := linkedGitDir(at)
		if err != nil {
			return err
		}
		switch {
		case gitDir != "":
			r.top, r.gitDir = at, gitDir
		case isGitDir(at):
			r.gitDir = at
		case at == filepath.Dir(at):
			return errors.New("no .git here or in any parent folder")
		default:
			continue
		}
		break
	}
	r.common = r.gitDir
	link, err := readSmall(filepath.Join(r.gitDir, "commondir"), maxPointer)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	r.common = resolvePath(r.gitDir, strings.TrimRight(string(link), "\r\n"))
	if !isGitDir(r.common) {
		return fmt.Errorf("%s: its commondir is not a Git directory", r.gitDir)
	}
	return nil
}

// linkedGitDir returns the Git directory that at/.git is or points to, or "".
func linkedGitDir(at string) (string, error) {
	dotGit := filepath.Join(at, ".git")
	info, err := os.Stat(dotGit)
	if err != nil {
		return "", nil
	}
	if info.IsDir() {
		if isGitDir(dotGit) {
			return dotGit, nil
		}
		return "", nil
	}
	text, err := readSmall(dotGit, maxPointer)
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(string(text), "gitdir: ")
	if !ok {
		return "", fmt.Errorf("%s: want one line that starts with gitdir", dotGit)
	}
	gitDir := resolvePath(at, strings.TrimRight(path, "\r\n"))
	if !isGitDir(gitDir) {
		return "", fmt.Errorf("%s: points to %s, which is not a Git directory", dotGit, gitDir)
	}
	return gitDir, nil
}

// isGitDir reports whether dir has what every Git directory has: HEAD, and
// objects and refs of its own or in its common directory.
func isGitDir(dir string) bool {
	has := func(name string, isDir bool) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && info.IsDir() == isDir
	}
	return has("HEAD", false) && (has("commondir", false) || has("objects", true) && has("refs", true))
}

func resolvePath(from, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(from, path)
}

// readSmall reads a regular file; a pipe or a device in its place would block.
func readSmall(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("%s: want a regular file of at most %d bytes", path, limit)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}
