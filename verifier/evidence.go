package verifier

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/truegreen-dev/truegreen/internal/strictjson"
	"github.com/truegreen-dev/truegreen/receipts"
)

// The evidence document says what the captured output of every test call comes
// to, one row for each test and run. It is a sequence of canonical JSON
// documents, each at most 64 KiB and ended by LF:
//
//	{"v":1,"patch":DIGEST,"plan":DIGEST}                       once, first
//	{"run":CALL,"name":…,"side":…,"round":…,"state":…,"exit":…,"complete":…,"unparsed":…}
//	{"signal":CODE,"of":CALL,"suite":…,"test":…,"detail":…}    after their run, in order
//	{"test":…,"of":CALL,"suite":…,"ordinal":…,"outcome":…,"kind":…}
//	{"runs":N,"tests":N,"signals":N}                           once, last
//
// It is a function of the sealed bytes: whoever has them makes the same
// document again, and a document that differs is not believed.
type evidenceHead struct {
	V     int             `json:"v"`
	Patch receipts.Digest `json:"patch"`
	Plan  receipts.Digest `json:"plan"`
}

type runRow struct {
	Run      uint64 `json:"run"`
	Name     string `json:"name"`
	Side     string `json:"side"`
	Round    int    `json:"round"`
	State    string `json:"state"`
	Exit     int    `json:"exit"`
	Suites   int    `json:"bad_suites,omitempty"` // that failed, did not end or did not build
	Unbuilt  int    `json:"unbuilt,omitempty"`
	Complete bool   `json:"complete"`
	Unparsed int64  `json:"unparsed,omitempty"`
}

type signalRow struct {
	Signal string         `json:"signal"`
	Of     uint64         `json:"of"`
	Suite  receipts.Bytes `json:"suite,omitempty"`
	Test   receipts.Bytes `json:"test,omitempty"`
	Detail receipts.Bytes `json:"detail,omitempty"`
}

type testRow struct {
	Test    receipts.Bytes `json:"test"`
	Of      uint64         `json:"of"`
	Suite   receipts.Bytes `json:"suite,omitempty"`
	Ordinal int            `json:"ordinal,omitempty"`
	Outcome Outcome        `json:"outcome"`
	Kind    string         `json:"kind,omitempty"`
}

type evidenceTail struct {
	Runs    int `json:"runs"`
	Tests   int `json:"tests"`
	Signals int `json:"signals"`
}

const maxEvidenceRow = 64 << 10

// errEvidenceLimit says that the output comes to more than a document can hold.
var errEvidenceLimit = errors.New("evidence is larger than allowed")

// A TestCall is one completed call of the tool test, with its documents.
type TestCall struct {
	Call   uint64
	Args   receipts.Args
	Result receipts.Result
}

// Judge reads what the calls put out, writes the evidence document to w and
// returns what it says. open returns a blob of the run.
func Judge(w io.Writer, patch, plan receipts.Digest, calls []TestCall, open func(receipts.Digest) (io.ReadCloser, error)) (*Findings, error) {
	e := evidenceWriter{w: bufio.NewWriterSize(w, 64<<10), Findings: newFindings()}
	e.row(&evidenceHead{receipts.DocumentVersion, patch, plan})
	for i := range calls {
		reading, err := readCall(&calls[i], open)
		if err != nil {
			return nil, err
		}
		e.reading(&calls[i], &reading)
	}
	e.row(&e.tail)
	if e.err == nil {
		e.err = e.w.Flush()
	}
	if e.err != nil {
		return nil, fmt.Errorf("evidence: %w", e.err)
	}
	return e.Findings, nil
}

type evidenceWriter struct {
	*Findings
	w    *bufio.Writer
	buf  []byte
	tail evidenceTail
	err  error
}

func (e *evidenceWriter) row(v any) {
	if e.err != nil {
		return
	}
	if e.buf, e.err = strictjson.Append(e.buf[:0], v); e.err != nil {
		return
	}
	if len(e.buf) > maxEvidenceRow {
		e.err = fmt.Errorf("%w: row of %d bytes: the limit is %d", errEvidenceLimit, len(e.buf), maxEvidenceRow)
		return
	}
	if _, e.err = e.w.Write(append(e.buf, '\n')); e.err == nil {
		e.err = e.add(v)
	}
}

func (e *evidenceWriter) reading(c *TestCall, r *Reading) {
	n := r.Counts()
	e.row(&runRow{
		Run: c.Call, Name: c.Args.Name, Side: c.Args.Side, Round: c.Args.Round, State: c.Result.State, Exit: c.Result.Exit,
		Suites: n.BadSuites, Unbuilt: n.BuildFailed, Complete: r.Complete, Unparsed: r.Unparsed,
	})
	e.tail.Runs++
	for _, s := range r.Signals {
		e.row(&signalRow{s.Code, c.Call, receipts.Bytes(s.Suite), receipts.Bytes(s.Test), receipts.Bytes(s.Detail)})
		e.tail.Signals++
	}
	for i := range r.Tests {
		t := &r.Tests[i]
		e.row(&testRow{receipts.Bytes(t.Name), c.Call, receipts.Bytes(t.Suite), t.Ordinal, t.Outcome, t.Kind})
		e.tail.Tests++
	}
	e.excerpts(r)
}

