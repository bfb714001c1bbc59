//go:build linux && (amd64 || arm64)

package conformance

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestContainer attacks mode container as the command does, since this program
// may be linked dynamically. The image has a shell and empty directories.
func TestContainer(t *testing.T) {
	if testing.Short() {
		t.Skip("makes some sixty containers")
	}
	if err := exec.Command("docker", "version").Run(); err != nil {
		t.Skipf("no engine here: %v", err)
	}
	busybox, err := os.ReadFile("/bin/busybox")
	if err == nil {
		var f *elf.File
		if f, err = elf.NewFile(bytes.NewReader(busybox)); err == nil && f.Section(".interp") != nil {
			err = errors.New("busybox is linked dynamically")
		}
	}
	if err != nil {
		t.Skipf("no static shell to make an image of: %v", err)
	}
	t.Parallel()
	var image bytes.Buffer
	tw := tar.NewWriter(&image)
	for _, name := range []string{"usr/bin/env", "bin/sh", "bin/sleep", "bin/true"} {
		tw.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(busybox))})
		tw.Write(busybox)
	}
	for _, name := range []string{"run/", "var/tmp/", "tmp/", "home/"} {
		tw.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755})
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("truegreen-conformance-test:%d", os.Getpid())
	load := exec.Command("docker", "import", "-", name)
	load.Stdin = &image
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { exec.Command("docker", "rmi", "--force", name).Run() })
	truegreen := filepath.Join(t.TempDir(), "truegreen")
	build := exec.Command("go", "build", "-o", truegreen, "../../cmd/truegreen")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(truegreen, "selftest", "--sandbox", "--mode", "container", "--image", name).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "ok    container  level container: 1") {
		t.Errorf("%v\n%s", err, out)
	}
}
