package verifier

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	frameMark = 0x16    // ^V, which begins a line of package testing
	maxPiece  = 8 << 10 // bytes of a line that are looked at together
)

// ReadGoBinary reads what the test binary of package pkg wrote when it was run
// with -test.v=test2json and without the go command, and the exit code of the
// process, negative if it did not exit by itself. An error is r's.
//
// The stream is standard output and standard error together, as go test reads
// them. Without standard error the tests and their outcomes are the same, but
// what a panic says is missing. Names of packages beyond 4 KiB are cut.
//
// With that flag the lines of package testing begin with ^V, be it after output
// that does not end its line:
//
//	^V=== RUN   Name
//	^V=== PAUSE Name, CONT, NAME, ATTR, ARTIFACTS
//	^V--- PASS: Name (0.00s), FAIL, SKIP, BENCH
//	^VPASS, FAIL
//
// They become the events that go tool test2json makes of them, the end of the
// process becomes the result of the package, or that of the test in which it
// ended, and the Reading is that of [ReadGoTest], with the same signals. It is
// stricter in one thing: go tool test2json takes a line without ^V for one of
// package testing until it has seen one with it. Here such a line is output and
// no more, wherever it stands. So a test binary that prints a report, and runs
// no test, has none.
//
// A line with ^V is at most 8 KiB long, and the name in it 4 KiB; others are
// counted as unparsed. Memory is proportional to the number of tests.
func ReadGoBinary(r io.Reader, pkg string, exit int) (Reading, error) {
	b := goBinary{goStream: newGoStream(), pkg: []byte(strings.ToValidUTF8(cut(pkg, maxName), "\ufffd"))}
	b.lines = 1
	b.suite = b.open(b.pkg)
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		b.write(buf[:n])
		if err == io.EOF {
			return b.finish(exit), nil
		}
		if err != nil {
			return Reading{}, fmt.Errorf("test binary: line %d: %w", b.lines, err)
		}
	}
}

// goBinary makes the events of one package out of what its test binary wrote.
type goBinary struct {
	*goStream
	pkg     []byte
	suite   *goPackage
	test    string     // whose output follows; "" outside of tests
	reports []goReport // report lines whose results are to come, outermost first
	noTests bool       // the binary says that there was nothing to run

	line []byte // the current line, or what follows its pieces
	mid  bool   // pieces of it were passed on
}

// A goReport is a report line. What follows it belongs to its test until the
// next line of package testing, so the result waits for that.
type goReport struct{ action, name string }

// write divides what is read into lines. A line ends after LF or before ^V.
func (b *goBinary) write(text []byte) {
	for len(text) > 0 {
		if text[0] == frameMark && (b.mid || len(b.line) > 0) {
			b.endLine()
		}
		end := bytes.IndexByte(text, '\n') + 1
		if end == 0 {
			end = len(text)
		}
		if next := bytes.IndexByte(text[1:end], frameMark); next >= 0 {
			end = 1 + next
		}
		part := text[:end]
		text = text[end:]
		for len(part) > 0 {
			if len(b.line) == maxPiece {
				b.piece()
			}
			n := min(len(part), maxPiece-len(b.line))
			b.line = append(b.line, part[:n]...)
			part = part[n:]
		}
		if b.line[len(b.line)-1] == '\n' {
			b.endLine()
			b.lines++
		}
	}
}

// piece passes on the start of a line that is too long, but for a character
// that is not whole.
func (b *goBinary) piece() {
	if !b.mid && b.line[0] == frameMark {
		b.unparsed("more than 8 KiB after ^V")
	}
	n := len(b.line)
	for i := n - 1; i >= n-utf8.UTFMax; i-- {
		if utf8.RuneStart(b.line[i]) {
			if !utf8.FullRune(b.line[i:]) {
				n = i
			}
			break
		}
	}
	b.output(b.line[:n])
	b.line = b.line[:copy(b.line, b.line[n:])]
	b.mid = true
}

func (b *goBinary) endLine() {
	if !b.mid && b.line[0] == frameMark {
		b.frame(b.line[1:])
	} else {
		b.output(b.line)
	}
	b.line, b.mid = b.line[:0], false
}

// output handles a line, or a piece of one, that package testing did not print.
func (b *goBinary) output(text []byte) {
	text = validUTF8(text)
	p := b.suite
	if b.test == "" {
		if !b.mid && string(text) == "testing: warning: no tests to run\n" {
			b.noTests = true
		}
		// Not p.output: that would believe a summary.
		p.print(b.goStream, text)
		return
	}
	i, ok := p.tests[b.test]
	if !ok || p.live[i] == nil {
		return // of a test that has ended
	}
	t := p.live[i]
	p.last = t
	if !b.mid {
		flat := bytes.TrimLeft(text, " ")
		_, name, ok := reportLine(flat)
		if ok && (len(flat) == len(text) || string(name) == t.name) || bytes.HasPrefix(text, []byte("=== RUN   ")) {
			p.foreignReport(text)
		}
	}
	t.print(b.goStream, text)
}

