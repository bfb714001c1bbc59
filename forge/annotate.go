package forge

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/truegreen-dev/truegreen/internal/lazy"
	"github.com/truegreen-dev/truegreen/verifier"
)

// An Annotation is a message at a line of a file, or about the whole run.
type Annotation struct {
	Level   string // error, warning or notice
	Path    string // from the root of the repository, with slashes; "": the whole run
	Line    int    // 0: the whole file
	Title   string
	Message string
}

// A forge shows ten annotations of each level that a step makes, and is silent about
// the rest: the tenth says how many there are more.
const maxAnnotations = 9

const (
	maxPlaced  = 500  // tests of a group whose place is looked for
	maxTitle   = 120  // characters
	maxMessage = 2000 // bytes
)

// String returns the command by which a job's log makes the annotation. It is one
// line.
func (a Annotation) String() string {
	var at []string
	if a.Path != "" {
		at = append(at, "file="+property.Replace(a.Path))
		if a.Line > 0 {
			at = append(at, fmt.Sprintf("line=%d", a.Line))
		}
	}
	at = append(at, "title="+property.Replace(a.Title))
	return fmt.Sprintf("::%s %s::%s", a.Level, strings.Join(at, ","), data.Replace(a.Message))
}

var (
	data     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// Annotations returns why the page is not verified, the failed tests at their lines,
// and findings at theirs. What has no line in the tested tree is counted with those
// that there is no room for.
func (p *Page) Annotations() []Annotation {
	red := "error"
	if p.ReportOnly || p.Target.Unattested {
		red = "warning"
	}
	var errors, warnings quota
	errors.level, warnings.level = red, "warning"
	list := p.facts()
	for i := range list {
		f := &list[i]
		for _, r := range f.reasons {
			errors.add(Annotation{Title: "truegreen: " + string(f.verdict), Message: message(f.Name, []string{r.String(), causeOf(r.Code).Remedy})})
		}
	}
	for i := range list {
		f := &list[i]
		for _, group := range f.failures() {
			for n, t := range group.tests {
				if errors.full() || n == maxPlaced {
					errors.more += len(group.tests) - n
					break
				}
				at, ok := f.place(t)
				if !ok {
					errors.more++
					continue
				}
				title := group.title
				if f.claimed {
					title = "claimed, not attested: " + title
				}
				lines, kinds := f.printed(t, 12)
				if len(kinds) > 0 {
					lines = append(lines, screened(kinds))
				}
				errors.add(Annotation{Path: at.path, Line: at.line, Title: title, Message: message(t.String(), lines)})
			}
		}
		if !f.Report.Sound() {
			continue
		}
		for _, x := range f.Report.Findings().Findings {
			if x.Path != "" && x.Line > 0 && f.Report.Findings().Policy(x.Code) != verifier.PolicyIgnore && f.Report.Tracked(x.Path) {
				warnings.add(Annotation{Path: x.Path, Line: x.Line, Title: "truegreen: " + x.Code, Message: message(x.String(), nil)})
			}
		}
	}
	if red == warnings.level { // they share one quota
		for _, a := range warnings.list {
			errors.add(a)
		}
		errors.more += warnings.more
		return errors.all()
	}
	return append(errors.all(), warnings.all()...)
}

// A quota is the annotations of one level.
type quota struct {
	level string
	list  []Annotation
	more  int
}

func (q *quota) full() bool { return len(q.list) >= maxAnnotations }

func (q *quota) add(a Annotation) {
	if q.full() {
		q.more++
		return
	}
	a.Level, a.Title = q.level, cut(OneLine(a.Title), maxTitle)
	q.list = append(q.list, a)
}

func (q *quota) all() []Annotation {
	if q.more == 0 {
		return q.list
	}
	return append(q.list, Annotation{
		Level: q.level, Title: "truegreen: more", Message: plural(q.more, "more is", "more are") + " not shown here: see the summary of the job.",
	})
}

// message returns the text of an annotation: one line, and what comes below.
func message(first string, below []string) string {
	lines := nonempty(cut(OneLine(first), maxField))
	for _, l := range below {
		lines = append(lines, OneLine(l))
	}
	return shorten(strings.Join(nonempty(lines...), "\n"), maxMessage)
}

// A place is a line of a file of the tested tree.
type place struct {
	path string
	line int
}

func (p place) String() string { return fmt.Sprintf("%s:%d", p.path, p.line) }

// said returns the line of a test's output in which it names the place, without
// the place, or else its first.
func (p place) said(lines []string) string {
	for _, l := range lines {
		if _, text, ok := strings.Cut(l, fmt.Sprintf("%s:%d: ", path.Base(p.path), p.line)); ok {
			return strings.TrimSpace(text)
		}
	}
	return strings.TrimSpace(lines[0])
}

// located finds what looks like a file and a line in it.
var located = lazy.Regexp(`(?:^|[\s"'(\[])((?:[A-Za-z0-9_@+.-]|/)[A-Za-z0-9_@+./-]*\.[A-Za-z0-9]+)(?::|", line )([1-9][0-9]{0,6})\b`)

// place returns the line at which a failed test says that it failed, or else the one
// at which it is declared. What a test prints is untrusted: a file counts only if the
// tested tree has it, and folders are those of the tree.
func (f *facts) place(t verifier.TestName) (place, bool) {
	home, ok := f.Report.Home(t)
	if !ok {
		return place{}, false
	}
	for _, l := range block(f.Report.Excerpt(t), 200) {
		for _, m := range located().FindAllStringSubmatch(l, -1) {
			name, inside := strings.CutPrefix(m[1], verifier.WorkDir+"/")
			if !inside {
				if strings.HasPrefix(name, "/") {
					continue
				}
				name = path.Join(home.Dir, name)
			}
			if f.Report.Tracked(name) {
				line, _ := strconv.Atoi(m[2])
				return place{name, line}, true
			}
		}
	}
	if home.File != "" && f.Report.Tracked(home.File) {
		return place{home.File, home.Line}, true
	}
	return place{}, false
}
