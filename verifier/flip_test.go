package verifier_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// smallBundle is a bundle as small as a verified one can be, signed twice, and a
// verifier that holds all anchors.
func smallBundle(t testing.TB) ([]byte, verifier.Options) {
	t.Helper()
	r := fixture.Small()
	r.Statement.Sign = func(text []byte) ([]byte, error) { return fixture.Sign("alice", text) }
	file := bundleOf(t, &r)
	o := r.Options()
	o.Keys[0].Asked = true
	o.Signers = signers(t, fixture.SignerLine("alice", ""))
	want(t, verify(t, file, o))
	return file, o
}

// some returns every n below limit if TRUEGREEN_FULL is set, and otherwise about
// count of them, the same each time, spread evenly.
func some(limit, count int) []int {
	var list []int
	step := max(1, limit/count)
	if os.Getenv("TRUEGREEN_FULL") != "" {
		step = 1
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for at := 0; at < limit; at += step {
		if n := at + rng.IntN(step); n < limit {
			list = append(list, n)
		}
	}
	return list
}

// each calls f for every n of list, on all processors.
func each(list []int, f func(n int)) {
	var wg sync.WaitGroup
	work := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for n := range work {
				f(n)
			}
		})
	}
	for _, n := range list {
		work <- n
	}
	close(work)
	wg.Wait()
}

