package guard

import (
	"bytes"
	"context"
	"slices"
)

// Placeholder is what stands in a sanitized text for what was removed.
const Placeholder = "[REDACTED by truegreen]"

// rounds is how often a text is scanned again because something new came together where
// something was removed, before whole lines go, and then everything.
const rounds = 4

// sanitize returns content in which nothing is found, with as many lines as before. What
// it returns for its own output is that output.
func sanitize(content []byte) []byte {
	for i := range 2 * rounds {
		f := newFindings(content)
		f.every = true
		f.scan(context.Background())
		if f.count == 0 {
			return content
		}
		content = redact(content, f.spans, i >= rounds)
	}
	f := newFindings(content)
	if f.scan(context.Background()); f.count == 0 {
		return content
	}
	return append([]byte(Placeholder), bytes.Repeat([]byte("\n"), bytes.Count(content, []byte("\n")))...)
}

// redact returns content with the placeholder, and the line ends that were there, in the
// place of spans, or of all lines that these touch.
func redact(content []byte, spans []Span, lines bool) []byte {
	if lines {
		for i, s := range spans {
			spans[i].Start = bytes.LastIndexByte(content[:s.Start], '\n') + 1
			if n := bytes.IndexByte(content[s.End:], '\n'); n >= 0 {
				spans[i].End = s.End + n
			} else {
				spans[i].End = len(content)
			}
		}
	}
	slices.SortFunc(spans, func(a, b Span) int { return a.Start - b.Start })
	out := make([]byte, 0, len(content))
	at := 0
	for i := 0; i < len(spans); {
		s := spans[i]
		for i++; i < len(spans) && spans[i].Start <= s.End; i++ {
			s.End = max(s.End, spans[i].End)
		}
		out = append(out, content[at:s.Start]...)
		out = append(out, Placeholder...)
		for range bytes.Count(content[s.Start:s.End], []byte("\n")) {
			out = append(out, '\n')
		}
		at = s.End
	}
	return append(out, content[at:]...)
}
