package bundle

import (
	"bytes"
	"crypto/sha256"
	"io"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/truegreen-dev/truegreen/receipts"
)

// benchBundle is 64 MiB of log-like blobs of many sizes, in a spool.
func benchBundle(b *testing.B) (Members, []byte) {
	m := memory{seal: []byte("seal\n"), log: content("log", 1<<20)}
	for i, total := 0, 0; total < 64<<20; i++ {
		n := 200 << (i % 14)
		m.blobs = append(m.blobs, content(string(receipts.Sum([]byte{byte(i), byte(i >> 8)}).String()[:8]), n))
		total += n
	}
	file := m.write(b)
	spool, err := NewSpool(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for _, blob := range m.blobs {
		if _, err := spool.Put(blob); err != nil {
			b.Fatal(err)
		}
	}
	members := m.members()
	members.Open = spool.Open
	return members, file
}

// BenchmarkWalk reports as "ratio" the speed of Walk over that of a plain
// decoder whose output goes through SHA-256, in the same run.
func BenchmarkWalk(b *testing.B) {
	_, file := benchBundle(b)
	var plain, walk time.Duration
	var n int64
	for b.Loop() {
		start := time.Now()
		d, err := zstd.NewReader(bytes.NewReader(file))
		if err != nil {
			b.Fatal(err)
		}
		h := sha256.New()
		if n, err = io.Copy(h, d); err != nil {
			b.Fatal(err)
		}
		d.Close()
		plain += time.Since(start)

		start = time.Now()
		r, err := Open(bytes.NewReader(file), int64(len(file)), Limits{})
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Walk(func(Entry, io.Reader) error { return nil }); err != nil {
			b.Fatal(err)
		}
		walk += time.Since(start)
	}
	b.ReportMetric(plain.Seconds()/walk.Seconds(), "ratio")
	b.ReportMetric(float64(n)*float64(b.N)/walk.Seconds()/1e6, "MB/s")
}

// BenchmarkWrite reports as "ratio" the speed of Write over that of SHA-256
// and the plain encoder, in the same run.
func BenchmarkWrite(b *testing.B) {
	m, file := benchBundle(b)
	d, err := zstd.NewReader(bytes.NewReader(file))
	if err != nil {
		b.Fatal(err)
	}
	tar, err := io.ReadAll(d)
	if err != nil {
		b.Fatal(err)
	}
	d.Close()
	var plain, write time.Duration
	for b.Loop() {
		start := time.Now()
		sha256.Sum256(tar)
		e, err := zstd.NewWriter(io.Discard, zstd.WithWindowSize(windowLen), zstd.WithEncoderConcurrency(encoderThreads))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := e.Write(tar); err != nil {
			b.Fatal(err)
		}
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
		plain += time.Since(start)

		start = time.Now()
		if err := Write(io.Discard, m); err != nil {
			b.Fatal(err)
		}
		write += time.Since(start)
	}
	b.ReportMetric(plain.Seconds()/write.Seconds(), "ratio")
	b.ReportMetric(float64(len(tar))*float64(b.N)/write.Seconds()/1e6, "MB/s")
}
