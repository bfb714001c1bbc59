package bundle

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/truegreen-dev/truegreen/receipts"
)

// A raw member is written as it is, right or wrong.
type raw struct {
	name    string
	content []byte
	header  func(*[blockLen]byte) // changes the header, before its checksum
	pad     []byte                // instead of zeros
}

func (r raw) bytes(t testing.TB) []byte {
	t.Helper()
	h, err := header(r.name, int64(len(r.content)))
	if err != nil {
		t.Fatal(err)
	}
	if r.header != nil {
		r.header(&h)
		sumHeader(&h)
	}
	pad := make([]byte, padLen(int64(len(r.content))))
	copy(pad, r.pad)
	return slices.Concat(h[:], r.content, pad)
}

func sumHeader(h *[blockLen]byte) {
	copy(h[148:], "        ")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	for i := range 6 {
		h[148+i] = '0' + byte(sum>>(15-3*i)&7)
	}
	h[154] = 0
}

func (m memory) raw() []raw {
	rs := []raw{{name: "seal", content: m.seal}, {name: "seal.mac", content: m.mac}, {name: "seal.sig", content: m.sig}, {name: "log", content: m.log}}
	for _, d := range m.members().Blobs {
		i := slices.IndexFunc(m.blobs, func(b []byte) bool { return receipts.Sum(b) == d })
		rs = append(rs, raw{name: blobName(d), content: m.blobs[i]})
	}
	return rs
}

func tarOf(t testing.TB, members []raw) []byte {
	t.Helper()
	var tar []byte
	for _, r := range members {
		tar = append(tar, r.bytes(t)...)
	}
	return append(tar, zeroBlocks[:]...)
}

