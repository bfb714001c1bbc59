//go:build unix

package runner

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestMaterialiseOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root to give files to somebody else")
	}
	g := newRepo(t)
	awkward(t, g)
	r := g.open()
	head, err := r.Resolve(context.Background(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	to := Target{Dir: t.TempDir(), Chown: true, UID: 61234, GID: 61235}
	if _, err := r.Materialise(context.Background(), head.Tree, io.Discard, to); err != nil {
		t.Fatal(err)
	}
	filepath.WalkDir(to.Dir, func(path string, _ os.DirEntry, walkErr error) error {
		info, err := os.Lstat(path)
		if err != nil || walkErr != nil {
			t.Fatal(err, walkErr)
		}
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 61234 || stat.Gid != 61235 {
			t.Errorf("%q: owner %d:%d", path, stat.Uid, stat.Gid)
		}
		return nil
	})
	if info, err := os.Stat("/etc/passwd"); err == nil && info.Sys().(*syscall.Stat_t).Uid == 61234 {
		t.Fatal("the target of a symbolic link got the owner")
	}
}