func identity(t testing.TB, file []byte) receipts.Digest {
	t.Helper()
	r, err := bundle.Open(bytes.NewReader(file), int64(len(file)), bundle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := r.Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestFlipFile flips the bits of a bundle's file. A bundle that is verified all
// the same has the same tar to the byte: the bit is inside of a compressed block,
// where an encoder has a choice that a decoder cannot see.
func TestFlipFile(t *testing.T) {
	t.Parallel()
	file, o := smallBundle(t)
	id := identity(t, file)
	blocks := blockSpans(t, file)
	var mu sync.Mutex
	var free []int
	list := some(8*len(file), 600)
	each(list, func(bit int) {
		b := bytes.Clone(file)
		b[bit/8] ^= 1 << (bit % 8)
		report := verify(t, b, o)
		if report.Verdict() != verifier.Verified {
			if _, ok := report.VerifiedPatch(); ok {
				t.Errorf("bit %d: a verified patch", bit)
			}
			return
		}
		if identity(t, b) != id {
			t.Errorf("bit %d: verified, with another tar", bit)
		}
		if !slices.ContainsFunc(blocks, func(s [2]int) bool { return s[0] <= bit/8 && bit/8 < s[1] }) {
			t.Errorf("bit %d is free, and not inside of a block", bit)
		}
		mu.Lock()
		defer mu.Unlock()
		free = append(free, bit)
	})
	slices.Sort(free)
	t.Logf("%d of %d bits are free: %v", len(free), len(list), free)
	if len(free) > len(list)/100 {
		t.Errorf("%d of %d bits are free", len(free), len(list))
	}
}

// blockSpans returns where the content of the zstd blocks of a one-frame file is:
// behind the frame's six bytes and each block's three.
func blockSpans(t testing.TB, file []byte) (spans [][2]int) {
	t.Helper()
	for at, last := 6, false; !last; {
		if at+3 > len(file) {
			t.Fatal("not one frame")
		}
		v := int(file[at]) | int(file[at+1])<<8 | int(file[at+2])<<16
		at += 3
		n := v >> 3
		if v>>1&3 == 1 { // one byte, repeated
			n = 1
		}
		spans = append(spans, [2]int{at, at + n})
		at += n
		last = v&1 != 0
	}
	return spans
}

// TestTruncate cuts a bundle at every length.
func TestTruncate(t *testing.T) {
	t.Parallel()
	file, o := smallBundle(t)
	each(some(len(file), 400), func(n int) {
		report := verify(t, file[:n], o)
		if want := n >= 4; report.Verdict() != verifier.Broken || report.Has(verifier.Truncated) != want {
			t.Errorf("%d of %d bytes: %v", n, len(file), report.Reasons())
		}
	})
}

// TestFlipTar flips the bits of the tar and compresses it again, so that no
// checksum helps. Each change is seen, and in the right member: where it is, or in
// a signature over it.
func TestFlipTar(t *testing.T) {
	t.Parallel()
	file, o := smallBundle(t)
	tar, err := fixture.Tar(file)
	if err != nil {
		t.Fatal(err)
	}
	a, err := fixture.Unpack(file)
	if err != nil {
		t.Fatal(err)
	}
	where := contentSpans(a)
	var bits []int
	for i := range 8 * len(tar) {
		if tar[i/8] != 0 || i%8 == i/8%8 { // of a zero, one bit
			bits = append(bits, i)
		}
	}
	sample := some(len(bits), 500)
	each(sample, func(n int) {
		bit := bits[n]
		b := bytes.Clone(tar)
		b[bit/8] ^= 1 << (bit % 8)
		packed, err := fixture.Compress(b)
		if err != nil {
			t.Error(err)
			return
		}
		report := verify(t, packed, o)
		if report.Verdict() == verifier.Verified || report.Verdict() == verifier.Failed {
			t.Errorf("bit %d: %s", bit, report.Verdict())
			return
		}
		i := slices.IndexFunc(where, func(s span) bool { return s.from <= bit/8 && bit/8 < s.to })
		if i < 0 {
			return // a header, or padding
		}
		name, got := where[i].name, report.Reasons()[0]
		right := map[string][]string{
			"seal": {"seal", "seal.mac", "seal.sig", "log"},
			"log":  {"log"},
		}[name]
		if right == nil {
			right = []string{name}
		}
		if !slices.Contains(right, got.Member) {
			t.Errorf("bit %d of %s: %v", bit, name, got)
		}
	})
}

// A span is where in a tar the content of a member is.
type span struct {
	name     string
	from, to int
}

func contentSpans(a fixture.Archive) []span {
	var spans []span
	at := 0
	for _, m := range a {
		at += 512
		spans = append(spans, span{m.Name, at, at + len(m.Content)})
		at += (len(m.Content) + 511) &^ 511
	}
	return spans
}

// TestMembers drops, doubles, swaps, exchanges and adds the members of a bundle.
func TestMembers(t *testing.T) {
	t.Parallel()
	file, o := smallBundle(t)
	a, err := fixture.Unpack(file)
	if err != nil {
		t.Fatal(err)
	}
	donor := fixture.Small()
	donor.Job[0] ^= 1
	donor.Statement.Sign = func(text []byte) ([]byte, error) { return fixture.Sign("alice", text) }
	b, err := fixture.Unpack(bundleOf(t, &donor))
	if err != nil {
		t.Fatal(err)
	}
	broken := func(what string, a fixture.Archive, members ...string) {
		t.Helper()
		report := verify(t, pack(t, a), o)
		if report.Verdict() != verifier.Broken || len(report.Reasons()) != 1 {
			t.Errorf("%s: %v", what, report.Reasons())
			return
		}
		if got := report.Reasons()[0].Member; !slices.Contains(members, got) {
			t.Errorf("%s: %v, want it in one of %v", what, report.Reasons(), members)
		}
	}
	for i, m := range a {
		next := ""
		if i+1 < len(a) {
			next = a[i+1].Name
		}
		broken(m.Name+" dropped", a.Without(m.Name), m.Name, next)
		broken(m.Name+" twice", slices.Insert(slices.Clone(a), i, m), m.Name)
		broken(m.Name+" again at the end", append(slices.Clone(a), m), m.Name)
		if next != "" {
			swapped := slices.Clone(a)
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			broken(m.Name+" swapped with the next", swapped, m.Name, next)
		}
		broken(m.Name+" emptied", a.With(m.Name, nil), m.Name)
		broken(m.Name+" longer", a.With(m.Name, append(slices.Clone(m.Content), '\n')), m.Name)
		if c := b.Content(m.Name); c != nil && !bytes.Equal(c, m.Content) {
			broken(m.Name+" of another run", a.With(m.Name, c), m.Name, "seal.mac", "log")
		}
	}
	for _, m := range b {
		if a.Find(m.Name) < 0 {
			broken(m.Name+" of another run added", a.Add(m.Content), m.Name)
		}
	}
	// A name that no member has is quoted in the detail.
	for _, name := range []string{"report.json", "../x"} {
		b := append(slices.Clone(a), fixture.Member{Name: name, Content: []byte("{}")})
		broken(name, b, "")
		if got := verify(t, pack(t, b), o).Reasons()[0].Detail; !strings.Contains(got, strconv.Quote(name)) {
			t.Errorf("member %s: %s", name, got)
		}
	}
}