// frame handles a line that began with ^V.
func (b *goBinary) frame(line []byte) {
	line = validUTF8(line)
	text := strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r")
	switch {
	case text == "PASS", text == "FAIL":
		b.flush(0)
		b.test = ""
		b.send("output", "", text+"\n")
		return
	case text == "=== NAME":
		text = "=== NAME  "
	}
	if action, name, ok := frameUpdate(text); ok {
		if len(name) > maxName {
			b.unparsed(errNameLength.Error())
			return
		}
		b.flush(0)
		b.test = name
		if action == "name" {
			return
		}
		// It is the output of the test that it is about, so the output follows
		// the start and comes before a pause.
		if action == "pause" {
			b.send("output", name, string(line))
		}
		b.send(action, name, "")
		if action != "pause" {
			b.send("output", name, string(line))
		}
		return
	}
	flat, depth := text, 0
	for strings.HasPrefix(flat, "    ") {
		flat, depth = flat[4:], depth+1
	}
	report, ok := frameReport(flat)
	switch {
	case !ok || depth > len(b.reports):
		b.output(line)
	case len(report.name) > maxName:
		b.unparsed(errNameLength.Error())
	default:
		b.flush(depth)
		b.test = report.name
		b.reports = append(b.reports, report)
		b.send("output", b.test, string(line))
	}
}

// frameUpdate parses "=== RUN   Name" and its kin.
func frameUpdate(text string) (action, name string, ok bool) {
	for _, u := range [...]struct{ prefix, action string }{
		{"=== RUN   ", "run"}, {"=== PAUSE ", "pause"}, {"=== CONT  ", "cont"}, {"=== NAME  ", "name"},
		{"=== ATTR  ", "attr"}, {"=== ARTIFACTS ", "artifacts"},
	} {
		if name, ok = strings.CutPrefix(text, u.prefix); !ok {
			continue
		}
		name = strings.TrimSpace(name)
		if u.action == "attr" || u.action == "artifacts" {
			name, _, _ = strings.Cut(name, " ")
		}
		return u.action, name, true
	}
	return "", "", false
}

// frameReport parses "--- PASS: Name (0.00s)" and its kin.
func frameReport(text string) (goReport, bool) {
	for _, r := range [...]struct{ prefix, action string }{
		{"--- PASS: ", "pass"}, {"--- FAIL: ", "fail"}, {"--- SKIP: ", "skip"}, {"--- BENCH: ", "bench"},
	} {
		if name, ok := strings.CutPrefix(text, r.prefix); ok {
			name, _, _ = strings.Cut(name, " (")
			return goReport{r.action, strings.TrimSpace(name)}, true
		}
	}
	return goReport{}, false
}

// flush sends the results that wait, but for so many of the outermost.
func (b *goBinary) flush(keep int) {
	for len(b.reports) > keep {
		last := b.reports[len(b.reports)-1]
		b.reports = b.reports[:len(b.reports)-1]
		if last.name != "" {
			b.send(last.action, last.name, "")
		}
	}
}

func (b *goBinary) send(action, test, output string) {
	if test == "" && action != "output" {
		b.unparsed("no test")
		return
	}
	b.event(goEvent{action: []byte(action), pkg: b.pkg, test: []byte(test), output: []byte(output)})
}

// finish says of the end of the process what go test says. If the process ended
// well inside of a test, the result goes to that test: the package has none.
func (b *goBinary) finish(exit int) Reading {
	if len(b.line) > 0 {
		b.output(b.line) // a line of package testing has an end
	}
	result, said := goEvent{action: []byte("pass"), pkg: b.pkg, test: []byte(b.test)}, "ok  \t"+string(b.pkg)+"\t0s\n"
	switch {
	case exit != 0:
		b.flush(0)
		result, said = goEvent{action: []byte("fail"), pkg: b.pkg}, "FAIL\t"+string(b.pkg)+"\t0s\n"
	case b.noTests:
		said = "ok  \t" + string(b.pkg) + "\t0s [no tests to run]\n"
	}
	b.event(goEvent{action: []byte("output"), pkg: b.pkg, test: result.test, output: []byte(said)})
	b.event(result)
	return b.goStream.finish(exit)
}

// validUTF8 replaces what is not UTF-8.
func validUTF8(text []byte) []byte {
	if utf8.Valid(text) {
		return text
	}
	return bytes.ToValidUTF8(text, []byte("\ufffd"))
}
