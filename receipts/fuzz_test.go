package receipts

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"
)

// Every decoder is held to one property: what parses, encodes to the same bytes.
// No decoder returns a part of a value with an error.

func FuzzFrame(f *testing.F) {
	r := sampleRun(f)
	start := 0
	for _, end := range r.ends {
		f.Add(r.log.Bytes()[start:end])
		start = end
	}
	f.Add(appendFrame(nil, &Frame{Actor: Adapter, Kind: TaskKilled, Redaction: Redacted, Seq: 1<<64 - 1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, n, reason := DecodeFrame(b)
		if reason != "" {
			if !reflect.DeepEqual(frame, Frame{}) || n != 0 {
				t.Fatalf("%s, and %+v of %d bytes", reason, frame, n)
			}
			return
		}
		// Only LogReader checks the two hashes that an encoder computes.
		again := frame
		encoded := appendFrame(nil, &again)
		copy(encoded[n-32-len(frame.Payload)-64:], frame.PayloadHash[:])
		copy(encoded[n-32:], frame.Hash[:])
		if !bytes.Equal(encoded, b[:n]) {
			t.Fatalf("%x decodes as %+v, which encodes as %x", b[:n], frame, encoded)
		}
	})
}

func FuzzLog(f *testing.F) {
	r := sampleRun(f)
	f.Add(r.log.Bytes())
	f.Add(r.log.Bytes()[:r.ends[2]])
	f.Add(rehash(f, r.log.Bytes(), 6, func(frame *Frame) { frame.Seq = 1<<64 - 1 }))
	f.Fuzz(func(t *testing.T, log []byte) {
		var again bytes.Buffer
		w := NewLogWriter(&again)
		l := NewLogReader(bytes.NewReader(log), MaxPayload)
		for {
			frame, err := l.Next()
			if err != nil {
				if frame != nil {
					t.Fatalf("%v, and %+v", err, *frame)
				}
				var broken *LogError
				if whole := int(l.Offset()) == len(log); whole != (err == io.EOF) || !whole && !errors.As(err, &broken) {
					t.Fatalf("%d of %d bytes: %v", l.Offset(), len(log), err)
				}
				break
			}
			c := *frame
			if _, err := w.Append(&c); err != nil {
				t.Fatalf("%+v verifies, but is refused: %v", c, err)
			}
		}
		if !bytes.Equal(again.Bytes(), log[:l.Offset()]) || w.Head() != l.Head() || w.Frames() != l.Frames() {
			t.Fatalf("%x verifies, and encodes as %x", log[:l.Offset()], again.Bytes())
		}
	})
}

func FuzzRecord(f *testing.F) {
	for _, n := range []int{0, 1, 5} {
		r := testReceipt(n)
		f.Add(r.AppendRecord(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRecord(b)
		if err != nil {
			if !reflect.DeepEqual(r, Receipt{}) {
				t.Fatalf("%v, and %+v", err, r)
			}
			return
		}
		if again := r.AppendRecord(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x parses, and encodes as %x", b, again)
		}
	})
}

// checkMalleability fails the test unless v, which parsed from data with err, is
// zero after an error and encodes to data otherwise.
func checkMalleability(t *testing.T, data []byte, v any, err error) {
	t.Helper()
	if err != nil {
		if !reflect.Indirect(reflect.ValueOf(v)).IsZero() {
			t.Fatalf("%q: %v, and %+v", data, err, v)
		}
		return
	}
	if again, err := Encode(v); err != nil || !bytes.Equal(again, data) {
		t.Fatalf("%q parses, and encodes as %q, %v", data, again, err)
	}
}

func FuzzArgs(f *testing.F) {
	f.Add([]byte(fullArgs))
	for _, blob := range sampleRun(f).blobs {
		f.Add(blob)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := ParseArgs(data)
		checkMalleability(t, data, v, err)
	})
}

func FuzzResult(f *testing.F) {
	f.Add([]byte(fullResult))
	for _, blob := range sampleRun(f).blobs {
		f.Add(blob)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := ParseResult(data)
		checkMalleability(t, data, v, err)
	})
}