// frame compresses b into one frame of the form that bundles have.
func frame(t testing.TB, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	f, err := newFrameWriter(&buf)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// unpack decodes a file without any of our checks.
func unpack(t testing.TB, file []byte) []byte {
	t.Helper()
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	tar, err := d.DecodeAll(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tar
}

func TestFrameIsWhatWriteMakes(t *testing.T) {
	t.Parallel()
	m := small()
	if !bytes.Equal(frame(t, tarOf(t, m.raw())), m.write(t)) {
		t.Fatal("the hostile tests do not start from a bundle")
	}
}

func TestHostileTar(t *testing.T) {
	t.Parallel()
	m := small()
	blob := m.raw()[4].name
	last := m.raw()[7].name
	set := func(at int, s string) func(*[blockLen]byte) {
		return func(h *[blockLen]byte) { copy(h[at:], s) }
	}
	for _, test := range []struct {
		name         string
		edit         func([]raw) []raw
		code, member string
	}{
		{"nothing", func(r []raw) []raw { return r }, "", ""},
		{"no mac", func(r []raw) []raw { return slices.Delete(r, 1, 2) }, "", ""},
		{"no sig", func(r []raw) []raw { return slices.Delete(r, 2, 3) }, "", ""},
		{"no mac and sig", func(r []raw) []raw { return slices.Delete(r, 1, 3) }, "", ""},
		{"no blobs", func(r []raw) []raw { return r[:4] }, "", ""},
		{"no seal", func(r []raw) []raw { return r[1:] }, MalformedMember, "seal.mac"},
		{"only blobs", func(r []raw) []raw { return r[4:] }, MalformedMember, blob},
		{"no log", func(r []raw) []raw { return slices.Delete(r, 3, 4) }, MalformedMember, blob},
		{"only seal", func(r []raw) []raw { return r[:1] }, MalformedMember, ""},
		{"nothing at all", func(r []raw) []raw { return nil }, NotABundle, ""},
		{"seal twice", func(r []raw) []raw { return slices.Insert(r, 1, r[0]) }, MalformedMember, "seal"},
		{"mac twice", func(r []raw) []raw { return slices.Insert(r, 1, r[1]) }, MalformedMember, "seal.mac"},
		{"sig twice", func(r []raw) []raw { return slices.Insert(r, 2, r[2]) }, MalformedMember, "seal.sig"},
		{"log twice", func(r []raw) []raw { return slices.Insert(r, 3, r[3]) }, MalformedMember, "log"},
		{"blob twice", func(r []raw) []raw { return slices.Insert(r, 4, r[4]) }, MalformedMember, blob},
		{"seal again at the end", func(r []raw) []raw { return append(r, r[0]) }, MalformedMember, "seal"},
		{"log after blobs", func(r []raw) []raw { return append(slices.Delete(slices.Clone(r), 3, 4), r[3]) }, MalformedMember, blob},
		{"mac after sig", func(r []raw) []raw { r[1], r[2] = r[2], r[1]; return r }, MalformedMember, "seal.mac"},
		{"mac first", func(r []raw) []raw { r[0], r[1] = r[1], r[0]; return r }, MalformedMember, "seal.mac"},
		{"log before mac", func(r []raw) []raw { r[1], r[3] = r[3], r[1]; return r }, MalformedMember, "seal.sig"},
		{"blobs descend", func(r []raw) []raw { r[4], r[7] = r[7], r[4]; return r }, MalformedMember, r5(m)},
		{"blob renamed", func(r []raw) []raw { r[7].content = r[6].content; return r }, BlobMismatch, last},
		{"blob empty", func(r []raw) []raw { r[7].content = nil; return r }, BlobMismatch, last},
		{"blob longer", func(r []raw) []raw { r[7].content = append(r[7].content, 0); return r }, BlobMismatch, last},
		{"blob of zero digest", func(r []raw) []raw {
			return slices.Insert(r, 4, raw{name: blobName(receipts.Digest{}), content: []byte("x")})
		}, BlobMismatch, blobName(receipts.Digest{})},
		{"unknown name", func(r []raw) []raw { return append(r, raw{name: "manifest"}) }, MalformedMember, ""},
		{"another hash", func(r []raw) []raw { r[7].name = "blobs/sha512/" + r[7].name[13:]; return r }, MalformedMember, ""},
		{"upper case", func(r []raw) []raw { r[7].name = blobPrefix + strings.ToUpper(r[7].name[13:]); return r }, MalformedMember, ""},
		{"short digest", func(r []raw) []raw { r[7].name = r[7].name[:70]; return r }, MalformedMember, ""},
		{"dot", func(r []raw) []raw { r[0].name = "./seal"; return r }, NotABundle, ""},
		{"slash", func(r []raw) []raw { r[3].name = "/log"; return r }, MalformedMember, ""},
		{"dot dot", func(r []raw) []raw { return append(r, raw{name: "blobs/sha256/../../log"}) }, MalformedMember, ""},
		{"directory", func(r []raw) []raw { return slices.Insert(r, 4, raw{name: "blobs/", header: set(156, "5")}) }, MalformedMember, ""},
		{"seal empty", func(r []raw) []raw { r[0].content = nil; return r }, MalformedMember, "seal"},
		{"mac empty", func(r []raw) []raw { r[1].content = nil; return r }, MalformedMember, "seal.mac"},
		{"seal large", func(r []raw) []raw { r[0].content = make([]byte, maxSeal+1); return r }, LimitExceeded, "seal"},
		{"mac large", func(r []raw) []raw { r[1].content = make([]byte, maxMAC+1); return r }, LimitExceeded, "seal.mac"},
		{"sig large", func(r []raw) []raw { r[2].content = make([]byte, maxSig+1); return r }, LimitExceeded, "seal.sig"},
		{"seal at its limit", func(r []raw) []raw { r[0].content = make([]byte, maxSeal); return r }, "", ""},
		{"padding", func(r []raw) []raw { r[3].pad = []byte{0, 0, 1}; return r }, MalformedMember, "log"},
		{"padding of the seal", func(r []raw) []raw { r[0].pad = []byte{1}; return r }, MalformedMember, "seal"},
		{"padding of a blob", func(r []raw) []raw { r[7].pad = []byte{0, 9}; return r }, MalformedMember, last},
		{"first header", func(r []raw) []raw { r[0].header = set(100, "0000644"); return r }, NotABundle, ""},

		{"mode", func(r []raw) []raw { r[3].header = set(100, "0000644"); return r }, MalformedMember, ""},
		{"mode in another form", func(r []raw) []raw { r[3].header = set(100, "000444 "); return r }, MalformedMember, ""},
		{"uid", func(r []raw) []raw { r[3].header = set(108, "0001750"); return r }, MalformedMember, ""},
		{"gid", func(r []raw) []raw { r[3].header = set(116, "0001750"); return r }, MalformedMember, ""},
		{"size in another form", func(r []raw) []raw { r[3].header = set(124, "00000001604 "); return r }, MalformedMember, ""},
		{"size with blanks", func(r []raw) []raw { r[3].header = set(124, "       1604"); return r }, MalformedMember, ""},
		{"size in base 256", func(r []raw) []raw {
			r[3].header = set(124, "\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x84")
			return r
		}, MalformedMember, ""},
		{"mtime", func(r []raw) []raw { r[3].header = set(136, "00000000001"); return r }, MalformedMember, ""},
		{"old type", func(r []raw) []raw { r[3].header = set(156, "\x00"); return r }, MalformedMember, ""},
		{"unknown type", func(r []raw) []raw { r[3].header = set(156, "Z"); return r }, MalformedMember, ""},
		{"link", func(r []raw) []raw { r[3].header = set(156, "1seal"); return r }, MalformedMember, ""},
		{"symbolic link", func(r []raw) []raw { r[3].header = set(156, "2seal"); return r }, MalformedMember, ""},
		{"fifo", func(r []raw) []raw { r[3].header = set(156, "6"); return r }, MalformedMember, ""},
		{"PAX", func(r []raw) []raw { r[3].header = set(156, "x"); return r }, MalformedMember, ""},
		{"global PAX", func(r []raw) []raw { r[3].header = set(156, "g"); return r }, MalformedMember, ""},
		{"GNU long name", func(r []raw) []raw { r[3].header = set(156, "L"); return r }, MalformedMember, ""},
		{"GNU sparse", func(r []raw) []raw { r[3].header = set(156, "S"); return r }, MalformedMember, ""},
		{"contiguous", func(r []raw) []raw { r[3].header = set(156, "7"); return r }, MalformedMember, ""},
		{"link name", func(r []raw) []raw { r[3].header = set(157, "x"); return r }, MalformedMember, ""},
		{"after the name", func(r []raw) []raw { r[3].header = set(5, "x"); return r }, MalformedMember, ""},
		{"GNU magic", func(r []raw) []raw { r[3].header = set(257, "ustar  \x00"); return r }, MalformedMember, ""},
		{"owner", func(r []raw) []raw { r[3].header = set(265, "root"); return r }, MalformedMember, ""},
		{"group", func(r []raw) []raw { r[3].header = set(297, "root"); return r }, MalformedMember, ""},
		{"device", func(r []raw) []raw { r[3].header = set(329, "\x00\x00\x00\x00\x00\x00\x00"); return r }, MalformedMember, ""},
		{"prefix", func(r []raw) []raw { r[3].header = set(345, "x"); return r }, MalformedMember, ""},
		{"byte 500", func(r []raw) []raw { r[3].header = set(500, "x"); return r }, MalformedMember, ""},
		{"byte 511", func(r []raw) []raw { r[3].header = set(511, "x"); return r }, MalformedMember, ""},
		{"checksum", func(r []raw) []raw { r[7].header = set(344, "\x01"); return r }, MalformedMember, ""},
	} {
		file := frame(t, tarOf(t, test.edit(m.raw())))
		_, _, err := read(file, Limits{})
		if c, member := code(t, err); c != test.code || member != test.member {
			t.Errorf("%s: code %q, member %q, want %q, %q: %v", test.name, c, member, test.code, test.member, err)
		}
	}
}

// r5 is the name of the blob that comes second.
func r5(m memory) string { return m.raw()[5].name }

func TestHostileEnd(t *testing.T) {
	t.Parallel()
	m := small()
	tar := tarOf(t, m.raw())
	body := tar[:len(tar)-trailerLen]
	last := m.raw()[7].name
	for _, test := range []struct {
		name         string
		tar          []byte
		code, member string
	}{
		{"nothing", tar, "", ""},
		{"no zero block", body, MalformedMember, ""},
		{"one zero block", tar[:len(tar)-blockLen], MalformedMember, ""},
		{"a zero block less a byte", tar[:len(tar)-1], MalformedMember, ""},
		{"three zero blocks", append(bytes.Clone(tar), make([]byte, blockLen)...), MalformedMember, ""},
		{"twenty zero blocks", append(bytes.Clone(tar), make([]byte, 20*blockLen)...), MalformedMember, ""},
		{"a byte more", append(bytes.Clone(tar), 0), MalformedMember, ""},
		{"a second tar", append(bytes.Clone(tar), tar...), MalformedMember, ""},
		{"second zero block", append(bytes.Clone(tar[:len(tar)-1]), 1), MalformedMember, ""},
		{"cut in the last content", body[:len(body)-600], MalformedMember, last},
		{"cut in the last padding", body[:len(body)-1], MalformedMember, last},
	} {
		_, _, err := read(frame(t, test.tar), Limits{})
		if c, member := code(t, err); c != test.code || member != test.member {
			t.Errorf("%s: code %q, member %q, want %q, %q: %v", test.name, c, member, test.code, test.member, err)
		}
	}
}

// block returns a zstd block.
func block(last bool, kind, n int, content []byte) []byte {
	v := n<<3 | kind<<1
	if last {
		v |= 1
	}
	return append([]byte{byte(v), byte(v >> 8), byte(v >> 16)}, content...)
}

func encode(t testing.TB, b []byte, opts ...zstd.EOption) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	return e.EncodeAll(b, nil)
}

func TestHostileFrames(t *testing.T) {
	t.Parallel()
	m := small()
	tar := tarOf(t, m.raw())
	good := m.write(t)
	skippable := append(binary.LittleEndian.AppendUint32([]byte("\x50\x2a\x4d\x18"), 4), "skip"...)
	join := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	// The same frame by hand: raw blocks, then the checksum of the good one.
	sum := good[len(good)-checksumLen:]
	byHand := func(blocks ...[]byte) []byte {
		return join([]byte(frameHeader), slices.Concat(blocks...), sum)
	}
	edit := func(at int, b ...byte) []byte {
		f := bytes.Clone(good)
		copy(f[at:], b)
		return f
	}
	half := len(tar) / 2
	for _, test := range []struct {
		name, code string
		file       []byte
	}{
		{"nothing", "", good},
		{"raw blocks", "", byHand(block(false, 0, half, tar[:half]), block(true, 0, len(tar)-half, tar[half:]))},
		{"raw blocks, the last empty", "", byHand(block(false, 0, len(tar), tar), block(true, 0, 0, nil))},
		{"an empty block first", NotABundle, byHand(block(false, 0, 0, nil), block(true, 0, len(tar), tar))},
		{"an empty block between", MalformedMember, byHand(block(false, 0, half, tar[:half]), block(false, 0, 0, nil), block(true, 0, len(tar)-half, tar[half:]))},
		{"no byte, repeated", MalformedMember, byHand(block(false, 0, len(tar), tar), block(true, 1, 0, []byte{0}))},
		{"reserved block", MalformedMember, byHand(block(false, 0, half, tar[:half]), block(true, 3, len(tar)-half, tar[half:]))},
		{"large block", NotABundle, byHand(block(true, 0, maxBlockLen+1, make([]byte, maxBlockLen+1)))},
		{"no last block", Truncated, join([]byte(frameHeader), block(false, 0, len(tar), tar))},
		{"zeros repeated", "", byHand(block(false, 0, len(tar)-trailerLen, tar[:len(tar)-trailerLen]), block(true, 1, trailerLen, []byte{0}))},
		{"skippable before", NotABundle, join(skippable, good)},
		{"skippable after", MalformedMember, join(good, skippable)},
		{"skippable alone", NotABundle, skippable},
		{"twice", MalformedMember, join(good, good)},
		{"empty frame after", MalformedMember, join(good, []byte(frameHeader), block(true, 0, 0, nil), []byte("\x99\xe9\xd8\x51"))},
		{"empty frame before", NotABundle, join([]byte(frameHeader), block(true, 0, 0, nil), []byte("\x99\xe9\xd8\x51"), good)},
		{"byte after", MalformedMember, join(good, []byte{0})},
		{"magic after", MalformedMember, join(good, []byte(frameHeader))},
		{"split between members", MalformedMember, join(frame(t, tar[:2*blockLen+1024]), frame(t, tar[2*blockLen+1024:]))},
		{"split before the end", MalformedMember, join(frame(t, tar[:len(tar)-trailerLen]), frame(t, tar[len(tar)-trailerLen:]))},
		{"checksum", MalformedMember, edit(len(good)-1, ^good[len(good)-1])},
		{"no checksum", NotABundle, encode(t, tar, zstd.WithEncoderCRC(false))},
		{"content size", NotABundle, encode(t, tar)},
		{"not a single segment", NotABundle, encode(t, tar, zstd.WithSingleSegment(false))},
		{"magic", NotABundle, edit(0, 0x27)},
		{"old magic", NotABundle, edit(0, 0x27, 0xb5, 0x2f, 0xfd)},
		{"unused bit", NotABundle, edit(4, 0x14)},
		{"reserved bit", NotABundle, edit(4, 0x0c)},
		{"dictionary", NotABundle, edit(4, 0x05)},
		{"window 512 KiB", NotABundle, edit(5, 0x48)},
		{"window 1 MiB and an eighth", NotABundle, edit(5, 0x51)},
		{"window 2 MiB", NotABundle, edit(5, 0x58)},
		{"window 16 MiB", LimitExceeded, edit(5, 0x70)},
		{"window 3.75 TiB", LimitExceeded, edit(5, 0xff)},
	} {
		_, _, err := read(test.file, Limits{})
		if c, _ := code(t, err); c != test.code {
			t.Errorf("%s: code %q, want %q: %v", test.name, c, test.code, err)
		}
	}
}

// zeroFile is a large file of zeros.
type zeroFile struct{}

func (zeroFile) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}

