package verifier

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/truegreen-dev/truegreen/internal/lazy"
	"github.com/truegreen-dev/truegreen/internal/strictjson"
	"github.com/truegreen-dev/truegreen/receipts"
)

// The evidence document says what the captured output of every test call comes
// to, one row for each test and run, and what follows from all of them. It is a
// sequence of canonical JSON documents, each at most 64 KiB and ended by LF:
//
//	{"v":1,"patch":DIGEST,"plan":DIGEST}                       once, first
//	{"run":CALL,"name":…,"side":…,"round":…,"state":…,"exit":…,"complete":…,"unparsed":…}
//	{"signal":CODE,"of":CALL,"suite":…,"test":…,"detail":…}    after their run, in order
//	{"suite":NAME,"of":CALL,"outcome":…,"kind":…}              suites that did not pass
//	{"test":…,"of":CALL,"suite":…,"ordinal":…,"outcome":…,"kind":…}
//	{"cover":PATH,"of":CALL,"executed":[{"from":…,"to":…}],"missed":…} changed lines, as the tested process reported them
//	{"finding":CODE,"entry":…,"suite":…,"test":…,"path":…,"line":…,"detail":…}
//	{"claim":LEVEL,…}                                          once, after the findings
//	{"runs":N,"tests":N,"signals":N,"findings":N}              once, last
//
// It is a function of the sealed bytes: whoever has them makes the same
// document again, and a document that differs is not believed.
type evidenceHead struct {
	V     int             `json:"v"`
	Patch receipts.Digest `json:"patch"`
	Plan  receipts.Digest `json:"plan"`
}

type runRow struct {
	Run      uint64         `json:"run"`
	Name     string         `json:"name"`
	Side     string         `json:"side"`
	Round    int            `json:"round"`
	Purpose  string         `json:"purpose,omitempty"`
	Package  receipts.Bytes `json:"package,omitempty"`
	State    string         `json:"state"`
	Exit     int            `json:"exit"`
	Imported uint64         `json:"imported,omitempty"`   // the call in an earlier run whose output this is
	Suites   int            `json:"bad_suites,omitempty"` // that failed, did not end or did not build
	Unbuilt  int            `json:"unbuilt,omitempty"`
	Complete bool           `json:"complete"`
	Unparsed int64          `json:"unparsed,omitempty"`
	Canaries int            `json:"canaries,omitempty"` // packages that must have shown one
	Sung     int            `json:"canaries_seen,omitempty"`
}

type signalRow struct {
	Signal string         `json:"signal"`
	Of     uint64         `json:"of"`
	Suite  receipts.Bytes `json:"suite,omitempty"`
	Test   receipts.Bytes `json:"test,omitempty"`
	Detail receipts.Bytes `json:"detail,omitempty"`
}

type suiteRow struct {
	Suite   receipts.Bytes `json:"suite"`
	Of      uint64         `json:"of"`
	Outcome Outcome        `json:"outcome"`
	Kind    string         `json:"kind,omitempty"`
}

type testRow struct {
	Test    receipts.Bytes `json:"test"`
	Of      uint64         `json:"of"`
	Suite   receipts.Bytes `json:"suite,omitempty"`
	Ordinal int            `json:"ordinal,omitempty"`
	Outcome Outcome        `json:"outcome"`
	Kind    string         `json:"kind,omitempty"`
}

type coverRow struct {
	Cover    receipts.Bytes `json:"cover"`
	Of       uint64         `json:"of"`
	Executed []lineRange    `json:"executed,omitempty"`
	Missed   []lineRange    `json:"missed,omitempty"`
}

// lineRange is the lines from one to another, both included.
type lineRange struct {
	From int `json:"from"`
	To   int `json:"to"`
}

type findingRow struct {
	Finding string         `json:"finding"`
	Entry   string         `json:"entry,omitempty"`
	Suite   receipts.Bytes `json:"suite,omitempty"`
	Test    receipts.Bytes `json:"test,omitempty"`
	Ordinal int            `json:"ordinal,omitempty"`
	Path    receipts.Bytes `json:"path,omitempty"`
	Line    int            `json:"line,omitempty"`
	Detail  receipts.Bytes `json:"detail,omitempty"`
}

type claimRow struct {
	Claim        int  `json:"claim"` // level
	FailToPass   int  `json:"fail_to_pass"`
	PassBoth     int  `json:"pass_both"`
	Covered      bool `json:"covered"`
	Executed     int  `json:"lines_executed"`
	Instrumented int  `json:"lines_instrumented"`
	Killed       int  `json:"mutants_killed"`
	Mutants      int  `json:"mutants"`
}

