package verifier

import (
	"bufio"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier/source"
)

// counts reports whether a run counts executed lines: that of the head's tests which
// is made for it, or, where the configuration names a report of them, the plain one.
func (p *PlannedRun) counts() bool {
	return p.goProfile() || p.Purpose == "" && len(p.Lines) > 0
}

// goProfile reports whether the run is one of go test's that leaves a profile.
func (p *PlannedRun) goProfile() bool { return p.Purpose == PurposeCover || p.Purpose == PurposeReach }

// coverage writes what a run's report says of the changed lines. It is made by the
// tested process, and nobody else has counted.
func (j *Judgement) coverage(p *PlannedRun, c *TestCall) error {
	if c.Result.State == receipts.StateNotRun || p.goProfile() && c.Result.State != receipts.StateExited {
		return nil // a profile is written at the end
	}
	name := coverFile
	if len(p.Lines) > 0 {
		name = string(p.Lines)
	}
	none := func(why string) error {
		j.row(&signalRow{Signal: sigNoProfile, Of: c.Call, Detail: receipts.Bytes(cut(why, maxDetail))})
		return j.err
	}
	digest, ok := file(&c.Result, string(ReportFile(name)))
	if !ok {
		return none("there is no " + name)
	}
	report, err := j.in.Open(digest)
	if err != nil {
		return err
	}
	defer report.Close()
	var cover *source.Coverage
	if p.goProfile() {
		cover, err = source.ReadGoProfile(report, j.in.Trees.goFile)
	} else {
		cover, err = j.in.Trees.readLines(j.entry(p.Name), report)
	}
	if err != nil {
		return none(err.Error())
	}
	isCode := func(p string) bool { return source.Classify(p, j.in.Trees.extra) == source.Code }
	head := func(p string) ([]byte, bool) { return j.in.Trees.text(SideHead, p) }
	for _, lines := range cover.ChangedLines(j.in.Trees.changes, isCode, head) {
		executed, missed := lines.Executed, lines.Missed
		for len(executed)+len(missed) > 0 {
			row := coverRow{Cover: receipts.Bytes(lines.Path), Of: c.Call}
			row.Executed, executed = cutRanges(executed)
			row.Missed, missed = cutRanges(missed)
			j.row(&row)
		}
	}
	return j.err
}

// cutRanges returns as many ranges as fit into a row, and the rest.
func cutRanges(list []source.Range) (head []lineRange, rest []source.Range) {
	n := min(len(list), 1024)
	for _, r := range list[:n] {
		head = append(head, lineRange(r))
	}
	return head, list[n:]
}

// readLines reads a report of executed lines: Cobertura's if it begins as XML does,
// else LCOV's.
func (t *Trees) readLines(e *TestEntry, report io.Reader) (*source.Coverage, error) {
	in := bufio.NewReader(report)
	first, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	where := func(name string) (string, bool) { return t.reported(e, name) }
	if text := strings.TrimPrefix(string(first), "\ufeff"); strings.HasPrefix(text, "<") {
		return source.ReadCobertura(in, where)
	}
	return source.ReadLCOV(in, where)
}

// reported returns the path in the head's tree of a file that a report names: below
// the entry's folder or the root, or as an absolute path of which the root may be
// anywhere, since not every sandbox can give it its own name.
func (t *Trees) reported(e *TestEntry, name string) (string, bool) {
	has := func(p string) bool {
		_, ok := find(t.entries[SideHead], p)
		return ok
	}
	name = path.Clean(strings.ReplaceAll(name, "\\", "/"))
	if p := path.Join(e.Dir, name); !path.IsAbs(name) {
		if has(p) {
			return p, true
		}
		return name, has(name)
	}
	for range maxReported {
		_, rest, ok := strings.Cut(strings.TrimPrefix(name, "/"), "/")
		if !ok {
			break
		}
		if name = "/" + rest; has(rest) {
			return rest, true
		}
	}
	return "", false
}

const maxReported = 64 // folders above the root of the tree

// mergeLines adds the lines of a row to what is known of a file, of which several
// runs may tell: a line that one of them executed is executed.
func mergeLines(have *coverRow, row *coverRow) {
	executed := union(append(have.Executed, row.Executed...))
	missed := union(append(have.Missed, row.Missed...))
	*have = coverRow{Cover: row.Cover, Of: row.Of, Executed: executed, Missed: subtract(missed, executed)}
}

// union returns the lines of all ranges as ascending ranges that do not touch.
func union(list []lineRange) []lineRange {
	slices.SortFunc(list, func(a, b lineRange) int { return a.From - b.From })
	var out []lineRange
	for _, r := range list {
		if n := len(out); n > 0 && r.From <= out[n-1].To+1 {
			out[n-1].To = max(out[n-1].To, r.To)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// subtract returns the lines of list that are not in others, both as union returns
// them.
func subtract(list, others []lineRange) []lineRange {
	var out []lineRange
	i := 0
	for _, r := range list {
		for i < len(others) && others[i].To < r.From {
			i++
		}
		from := r.From
		for k := i; k < len(others) && others[k].From <= r.To; k++ {
			if others[k].From > from {
				out = append(out, lineRange{from, others[k].From - 1})
			}
			from = others[k].To + 1
		}
		if from <= r.To {
			out = append(out, lineRange{from, r.To})
		}
	}
	return out
}
