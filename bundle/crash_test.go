package bundle

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const crashPath = "TRUEGREEN_TEST_CRASH_PATH"

// crashBundle returns one of two bundles, which take a while to write.
func crashBundle(i int) memory {
	m := small()
	m.log = content([]string{"even", "odd"}[i%2], 512<<10)
	return m
}

// TestCrashHelper is the process that TestCrash kills.
func TestCrashHelper(t *testing.T) {
	path := os.Getenv(crashPath)
	if path == "" {
		return
	}
	bundles := []Members{crashBundle(0).members(), crashBundle(1).members()}
	if _, err := os.Stdout.WriteString("ready\n"); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		if err := WriteFile(path, bundles[i%2], nil); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCrash kills a process that writes files, at many points. What is there
// under the final name is a whole bundle or nothing.
func TestCrash(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("kills processes for a few seconds")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	whole := [][]byte{crashBundle(0).write(t), crashBundle(1).write(t)}
	const kills = 24
	absent := 0
	for i := range kills {
		path := filepath.Join(t.TempDir(), "folder", "e.tar.zst")
		cmd := exec.Command(exe, "-test.run=^TestCrashHelper$")
		cmd.Env = append(os.Environ(), crashPath+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.IntN(1+i*4)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		b, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			absent++
		case err != nil:
			t.Error(err)
		case !bytes.Equal(b, whole[0]) && !bytes.Equal(b, whole[1]):
			_, _, err := read(b, Limits{})
			t.Errorf("%d bytes under the final name: %v", len(b), err)
		}
	}
	t.Logf("no file yet in %d of %d", absent, kills)
}
