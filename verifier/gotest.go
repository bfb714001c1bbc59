package verifier

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

const maxLine = 1 << 20 // bytes of one line of a stream, its end included

// ReadGoTest reads what go test -json wrote to standard output, and the exit
// code of the process, negative if it did not exit by itself. An error is r's.
//
// The stream holds one JSON object a line. Lines that are none, and lines of
// more than 1 MiB, are counted and not an error. Events of different packages
// may be interleaved; for each package the order is
//
//	start, (test | output)*, pass | fail | skip
//
// and for each test
//
//	run, (output | pause | cont)*, pass | fail | skip
//
// where the last output before a result is the report line of package testing,
// "--- PASS: Name". The events come from go tool test2json, which reads them
// out of what the test binary prints, and adds the result of the process at the
// end. It attributes that result to the test that printed last if the process
// exited inside of one. Therefore a result without a report line counts as
// Unfinished, and a package without a result of its own as Unfinished too.
//
// Names that follow a slash are opaque: package testing does not escape slashes
// in them. Only the part before the first slash is used, which for the
// functions of a test file is the top-level test. Benchmarks appear if they
// fail; package testing does not report the others. ReadGoTest knows the
// markers and events of Go 1.20 and later.
//
// Memory is proportional to the number of tests, not to what they print.
func ReadGoTest(r io.Reader, exit int) (Reading, error) {
	g := newGoStream()
	in := lineReader{in: bufio.NewReaderSize(r, 64<<10)}
	for {
		line, err := in.next()
		g.lines++
		switch {
		case in.tooLong:
			g.unparsed("more than 1 MiB")
		case len(line) > 0 && (err == nil || err == io.EOF):
			g.line(line)
		}
		if err == io.EOF {
			return g.finish(exit), nil
		}
		if err != nil {
			return Reading{}, fmt.Errorf("go test stream: line %d: %w", g.lines, err)
		}
	}
}

// lineReader reads lines of at most maxLine bytes.
type lineReader struct {
	in      *bufio.Reader
	long    []byte // a line that does not fit into the buffer of in
	tooLong bool   // the line was longer than maxLine
}

// next returns the next line with its end, nil if it is too long. The line is
// valid until the next call. With io.EOF it returns what follows the last end.
func (l *lineReader) next() ([]byte, error) {
	l.tooLong = false
	line, err := l.in.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return line, err
	}
	l.long = append(l.long[:0], line...)
	for err == bufio.ErrBufferFull {
		line, err = l.in.ReadSlice('\n')
		if l.tooLong = l.tooLong || len(l.long)+len(line) > maxLine; !l.tooLong {
			l.long = append(l.long, line...)
		}
	}
	if l.tooLong {
		return nil, err
	}
	return l.long, err
}

// goStream is the state of all packages of a stream.
type goStream struct {
	collector
	packages  map[string]*goPackage
	order     []*goPackage
	last      *goPackage // of the previous event
	builds    map[string]*goBuild
	failed    []*goBuild
	lines     int64
	firstBad  string // why the first unparsed line was not parsed
	unknown   int
	firstUnkn string
}

func newGoStream() *goStream {
	return &goStream{
		collector: newCollector(FormatGo),
		packages:  make(map[string]*goPackage),
		builds:    make(map[string]*goBuild),
	}
}

// goBuild is what the go command said about building one package.
type goBuild struct {
	name    string
	kind    string
	excerpt excerpt
	failed  bool
	claimed bool   // a package says that it failed for this
	detail  string // set when claimed, and shared by all packages that say so
}

func (g *goStream) unparsed(why string) {
	if g.Unparsed++; g.Unparsed == 1 {
		g.firstBad = fmt.Sprintf("line %d: %s", g.lines, why)
	}
}

func (g *goStream) line(line []byte) {
	e, err := parseGoEvent(line)
	if err != nil {
		g.unparsed(err.Error())
		return
	}
	switch string(e.action) {
	case "build-output":
		if b := g.build(e.importPath); b != nil {
			if bytes.HasPrefix(e.output, []byte("# [")) {
				b.kind = kindVet
			}
			g.keep(&b.excerpt, e.output)
		}
	case "build-fail":
		if b := g.build(e.importPath); b != nil && !b.failed {
			b.failed = true
			g.failed = append(g.failed, b)
		}
	case "start", "output", "attr", "artifacts", "bench":
		g.event(e)
	case "run", "pause", "cont":
		if len(e.test) == 0 {
			g.unparsed("no test")
			return
		}
		g.event(e)
	case "pass", "fail", "skip":
		g.event(e)
	default:
		if g.unknown++; g.unknown == 1 {
			g.firstUnkn = fmt.Sprintf("line %d: %q", g.lines, cut(string(e.action), 64))
		}
	}
}

func (g *goStream) build(name []byte) *goBuild {
	if b := g.builds[string(name)]; b != nil {
		return b
	}
	if len(g.builds) >= maxSuites {
		g.exceed(fmt.Sprintf("more than %d builds", maxSuites))
		return nil
	}
	if !g.name(len(name)) {
		return nil
	}
	b := &goBuild{name: string(name), kind: kindBuild}
	g.builds[b.name] = b
	return b
}

// event passes an event to its package.
func (g *goStream) event(e goEvent) {
	p := g.last
	if p == nil || string(e.pkg) != p.name {
		if p = g.packages[string(e.pkg)]; p == nil {
			p = g.open(e.pkg)
		}
		if p == nil {
			return
		}
		g.last = p
	}
	if p.ended {
		if string(e.action) == "start" {
			g.signal(sigDuplicateSuite, p.name, "", "")
			g.reopen(p)
			return
		}
		g.signal(sigImpossibleOrder, p.name, string(e.test), fmt.Sprintf("%s after the end of the package", e.action))
		return
	}
	if len(e.test) > 0 {
		p.event(e)
		return
	}
	switch Outcome(e.action) {
	case Pass, Fail, Skip:
		p.end(Outcome(e.action), e.failedBuild)
	case "output":
		p.output(e.output)
	}
}

func (g *goStream) open(name []byte) *goPackage {
	if !g.name(len(name)) {
		return nil
	}
	p := &goPackage{stream: g, name: string(name), tests: make(map[string]int)}
	if !g.reopen(p) {
		return nil
	}
	g.packages[p.name] = p
	g.order = append(g.order, p)
	return p
}

// reopen makes p the package of a new suite. Ordinals go on.
func (g *goStream) reopen(p *goPackage) bool {
	i := g.addSuite(Suite{Name: p.name, Outcome: Unfinished})
	if i < 0 {
		return false
	}
	*p = goPackage{stream: g, name: p.name, suite: i, tests: p.tests, live: make(map[int]*goTest)}
	return true
}

func (g *goStream) finish(exit int) Reading {
	for _, p := range g.order {
		if !p.ended {
			p.abandon()
		}
	}
	for _, b := range g.failed {
		if !b.claimed {
			g.addSuite(Suite{Name: b.name, Outcome: BuildFailed, Kind: b.kind, Detail: g.take(&b.excerpt, "")})
		}
	}
	if g.Unparsed > 0 {
		g.signal(sigUnparsed, "", "", fmt.Sprintf("%d of them, the first: %s", g.Unparsed, g.firstBad))
	}
	if g.unknown > 0 {
		g.signal(sigUnknownAction, "", "", fmt.Sprintf("%d of them, the first: %s", g.unknown, g.firstUnkn))
	}
	return g.collector.finish(exit)
}
