//go:build amd64 || arm64

package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Signer computes MACs in a process of its own, the only one that holds
// the key. Its methods may be called from several goroutines.
type Signer struct {
	mu    sync.Mutex
	proc  *os.Process
	req   *os.File
	resp  *os.File
	slots int
	buf   []byte
	done  chan error
	err   error // of the first failed exchange: the pipes are out of step then
}

// StartSigner starts the key holder. It reads the secret, exactly 32 bytes,
// from secret; if that is an *os.File, the process reads it from there and
// the caller never holds the bytes. Slot i signs under HKDF-SHA256(secret,
// salt, info[i]).
//
// Start it before any sandbox. Where [Result].Isolation.Level is below
// LevelContainer, nothing keeps tested code of the same user from the
// process: there, close it before each Run and start it again after. Both
// are cheap.
func StartSigner(ctx context.Context, secret io.Reader, salt [32]byte, info [][]byte) (*Signer, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("signer: %w", err)
	}
	if len(info) == 0 || len(info) > maxSlots {
		return nil, fmt.Errorf("signer: %d slots, want 1 to %d", len(info), maxSlots)
	}
	setup := append([]byte{}, salt[:]...)
	setup = binary.BigEndian.AppendUint32(setup, uint32(len(info)))
	for _, b := range info {
		if len(b) > maxInfo {
			return nil, fmt.Errorf("signer: info of %d bytes, more than %d", len(b), maxInfo)
		}
		setup = binary.BigEndian.AppendUint32(setup, uint32(len(b)))
		setup = append(setup, b...)
	}
	s := &Signer{slots: len(info), done: make(chan error, 1)}
	if err := s.start(secret); err != nil {
		return nil, fmt.Errorf("signer: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { s.proc.Kill() })
	_, err := s.req.Write(setup)
	var ready [1]byte
	if err == nil {
		_, err = io.ReadFull(s.resp, ready[:])
	}
	if err == nil && ready[0] != signerReady {
		err = errors.New("the secret is not exactly 32 bytes")
	}
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("signer: %w", err)
	}
	return s, nil
}

func (s *Signer) start(secret io.Reader) error {
	key, ok := secret.(*os.File)
	if !ok {
		r, err := keyPipe(secret)
		if err != nil {
			return err
		}
		defer r.Close()
		key = r
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	reqR, reqW, err := blockingPipe()
	if err != nil {
		return err
	}
	defer reqR.Close()
	respR, respW, err := blockingPipe()
	if err != nil {
		reqW.Close()
		return err
	}
	defer respW.Close()
	s.req, s.resp = reqW, respR

	attr := &os.ProcAttr{
		Dir:   "/",
		Env:   []string{"GOMAXPROCS=1"},
		Files: []*os.File{reqR, respW, null, key},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the parent whose death the signal reports
		defer runtime.UnlockOSThread()
		var err error
		s.proc, err = os.StartProcess("/proc/self/exe", []string{nameSigner}, attr)
		started <- err
		if err == nil {
			_, err = s.proc.Wait()
			s.done <- err
		}
	}()
	if err := <-started; err != nil {
		s.req.Close()
		s.resp.Close()
		return err
	}
	return nil
}

// keyPipe moves the secret into a pipe and clears what it held of it.
func keyPipe(secret io.Reader) (*os.File, error) {
	buf := make([]byte, secretSize+1)
	defer clear(buf)
	n, err := io.ReadFull(secret, buf)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	if n != secretSize {
		return nil, errors.New("the secret is not exactly 32 bytes")
	}
	r, w, err := blockingPipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if _, err := w.Write(buf[:n]); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// blockingPipe makes a pipe whose reads and writes block their thread: for
// one short exchange that is faster than parking the goroutine.
func blockingPipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}

// MAC returns HMAC-SHA256 of msg, at most 64 KiB, under the key of a slot.
func (s *Signer) MAC(slot int, msg []byte) ([32]byte, error) {
	var mac [32]byte
	if slot < 0 || slot >= s.slots {
		return mac, fmt.Errorf("signer: no slot %d", slot)
	}
	if len(msg) > maxMessage {
		return mac, fmt.Errorf("signer: message of %d bytes, more than %d", len(msg), maxMessage)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return mac, s.err
	}
	s.buf = binary.BigEndian.AppendUint32(s.buf[:0], uint32(slot))
	s.buf = binary.BigEndian.AppendUint32(s.buf, uint32(len(msg)))
	s.buf = append(s.buf, msg...)
	_, err := s.req.Write(s.buf)
	if err == nil {
		_, err = io.ReadFull(s.resp, mac[:])
	}
	if err != nil {
		s.err = fmt.Errorf("signer: %w", err)
		return [32]byte{}, s.err
	}
	return mac, nil
}

// Close ends the process and waits for its end.
func (s *Signer) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		return nil
	}
	s.req.Close()
	t := time.AfterFunc(2*time.Second, func() { s.proc.Kill() })
	err := <-s.done
	t.Stop()
	s.resp.Close()
	s.done = nil
	if s.err == nil {
		s.err = errors.New("signer: closed")
	}
	return err
}
