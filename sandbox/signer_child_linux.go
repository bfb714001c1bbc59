//go:build amd64 || arm64

package sandbox

import (
	"bufio"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// The signer reads requests from 0 and writes answers to 1. First comes the
// salt, the number of slots, and for each a length and its info; the answer
// is one byte. Then each request is a slot, a length and a message, each
// answer a MAC. Numbers are 32 bits, big endian.
const (
	fdSecret    = 3
	secretSize  = 32
	maxSlots    = 16
	maxInfo     = 4 << 10
	maxMessage  = 64 << 10
	signerReady = 'K'
	signerBad   = 'E'
)

// signerMain is the key holder. It ends, with the key, when its parent closes
// the pipe or dies.
func signerMain() int {
	if quiet() != nil {
		return 1
	}
	if unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) != nil {
		return 1
	}
	if unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != nil {
		return 1
	}
	in := bufio.NewReaderSize(os.NewFile(0, "requests"), 8+maxMessage)
	out := os.NewFile(1, "answers")
	macs, err := deriveKeys(in)
	if err != nil {
		out.Write([]byte{signerBad})
		return 1
	}
	if _, err := out.Write([]byte{signerReady}); err != nil {
		return 1
	}
	if serve(in, out, macs) != nil {
		return 1
	}
	return 0
}

func deriveKeys(in io.Reader) ([]hash.Hash, error) {
	f := os.NewFile(fdSecret, "secret")
	secret := make([]byte, secretSize+1)
	defer clear(secret)
	n, err := io.ReadFull(f, secret)
	f.Close()
	if n != secretSize || !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.New("secret is not 32 bytes")
	}
	var salt [32]byte
	if _, err := io.ReadFull(in, salt[:]); err != nil {
		return nil, err
	}
	slots, err := readUint32(in, maxSlots)
	if err != nil {
		return nil, err
	}
	macs := make([]hash.Hash, slots)
	for i := range macs {
		n, err := readUint32(in, maxInfo)
		if err != nil {
			return nil, err
		}
		info := make([]byte, n)
		if _, err := io.ReadFull(in, info); err != nil {
			return nil, err
		}
		key, err := hkdf.Key(sha256.New, secret[:secretSize], salt[:], string(info), sha256.Size)
		if err != nil {
			return nil, err
		}
		macs[i] = hmac.New(sha256.New, key)
		clear(key)
	}
	return macs, nil
}

func serve(in *bufio.Reader, out io.Writer, macs []hash.Hash) error {
	var sum [sha256.Size]byte
	for {
		if _, err := in.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		slot, err := readUint32(in, uint32(len(macs)-1))
		if err != nil {
			return err
		}
		n, err := readUint32(in, maxMessage)
		if err != nil {
			return err
		}
		h := macs[slot]
		h.Reset()
		if _, err := io.CopyN(h, in, int64(n)); err != nil {
			return err
		}
		if _, err := out.Write(h.Sum(sum[:0])); err != nil {
			return err
		}
	}
}

func readUint32(r io.Reader, limit uint32) (uint32, error) {
	var b [4]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint32(b[:])
	if n > limit {
		return 0, errors.New("number over its limit")
	}
	return n, nil
}