func FuzzNote(f *testing.F) {
	for frame, err := range frames(sampleRun(f).log.Bytes()) {
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.Clone(frame.Payload))
	}
	f.Add([]byte(`{"v":1,"frames":2,"receipts":0,"head":"0000000000000000000000000000000000000000000000000000000000000000","resealed":true,"why":{"b64":"/w=="}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var o Opening
		checkMalleability(t, data, &o, decodeNote(data, &o, &o.V))
		var s Start
		checkMalleability(t, data, &s, decodeNote(data, &s, &s.V))
		var r Risk
		checkMalleability(t, data, &r, decodeNote(data, &r, &r.V))
		var c Closing
		checkMalleability(t, data, &c, decodeNote(data, &c, &c.V))
	})
}

func FuzzCheckpoint(f *testing.F) {
	p, _, _ := sampleProof(f)
	f.Add(p.Checkpoint)
	f.Add([]byte("o\n0\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseCheckpoint(text)
		if err != nil {
			if !reflect.DeepEqual(c, Checkpoint{}) {
				t.Fatalf("%v, and %+v", err, c)
			}
			return
		}
		if again, err := c.Append(nil); err != nil || !bytes.Equal(again, text) {
			t.Fatalf("%q parses, and encodes as %q, %v", text, again, err)
		}
	})
}

func FuzzProof(f *testing.F) {
	p, frame, c := sampleProof(f)
	for range 2 {
		text, err := p.Append(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		p.Extra, p.Checkpoint = []byte{0, 0xff}, append(p.Checkpoint, "\n— o AAAAAAE=\n"...)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ParseProof(text)
		if err != nil {
			if !reflect.DeepEqual(p, Proof{}) {
				t.Fatalf("%v, and %+v", err, p)
			}
			return
		}
		if again, err := p.Append(nil); err != nil || !bytes.Equal(again, text) {
			t.Fatalf("%q parses, and encodes as %q, %v", text, again, err)
		}
		if _, err := ParseCheckpoint(p.Text()); err != nil {
			t.Fatalf("%q parses with the note text %q: %v", text, p.Text(), err)
		}
		if p.Check(frame, c.Root, c.Size) == nil && p.Index != 2 {
			t.Fatalf("frame 2 is at %d", p.Index)
		}
	})
}

// FuzzRun builds logs out of payloads, since random bytes hardly ever have the
// right hashes, and expects that a forger without the key gets no receipt in.
func FuzzRun(f *testing.F) {
	for frame, err := range frames(sampleRun(f).log.Bytes()) {
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(frame.Kind), bytes.Clone(frame.Payload), byte(TaskFailed), []byte(`{"v":1,"frames":3,"receipts":0,"head":"0000000000000000000000000000000000000000000000000000000000000000"}`))
	}
	f.Add(byte(RiskDetected), []byte(`{"v":1,"code":"c","detail":""}`), byte(ToolCallStarted), []byte(`{"v":1,"call":1,"tool":"test","args":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}`))
	f.Fuzz(func(t *testing.T, kind1 byte, payload1 []byte, kind2 byte, payload2 []byte) {
		r := newTestRun(t)
		if Kind(kind1) >= kinds || Kind(kind2) >= kinds || len(payload1) > MaxPayload || len(payload2) > MaxPayload {
			return
		}
		r.frame(Kind(kind1), payload1)
		r.frame(Kind(kind2), payload2)
		run, err := r.read()
		if run == nil || run.Frames > 3 || err == nil && run.Frames != 3 {
			t.Fatalf("%+v, %v", run, err)
		}
		if len(run.Receipts) != 0 || run.Closing != nil && run.Closing.Receipts != 0 {
			t.Fatalf("a receipt without the key: %+v", run)
		}
		if err == nil {
			if err := run.Join(r.blobs); err != nil {
				t.Fatalf("a run without receipts does not join: %v", err)
			}
		}
		if linked, err := ReadRun(bytes.NewReader(r.log.Bytes()), nil); err == nil {
			_ = linked.Join(r.blobs)
		}
	})
}