// sigToolchain is a signal beside the reader's own: the go command says on its
// standard error that it is too old for the tree.
const sigToolchain = "toolchain-too-old"

// sigSaid is what the go command said on its standard error when it ended
// without a single test.
const sigSaid = "go-command-failed"

var tooOld = regexp.MustCompile(`requires go >= [0-9a-z.]+ \(running go [0-9a-z.]+(; GOTOOLCHAIN=local)?\)`)

// readCall returns the reading of one call.
func readCall(c *TestCall, open func(receipts.Digest) (io.ReadCloser, error)) (Reading, error) {
	if c.Result.State == receipts.StateNotRun || c.Result.State == receipts.StateNotFound {
		return Reading{Format: c.Args.Format, Complete: true}, nil
	}
	exit := c.Result.Exit
	if c.Result.State != receipts.StateExited {
		exit = -1
	}
	switch c.Args.Format {
	case FormatGo:
		stdout, err := openStream(&c.Result.Stdout, open)
		if err != nil {
			return Reading{}, err
		}
		defer stdout.Close()
		r, err := ReadGoTest(stdout, exit)
		if err != nil {
			return Reading{}, err
		}
		return r, toolchain(&r, &c.Result, open)
	case FormatJUnit:
		var reports []JUnitFile
		for _, f := range c.Result.Files {
			name, ok := reportName(f.Name)
			if !ok {
				continue
			}
			body, err := open(f.Digest)
			if err != nil {
				return Reading{}, err
			}
			defer body.Close()
			reports = append(reports, JUnitFile{Name: name, Body: body})
		}
		return ReadJUnit(reports, exit)
	}
	return ReadExit(exit), nil
}

func openStream(s *receipts.Stream, open func(receipts.Digest) (io.ReadCloser, error)) (io.ReadCloser, error) {
	if s.Kept == 0 {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	return open(s.Digest)
}

func toolchain(r *Reading, result *receipts.Result, open func(receipts.Digest) (io.ReadCloser, error)) error {
	if len(r.Tests) > 0 || result.Exit == 0 {
		return nil
	}
	stderr, err := openStream(&result.Stderr, open)
	if err != nil {
		return err
	}
	defer stderr.Close()
	head, err := io.ReadAll(io.LimitReader(stderr, 64<<10))
	if err != nil {
		return err
	}
	if found := tooOld.Find(head); found != nil {
		r.Signals = append(r.Signals, Signal{Code: sigToolchain, Detail: cut(string(found), maxDetail)})
	} else if said := bytes.TrimSpace(head); len(said) > 0 && len(r.Suites) == 0 {
		r.Signals = append(r.Signals, Signal{Code: sigSaid, Detail: cut(string(said), maxDetail)})
	}
	return nil
}

var errEvidence = errors.New("evidence: malformed")

// readEvidence returns what an evidence document says, without looking at what
// it was made from.
func readEvidence(r io.Reader, patch, plan receipts.Digest) (*Findings, error) {
	f := newFindings()
	br := bufio.NewReaderSize(r, maxEvidenceRow+1)
	var tail evidenceTail
	for n := 0; ; n++ {
		line, err := br.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return nil, fmt.Errorf("%w: no end", errEvidence)
		}
		if err == io.EOF || err == bufio.ErrBufferFull {
			return nil, fmt.Errorf("%w: row %d", errEvidence, n)
		}
		if err != nil {
			return nil, err
		}
		v, err := parseRow(line[:len(line)-1], n == 0)
		if err != nil {
			return nil, fmt.Errorf("%w: row %d: %w", errEvidence, n, err)
		}
		switch v := v.(type) {
		case *evidenceHead:
			if *v != (evidenceHead{receipts.DocumentVersion, patch, plan}) {
				return nil, fmt.Errorf("%w: of another patch or plan", errEvidence)
			}
		case *runRow:
			tail.Runs++
		case *signalRow:
			tail.Signals++
		case *testRow:
			tail.Tests++
		case *evidenceTail:
			if *v != tail {
				return nil, fmt.Errorf("%w: counts", errEvidence)
			}
			if _, err := br.ReadByte(); err != io.EOF {
				return nil, fmt.Errorf("%w: data after the end", errEvidence)
			}
			return f, nil
		}
		if err := f.add(v); err != nil {
			return nil, fmt.Errorf("%w: row %d: %w", errEvidence, n, err)
		}
	}
}

// parseRow reads one row; its first member tells its kind.
func parseRow(line []byte, first bool) (any, error) {
	var v any
	switch {
	case first:
		v = new(evidenceHead)
	case bytes.HasPrefix(line, []byte(`{"run":`)):
		v = new(runRow)
	case bytes.HasPrefix(line, []byte(`{"signal":`)):
		v = new(signalRow)
	case bytes.HasPrefix(line, []byte(`{"test":`)):
		v = new(testRow)
	case bytes.HasPrefix(line, []byte(`{"runs":`)):
		v = new(evidenceTail)
	default:
		return nil, errors.New("unknown row")
	}
	return v, strictjson.Unmarshal(line, v, strictjson.Limits{Size: maxEvidenceRow})
}
