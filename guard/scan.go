package guard

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"
)

// findings are what a scan of content has found.
type findings struct {
	content []byte
	list    []Detection
	count   int
	of      map[*rule]int
	highest map[Family]float64
	spans   []Span // of all, if every is set
	every   bool
}

func newFindings(content []byte) *findings {
	return &findings{content: content, of: map[*rule]int{}, highest: map[Family]float64{}}
}

// add adds a detection. The rule that is broken inside is nil where nothing was decoded.
func (f *findings) add(r *rule, start, end int, encoding string, inside *rule) {
	f.count++
	if f.every {
		f.spans = append(f.spans, Span{start, end})
		return
	}
	f.highest[r.family] = max(f.highest[r.family], r.confidence)
	if f.of[r]++; f.of[r] > MaxDetections {
		return
	}
	d := Detection{
		Detector: r.detector, Rule: r.name, Family: r.family, Severity: r.severity, Confidence: r.confidence,
		Span: Span{start, end}, Explanation: r.says, Encoding: encoding,
	}
	text := f.content[start:end]
	secret := r.family == SecretExposure
	if inside != nil {
		d.Inside = inside.name
		d.Explanation += ": " + inside.says
		secret = secret || inside.family == SecretExposure
	}
	if secret {
		d.Matched = mask(text)
	} else {
		d.Matched, _ = quote(text, MaxMatched)
	}
	f.list = append(f.list, d)
}

// detections returns what to list, in the order of the content, and how many others
// there are.
func (f *findings) detections() ([]Detection, int) {
	slices.SortStableFunc(f.list, func(a, b Detection) int { return a.Span.Start - b.Span.Start })
	if f.list == nil {
		f.list = []Detection{}
	}
	return f.list, f.count - len(f.list)
}

// scan finds everything in the content, decoded once where it is encoded.
func (f *findings) scan(ctx context.Context) error {
	s := compiled()
	rot13, escapes := s.byName["encoded-rot13"], s.byName["encoded-escapes"]
	folded := s.inspect(f.content, func(r *rule, start, end int) {
		f.add(r, start, end, "", nil)
	}, func(r *rule, start, end int) {
		f.add(rot13, start, end, "rot13", r)
	})
	at := func(i int) int { return folded.from(i, len(f.content)) }
	if err := ctx.Err(); err != nil {
		return err
	}
	if plain := unescape(folded.b); plain != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.inspect(plain.b, func(r *rule, start, end int) {
			total := len(folded.b)
			if r.family == Unclassified || !plain.changed(max(start-1, 0), end, total) {
				return // there without the escapes, too
			}
			start, end = plain.from(start, total), plain.from(end, total)
			f.add(escapes, at(start), at(end), "escapes", r)
		}, nil)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	blobs(folded.b, func(name string, start, end int, text []byte) {
		var worst *rule
		s.inspect(text, func(r *rule, _, _ int) {
			if r.family != Unclassified && (worst == nil || r.confidence > worst.confidence) {
				worst = r
			}
		}, nil)
		if worst != nil {
			f.add(s.byName[name], at(start), at(end), name[len("encoded-"):], worst)
		}
	})
	return ctx.Err()
}

// inspect calls hit for everything that is in b as it is, and rotated, if it is not nil,
// for phrases in rot13. It returns b folded.
func (s *ruleSet) inspect(b []byte, hit, rotated func(r *rule, start, end int)) *view {
	s.raw.find(b, lowerASCII(b), hit)
	findSecrets(b, func(i, start, end int) { hit(s.secret(i), start, end) })
	folded := fold(b)
	back := func(hit func(r *rule, start, end int)) func(r *rule, start, end int) {
		if hit == nil {
			return nil
		}
		return func(r *rule, start, end int) { hit(r, folded.from(start, len(b)), folded.from(end, len(b))) }
	}
	s.folded.find(folded.b, lowerASCII(folded.b), back(hit))
	s.phrases.find(folded.b, back(hit), back(rotated))
	return folded
}

// quote returns at most limit bytes of text, with everything that is not plain shown as
// an escape, and whether it was cut.
func quote(text []byte, limit int) (string, bool) {
	cut := len(text) > limit
	if cut {
		text = text[:limit]
	}
	var b bytes.Buffer
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\\':
			b.WriteString(`\\`)
		case !unicode.IsPrint(r) || invisible(r):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
		i += n
	}
	if cut {
		b.WriteString("…")
	}
	return b.String(), cut
}

// mask returns what may be shown of a secret: its first characters and its length.
func mask(text []byte) string {
	n := min(4, len(text)/4)
	shown, _ := quote(text[:n], n)
	return fmt.Sprintf("%s… (%d bytes)", shown, len(text))
}
