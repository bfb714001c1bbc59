package receipts

import (
	"bytes"
	"encoding/base64"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

// sampleProof returns the proof of frame 2 of the sample run, that frame, and the
// run's checkpoint.
func sampleProof(t testing.TB) (Proof, []byte, Checkpoint) {
	t.Helper()
	r := sampleRun(t)
	run, err := r.read()
	if err != nil {
		t.Fatal(err)
	}
	p, frame, err := Prove(bytes.NewReader(r.log.Bytes()), 2)
	if err != nil {
		t.Fatal(err)
	}
	c := Checkpoint{Origin: "example.org/run", Size: run.Frames, Root: run.Root, Extensions: []string{"outcome passed"}}
	if p.Checkpoint, err = c.Append(nil); err != nil {
		t.Fatal(err)
	}
	return p, frame, c
}

func TestProofCheck(t *testing.T) {
	t.Parallel()
	p, frame, c := sampleProof(t)
	if err := p.Check(frame, c.Root, c.Size); err != nil {
		t.Fatal(err)
	}
	other := Sum(nil)
	for name, err := range map[string]error{
		"another frame":  p.Check(append(bytes.Clone(frame), 0), c.Root, c.Size),
		"no frame":       p.Check(nil, c.Root, c.Size),
		"another root":   p.Check(frame, other, c.Size),
		"larger":         p.Check(frame, c.Root, 9),
		"smaller":        p.Check(frame, c.Root, 4),
		"index at size":  p.Check(frame, c.Root, 2),
		"empty":          p.Check(frame, c.Root, 0),
		"beyond 2^63":    p.Check(frame, c.Root, math.MaxUint64),
		"another index":  (&Proof{Index: 3, Hashes: p.Hashes}).Check(frame, c.Root, c.Size),
		"fewer hashes":   (&Proof{Index: 2, Hashes: p.Hashes[1:]}).Check(frame, c.Root, c.Size),
		"more hashes":    (&Proof{Index: 2, Hashes: append(p.Hashes[:len(p.Hashes):len(p.Hashes)], other)}).Check(frame, c.Root, c.Size),
		"another hash":   (&Proof{Index: 2, Hashes: append(p.Hashes[:len(p.Hashes)-1:len(p.Hashes)-1], other)}).Check(frame, c.Root, c.Size),
		"the zero proof": new(Proof).Check(frame, c.Root, c.Size),
		"an inner node":  (&Proof{Index: 0, Hashes: p.Hashes[1:]}).Check(append([]byte{1}, p.Hashes[0][:]...), c.Root, 4),
		"largest tree":   (&Proof{Index: 2, Hashes: make([]Digest, maxPath)}).Check(frame, c.Root, maxTree),
		"larger tree":    (&Proof{Index: 2, Hashes: make([]Digest, maxPath+1)}).Check(frame, c.Root, maxTree+1),
		"beyond int64":   (&Proof{Index: 2, Hashes: make([]Digest, 1000)}).Check(frame, c.Root, math.MaxInt64+1),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestProve(t *testing.T) {
	t.Parallel()
	r := sampleRun(t)
	for _, index := range []uint64{7, 8, math.MaxUint64} {
		if p, frame, err := Prove(bytes.NewReader(r.log.Bytes()), index); err == nil || frame != nil || !reflect.DeepEqual(p, Proof{}) {
			t.Errorf("frame %d of 7: %+v, %v", index, p, err)
		}
	}
	p, frame, err := Prove(bytes.NewReader(r.log.Bytes()[:r.ends[3]+5]), 1)
	checkLogError(t, "torn log", errors.Unwrap(err), 4, Truncated)
	if frame != nil || !reflect.DeepEqual(p, Proof{}) {
		t.Errorf("torn log: %+v", p)
	}
}

func TestProofText(t *testing.T) {
	t.Parallel()
	p, _, _ := sampleProof(t)
	signed := string(p.Checkpoint) + "\n— example.org/run AAAAAAE=\n"
	for _, c := range []struct {
		name       string
		extra      string
		hashes     int
		checkpoint string
	}{
		{"note text alone", "", 3, string(p.Checkpoint)},
		{"signed", "", 3, signed},
		{"two signatures", "", 3, signed + "— witness AAAAAAI=\n"},
		{"extra", "\x00\xff", 3, signed},
		{"one leaf", "", 0, signed},
		{"longest path", "e", maxPath, signed},
	} {
		want := Proof{Index: math.MaxUint64, Checkpoint: []byte(c.checkpoint)}
		if c.extra != "" {
			want.Extra = []byte(c.extra)
		}
		for i := range c.hashes {
			want.Hashes = append(want.Hashes, Sum([]byte{byte(i)}))
		}
		text, err := want.Append(nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got, err := ParseProof(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
		if !bytes.Equal(got.Text(), p.Checkpoint) {
			t.Errorf("%s: note text %q", c.name, got.Text())
		}
	}
}

func TestProofRefused(t *testing.T) {
	t.Parallel()
	p, _, _ := sampleProof(t)
	text, err := p.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	good := string(text)
	hash := base64.StdEncoding.EncodeToString(p.Hashes[0][:]) + "\n"
	if !strings.Contains(good, hash) {
		t.Fatalf("no %q in %q", hash, good)
	}
	replace := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("no %q in %q", old, good)
		}
		return strings.Replace(good, old, new, 1)
	}
	for name, text := range map[string]string{
		"empty":                   "",
		"header alone":            proofHeader,
		"version 2":               replace("@v1", "@v2"),
		"CR LF":                   strings.ReplaceAll(good, "\n", "\r\n"),
		"no index":                replace("index 2\n", ""),
		"index -1":                replace("index 2", "index -1"),
		"index +2":                replace("index 2", "index +2"),
		"index 02":                replace("index 2", "index 02"),
		"index with two spaces":   replace("index 2", "index  2"),
		"index 2^64":              replace("index 2", "index 18446744073709551616"),
		"empty extra":             replace("index", "extra \nindex"),
		"two extras":              replace("index", "extra AA==\nextra AA==\nindex"),
		"extra behind the index":  replace("index 2\n", "index 2\nextra AA==\n"),
		"extra unpadded":          replace("index", "extra AA\nindex"),
		"extra with stray bits":   replace("index", "extra AB==\nindex"),
		"extra with CR":           replace("index", "extra AA==\r\nindex"),
		"hash with CR":            replace(hash, hash[:10]+"\r"+hash[10:]),
		"hash of 31 bytes":        replace(hash, base64.StdEncoding.EncodeToString(make([]byte, 31))+"\n"),
		"hash of 33 bytes":        replace(hash, base64.StdEncoding.EncodeToString(make([]byte, 33))+"\n"),
		"hash in hex":             replace(hash, p.Hashes[0].String()+"\n"),
		"hash, URL alphabet":      replace(hash, strings.Repeat("_", 42)+"8=\n"),
		"63 hashes":               replace(hash, strings.Repeat(hash, maxPath)),
		"no checkpoint":           good[:strings.Index(good, "\n\n")+2],
		"no blank line":           good[:strings.Index(good, "\n\n")+1],
		"checkpoint without root": good[:strings.Index(good, "\n\n")+2] + "origin\n7\n",
		"blank line at the end":   good + "\n",
		"signature not ended":     good + "\n— example.org/run AAAAAAE=",
		"signature not UTF-8":     good + "\n\xff\n",
		"checkpoint not ended":    good[:len(good)-1],
		"too large":               good + "\n" + strings.Repeat("x", MaxProof) + "\n",
	} {
		if got, err := ParseProof([]byte(text)); err == nil || !reflect.DeepEqual(got, Proof{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, p := range map[string]Proof{
		"zero":           {},
		"63 hashes":      {Hashes: make([]Digest, 63), Checkpoint: p.Checkpoint},
		"large extra":    {Extra: make([]byte, MaxProof), Checkpoint: p.Checkpoint},
		"no checkpoint":  {Hashes: p.Hashes},
		"bad checkpoint": {Checkpoint: p.Checkpoint[1:3]},
	} {
		if text, err := p.Append(nil); err == nil || text != nil {
			t.Errorf("%s: encodes as %q", name, text)
		}
	}
}