type evidenceTail struct {
	Runs     int `json:"runs"`
	Tests    int `json:"tests"`
	Signals  int `json:"signals"`
	Findings int `json:"findings"`
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

// sigToolchain is a signal beside the reader's own: the go command says on its
// standard error that it is too old for the tree.
const sigToolchain = "toolchain-too-old"

// sigSaid is what the go command said on its standard error when it ended
// without a single test.
const sigSaid = "go-command-failed"

var tooOld = lazy.Regexp(`requires go >= [0-9a-z.]+ \(running go [0-9a-z.]+(; GOTOOLCHAIN=local)?\)`)

// readCall returns the reading of one call. Its report named lines is not one of
// tests.
func readCall(c *TestCall, lines string, open func(receipts.Digest) (io.ReadCloser, error)) (Reading, error) {
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
	case FormatGoBinary:
		stdout, err := openStream(&c.Result.Stdout, open)
		if err != nil {
			return Reading{}, err
		}
		defer stdout.Close()
		return ReadGoBinary(stdout, string(c.Args.Package), exit)
	case FormatTAP:
		stdout, err := openStream(&c.Result.Stdout, open)
		if err != nil {
			return Reading{}, err
		}
		defer stdout.Close()
		return ReadTAP(stdout, exit)
	case FormatJUnit, FormatCTRF:
		var reports []JUnitFile
		for _, f := range c.Result.Files {
			name, ok := reportName(f.Name)
			if !ok || lines != "" && name == lines {
				continue
			}
			body, err := open(f.Digest)
			if err != nil {
				return Reading{}, err
			}
			defer body.Close()
			reports = append(reports, JUnitFile{Name: name, Body: body})
		}
		if c.Args.Format == FormatCTRF {
			return ReadCTRF(reports, exit)
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
	if found := tooOld().Find(head); found != nil {
		r.Signals = append(r.Signals, Signal{Code: sigToolchain, Detail: cut(string(found), maxDetail)})
	} else if said := bytes.TrimSpace(head); len(said) > 0 && len(r.Suites) == 0 {
		r.Signals = append(r.Signals, Signal{Code: sigSaid, Detail: cut(string(said), maxDetail)})
	}
	return nil
}

var errEvidence = errors.New("evidence: malformed")

// rowReader reads the rows of an evidence document, without looking at what they
// were made from.
type rowReader struct {
	in   *bufio.Reader
	n    int
	next any // a row that was read too far
}

func newRowReader(r io.Reader) *rowReader {
	return &rowReader{in: bufio.NewReaderSize(r, maxEvidenceRow+1)}
}

// row returns the next row, or an error: io.EOF at the end of the bytes.
func (r *rowReader) row() (any, error) {
	if r.next != nil {
		v := r.next
		r.next = nil
		return v, nil
	}
	line, err := r.in.ReadSlice('\n')
	if err == io.EOF && len(line) == 0 {
		return nil, io.EOF
	}
	if err == io.EOF || err == bufio.ErrBufferFull {
		return nil, fmt.Errorf("%w: row %d", errEvidence, r.n)
	}
	if err != nil {
		return nil, err
	}
	v, err := parseRow(line[:len(line)-1], r.n == 0)
	if err != nil {
		return nil, fmt.Errorf("%w: row %d: %w", errEvidence, r.n, err)
	}
	r.n++
	return v, nil
}

// parseRow reads one row; its first member tells its kind.
func parseRow(line []byte, first bool) (any, error) {
	var v any
	kind, _, _ := bytes.Cut(line, []byte(":"))
	switch {
	case first:
		v = new(evidenceHead)
	case string(kind) == `{"run"`:
		v = new(runRow)
	case string(kind) == `{"signal"`:
		v = new(signalRow)
	case string(kind) == `{"suite"`:
		v = new(suiteRow)
	case string(kind) == `{"test"`:
		v = new(testRow)
	case string(kind) == `{"cover"`:
		v = new(coverRow)
	case string(kind) == `{"finding"`:
		v = new(findingRow)
	case string(kind) == `{"claim"`:
		v = new(claimRow)
	case string(kind) == `{"runs"`:
		v = new(evidenceTail)
	default:
		return nil, errors.New("unknown row")
	}
	return v, strictjson.Unmarshal(line, v, strictjson.Limits{Size: maxEvidenceRow})
}
