//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func hmacSum(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

// hkdf32 is RFC 5869 for 32 bytes: one extract, one expand.
func hkdf32(secret, salt, info []byte) []byte {
	return hmacSum(hmacSum(salt, secret), info, []byte{1})
}

func testSecret() []byte {
	s := make([]byte, 32)
	for i := range s {
		s[i] = byte(i*7 + 1)
	}
	return s
}

func TestSignerMAC(t *testing.T) {
	t.Parallel()
	secret, salt := testSecret(), [32]byte{9, 8, 7}
	info := [][]byte{[]byte("first"), []byte("second\x00x"), {}}

	pipeR, pipeW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	pipeW.Write(secret)
	pipeW.Close()
	defer pipeR.Close()
	fromFile, err := StartSigner(t.Context(), pipeR, salt, info)
	if err != nil {
		t.Fatal(err)
	}
	defer fromFile.Close()
	fromReader, err := StartSigner(t.Context(), bytes.NewReader(secret), salt, info)
	if err != nil {
		t.Fatal(err)
	}
	defer fromReader.Close()

	for _, s := range []*Signer{fromFile, fromReader} {
		for slot, in := range info {
			key := hkdf32(secret, salt[:], in)
			for _, n := range []int{0, 1, 220, 4096, maxMessage} {
				msg := bytes.Repeat([]byte{byte(n)}, n)
				got, err := s.MAC(slot, msg)
				if err != nil || !bytes.Equal(got[:], hmacSum(key, msg)) {
					t.Errorf("slot %d, %d bytes: %x, %v", slot, n, got, err)
				}
			}
		}
		for _, bad := range []struct{ slot, size int }{{-1, 0}, {3, 0}, {0, maxMessage + 1}} {
			if mac, err := s.MAC(bad.slot, make([]byte, bad.size)); err == nil || mac != [32]byte{} {
				t.Errorf("slot %d, %d bytes: accepted", bad.slot, bad.size)
			}
		}
		if _, err := s.MAC(0, nil); err != nil {
			t.Errorf("after a refused request: %v", err)
		}
	}

	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			want := hmacSum(hkdf32(secret, salt[:], info[i%3]), []byte{byte(i)})
			for range 50 {
				if got, err := fromFile.MAC(i%3, []byte{byte(i)}); err != nil || !bytes.Equal(got[:], want) {
					t.Errorf("concurrent: %x, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestSignerBadStart(t *testing.T) {
	t.Parallel()
	one := [][]byte{nil}
	for name, f := range map[string]func() (*Signer, error){
		"short": func() (*Signer, error) { return StartSigner(t.Context(), strings.NewReader("short"), [32]byte{}, one) },
		"long": func() (*Signer, error) {
			return StartSigner(t.Context(), bytes.NewReader(make([]byte, 33)), [32]byte{}, one)
		},
		"empty": func() (*Signer, error) { return StartSigner(t.Context(), bytes.NewReader(nil), [32]byte{}, one) },
		"no slots": func() (*Signer, error) {
			return StartSigner(t.Context(), bytes.NewReader(testSecret()), [32]byte{}, nil)
		},
		"long info": func() (*Signer, error) {
			return StartSigner(t.Context(), bytes.NewReader(testSecret()), [32]byte{}, [][]byte{make([]byte, maxInfo+1)})
		},
		"short file": func() (*Signer, error) {
			r, w, err := os.Pipe()
			if err != nil {
				return nil, err
			}
			defer r.Close()
			w.Write([]byte("short"))
			w.Close()
			return StartSigner(t.Context(), r, [32]byte{}, one)
		},
		"context": func() (*Signer, error) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return StartSigner(ctx, bytes.NewReader(testSecret()), [32]byte{}, one)
		},
	} {
		if s, err := f(); err == nil || s != nil {
			t.Errorf("%s: started", name)
		}
	}
}

// TestSignerProcess looks at the process from outside, as root and, for
// root, as somebody else.
func TestSignerProcess(t *testing.T) {
	t.Setenv("TRUEGREEN_TEST_SECRET", "hunter2")
	leak, err := unix.Open("/dev/null", unix.O_RDONLY, 0) // no close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leak)
	secret := testSecret()
	s, err := StartSigner(t.Context(), bytes.NewReader(secret), [32]byte{}, [][]byte{[]byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.MAC(0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	dir := "/proc/" + strconv.Itoa(s.proc.Pid)
	cmdline, err := os.ReadFile(dir + "/cmdline")
	if err != nil || string(cmdline) != nameSigner+"\x00" {
		t.Errorf("command line %q, %v", cmdline, err)
	}
	environ, err := os.ReadFile(dir + "/environ")
	if os.Geteuid() == 0 {
		if err != nil || string(environ) != "GOMAXPROCS=1\x00" {
			t.Errorf("environment %q, %v", environ, err)
		}
	} else if err == nil {
		t.Error("the environment is readable: the process is dumpable")
	}
	for _, b := range [][]byte{cmdline, environ} {
		if bytes.Contains(b, secret) || strings.Contains(string(b), hex.EncodeToString(secret)) {
			t.Error("the key shows")
		}
	}
	if b, err := os.ReadFile(dir + "/limits"); err != nil || !bytes.Contains(b, []byte("Max core file size        0 ")) {
		t.Errorf("core files are not off: %v", err)
	}

	for _, file := range []string{"mem", "environ", "maps", "fd", "auxv"} {
		p := dir + "/" + file
		if os.Geteuid() != 0 {
			if err := openErr(p, unix.O_RDONLY); err == nil {
				t.Errorf("%s can be opened by the same user", p)
			}
			continue
		}
		c := exec.Command("cat", p)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := c.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("denied")) && !bytes.Contains(out, []byte("directory")) {
			t.Errorf("%s read by another user: %q, %v", p, out, err)
		}
	}
}

func TestSignerClose(t *testing.T) {
	t.Parallel()
	s, err := StartSigner(t.Context(), bytes.NewReader(testSecret()), [32]byte{}, [][]byte{nil})
	if err != nil {
		t.Fatal(err)
	}
	pid := s.proc.Pid
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		t.Errorf("process after Close: %v", err)
	}
	if _, err := s.MAC(0, nil); err == nil {
		t.Error("a MAC after Close")
	}
}

// TestSignerOutOfReach: a command in a sandbox does not see the signer.
func TestSignerOutOfReach(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		s, err := StartSigner(t.Context(), bytes.NewReader(testSecret()), [32]byte{}, [][]byte{nil})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		pid := strconv.Itoa(s.proc.Pid)
		_, out := mustRun(t, mode, Spec{Argv: sh("ls -d /proc/" + pid + "; kill -9 " + pid + "; cat /proc/[0-9]*/cmdline | tr '\\0' ' '")})
		if strings.Contains(out.stdout.String(), nameSigner) || strings.Contains(out.stdout.String(), "/proc/"+pid+"\n") {
			t.Errorf("saw %q", out.stdout.String())
		}
		if _, err := s.MAC(0, nil); err != nil {
			t.Errorf("MAC after the sandbox: %v", err)
		}
	})
}

func BenchmarkMAC(b *testing.B) {
	s, err := StartSigner(b.Context(), bytes.NewReader(testSecret()), [32]byte{}, [][]byte{nil})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	msg := make([]byte, 220)
	for b.Loop() {
		if _, err := s.MAC(0, msg); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSignerStart(b *testing.B) {
	for b.Loop() {
		s, err := StartSigner(b.Context(), bytes.NewReader(testSecret()), [32]byte{}, [][]byte{nil})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}