func TestOtherFiles(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write([]byte("hello"))
	z.Close()
	tar := tarOf(t, small().raw())
	for _, test := range []struct {
		name, file, code, says string
	}{
		{"empty", "", NotABundle, "empty"},
		{"text", "hello, world\n", NotABundle, "text"},
		{"text cut inside a letter", strings.Repeat("x", blockLen-1) + "é", NotABundle, "text"},
		{"UTF-16", "\xff\xfeh\x00i\x00", NotABundle, "not zstd"},
		{"gzip", zipped.String(), NotABundle, "gzip"},
		{"zip", "PK\x03\x04\x14\x00", NotABundle, "zip"},
		{"empty zip", "PK\x05\x06" + strings.Repeat("\x00", 18), NotABundle, "zip"},
		{"tar", string(tar), NotABundle, "not compressed"},
		{"zeros", strings.Repeat("\x00", 5000), NotABundle, "zero bytes"},
		{"ELF", "\x7fELF\x02\x01\x01\x00", NotABundle, "not zstd"},
		{"a byte", "\x28", NotABundle, "start of a zstd file"},
		{"three bytes", "\x28\xb5\x2f", NotABundle, "start of a zstd file"},
		{"magic", "\x28\xb5\x2f\xfd", Truncated, "inside a zstd frame"},
		{"9 bytes that ask for 512 MiB", "\x28\xb5\x2f\xfd\x00\x98\x01\x00\x00", LimitExceeded, "window of 512 MiB"},
		{"zstd of text", string(encode(t, []byte("hello"))), NotABundle, "without a truegreen seal"},
		{"our zstd of text", string(frame(t, content("x", 5000))), NotABundle, "without a truegreen seal"},
		{"our zstd of zeros", string(frame(t, make([]byte, 50<<20))), NotABundle, "without a truegreen seal"},
	} {
		r, err := Open(strings.NewReader(test.file), int64(len(test.file)), Limits{})
		c, _ := code(t, err)
		if c != test.code || r != nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if _, err := Open(zeroFile{}, 10<<30, Limits{}); err == nil || !strings.Contains(err.Error(), "zero bytes") {
		t.Errorf("10 GiB of zeros: %v", err)
	}
}

// TestHostileMemory has the smallest inputs that ask for the most.
func TestHostileMemory(t *testing.T) {
	// Not parallel: it measures what is allocated.
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, file := range []string{
		"\x28\xb5\x2f\xfd\x00\x98\x01\x00\x00",
		"\x28\xb5\x2f\xfd\xa4\x00\x00\x00\x20\x01\x00\x00",
		"\x28\xb5\x2f\xfd\xe4\xff\xff\xff\xff\xff\xff\xff\x0f\x01\x00\x00",
	} {
		if _, err := Open(strings.NewReader(file), int64(len(file)), Limits{}); err == nil {
			t.Errorf("%x opens", file)
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20 {
		t.Errorf("allocated %d bytes", n)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	m := small()
	file := m.write(t)
	tar := unpack(t, file)
	for _, test := range []struct {
		name         string
		at           Limits
		code, member string // of one less
		less         Limits
	}{
		{"file", Limits{File: int64(len(file))}, LimitExceeded, "", Limits{File: int64(len(file)) - 1}},
		{"decoded", Limits{Decoded: int64(len(tar))}, LimitExceeded, m.raw()[7].name, Limits{Decoded: int64(len(tar)) - 1}},
		{"log", Limits{Log: 900}, LimitExceeded, "log", Limits{Log: 899}},
		{"blob", Limits{Blob: 1500}, LimitExceeded, blobName(receipts.Sum(m.blobs[3])), Limits{Blob: 1499}},
		{"entries", Limits{Entries: 8}, LimitExceeded, m.raw()[7].name, Limits{Entries: 7}},
	} {
		if _, _, err := read(file, test.at); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		_, _, err := read(file, test.less)
		if c, member := code(t, err); c != test.code || member != test.member {
			t.Errorf("%s: %v", test.name, err)
		}
		if test.name == "file" {
			continue
		}
		members := m.members()
		members.Limits = test.less
		if err := Write(io.Discard, members); err == nil {
			t.Errorf("%s: Write goes beyond it", test.name)
		} else if c, member := code(t, err); c != test.code || member != test.member {
			t.Errorf("%s: Write: %v", test.name, err)
		}
	}
}

// TestWalkStopsAtFn has fn return early, and swallow what a body said.
func TestWalkStopsAtFn(t *testing.T) {
	t.Parallel()
	m := large()
	file := m.write(t)
	r, err := Open(bytes.NewReader(file), int64(len(file)), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	var kept io.Reader
	err = r.Walk(func(e Entry, body io.Reader) error {
		if kept != nil {
			if n, err := kept.Read(make([]byte, 1)); n != 0 || err == nil || err == io.EOF {
				t.Errorf("a body is read after its member: %d, %v", n, err)
			}
		}
		kept = body
		if e.Name == "log" {
			return stop
		}
		return nil
	})
	if err != stop {
		t.Errorf("Walk returned %v, want what fn returned", err)
	}
	if _, _, err := r.Blob(receipts.Sum(m.blobs[0])); err == nil {
		t.Error("there is an index after a walk that stopped")
	}

	members := m.raw()
	members[9].content = append(bytes.Clone(members[9].content), 'x')
	bad := split(t, members)
	if r, err = Open(bytes.NewReader(bad), int64(len(bad)), Limits{}); err != nil {
		t.Fatal(err)
	}
	err = r.Walk(func(_ Entry, body io.Reader) error {
		_, _ = io.Copy(io.Discard, body)
		return nil
	})
	if c, member := code(t, err); c != BlobMismatch || member != members[9].name {
		t.Errorf("fn ignored an error, and Walk returned %v", err)
	}
	err = r.Walk(func(_ Entry, body io.Reader) error {
		if _, err := io.Copy(io.Discard, body); err != nil {
			return stop
		}
		return nil
	})
	if c, member := code(t, err); c != BlobMismatch || member != members[9].name {
		t.Errorf("fn hid an error, and Walk returned %v", err)
	}
}

// split compresses members as Write does.
func split(t testing.TB, members []raw) []byte {
	t.Helper()
	var buf bytes.Buffer
	f, err := newFrameWriter(&buf)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range append(members, raw{}) {
		if err := f.boundary(); err != nil {
			t.Fatal(err)
		}
		b := zeroBlocks[:]
		if r.name != "" {
			b = r.bytes(t)
		}
		if _, err := f.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// TestFrameEdits drops, doubles and swaps whole frames.
func TestFrameEdits(t *testing.T) {
	t.Parallel()
	m := large()
	file := m.write(t)
	if !bytes.Equal(file, split(t, m.raw())) {
		t.Fatal("Write splits in other places")
	}
	_, r, err := read(file, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var frames [][]byte
	for i, f := range r.index.frames {
		end := int64(len(file))
		if i+1 < len(r.index.frames) {
			end = r.index.frames[i+1].file
		}
		frames = append(frames, file[f.file:end])
	}
	if len(frames) < 5 {
		t.Fatalf("%d frames are not enough for this test", len(frames))
	}
	refuse := func(what string, i int, frames [][]byte) {
		if _, _, err := read(slices.Concat(frames...), Limits{}); err == nil {
			t.Errorf("%s frame %d: sound", what, i)
		}
	}
	for i := range frames {
		without := slices.Delete(slices.Clone(frames), i, i+1)
		if i == 0 || i == len(frames)-1 {
			refuse("without", i, without)
		} else if got, _, err := read(slices.Concat(without...), Limits{}); err == nil && len(got.blobs) >= len(m.blobs) {
			// Whether a blob is missing is the log's to say.
			t.Errorf("without frame %d: no blob is missing", i)
		}
		refuse("up to", i, frames[:i])
		refuse("twice", i, slices.Insert(slices.Clone(frames), i, frames[i]))
		if i > 0 {
			swapped := slices.Clone(frames)
			swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
			refuse("swapped", i, swapped)
		}
	}
	joined := frame(t, unpack(t, file))
	if _, _, err := read(joined, Limits{}); err == nil {
		t.Error("one frame instead of many: sound")
	}
}

// changingFile is other bytes than those that were walked.
type changingFile struct{ b []byte }

func (f *changingFile) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(f.b).ReadAt(p, off)
}

func TestFileChangesAfterWalk(t *testing.T) {
	t.Parallel()
	m := small()
	f := &changingFile{m.write(t)}
	size := int64(len(f.b))
	r, err := Open(f, size, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Walk(func(Entry, io.Reader) error { return nil }); err != nil {
		t.Fatal(err)
	}
	// The same lengths, other content, and a frame in raw blocks.
	members := m.raw()
	i := slices.IndexFunc(members, func(r raw) bool { return r.name == blobName(receipts.Sum(m.blobs[3])) })
	members[i].content = bytes.ToUpper(members[i].content)
	f.b = frame(t, tarOf(t, members))
	r.size = int64(len(f.b))
	rc, _, err := r.Blob(receipts.Sum(m.blobs[3]))
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	_, err = io.ReadAll(rc)
	if c, _ := code(t, err); c != BlobMismatch {
		t.Errorf("content changed: %v", err)
	}
	members[3].content = members[3].content[:100]
	f.b = frame(t, tarOf(t, members))
	r.size = int64(len(f.b))
	if _, err := r.Log(); err == nil {
		t.Error("header changed, and the log opens")
	}
}

// trimmed is raw without the members that are not there.
func (m memory) trimmed() []raw {
	return slices.DeleteFunc(m.raw(), func(r raw) bool { return r.content == nil && (r.name == "seal.mac" || r.name == "seal.sig") })
}

func TestBlockHeader(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		header []byte
		last   bool
		n      int
		ok     bool
	}{
		{block(false, 0, 1, nil), false, 1, true},
		{block(true, 0, 0, nil), true, 0, true},
		{block(false, 0, 0, nil), false, 0, false},
		{block(true, 1, maxBlockLen, nil), true, 1, true},
		{block(true, 1, 0, nil), false, 0, false},
		{block(false, 2, maxBlockLen, nil), false, maxBlockLen, true},
		{block(true, 2, 0, nil), false, 0, false},
		{block(false, 0, maxBlockLen+1, nil), false, 0, false},
		{block(false, 1, maxBlockLen+1, nil), false, 0, false},
		{block(false, 2, maxBlockLen+1, nil), false, 0, false},
		{block(false, 3, 1, nil), false, 0, false},
	} {
		last, n, err := parseBlockHeader([3]byte(test.header))
		if last != test.last || n != test.n || (err == nil) != test.ok {
			t.Errorf("% x: %v, %d, %v", test.header, last, n, err)
		}
	}
}
