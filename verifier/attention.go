package verifier

import (
	"fmt"
	"slices"
	"strings"
)

// A Note says to people what needs attention. Its text is not neutralised: names
// and paths in it are the patch's.
type Note struct {
	Code string // of the findings it is about; "" where it is about the policy
	Text string
}

// maxNoted is how many findings of one code have a note of their own.
const maxNoted = 10

// What findings say to people, in the order in which they deserve attention. Those
// that are gathered are one line for all of a code: who looks for them wants to know
// that they are there.
var attention = []struct {
	code   string
	text   string
	gather bool
}{
	{FindCanarySilent, "a test that has to fail did not turn its run red", false},
	{FindRemoved, "it was there on the base", false},
	{FindNewlySkipped, "it was not skipped on the base and is now", false},
	{FindBaseTests, "the base's own version of it fails on the head's code", false},
	{FindWeakened, "it checks less than on the base", false},
	{FindHarnessCode, "it changes how tests run", false},
	{FindTestAware, "code that can find out whether it is tested", false},
	{FindUnstable, "it fails and passes", false},
	{FindMisplaced, "it fails when all tests run in another order", false},
	{FindCIDependent, "it ends otherwise where nothing tells of CI", false},
	{FindSuspect, "it regressed, and may do so by chance", false},
	{FindNeverRun, "its package ended before it", false},
	{FindNotExecuted, "changed lines that no test executed", false},
	{FindSurvived, "a fault on purpose that no test noticed", false},
	{"harness-touched", "decides how tests run", true},
	{"ci-touched", "decides what is run and who must agree", true},
	{"build-touched", "decides what is built", true},
	{"golden-touched", "is what tests read or compare with", true},
	{"tooling-touched", "decides how coverage and mutants are counted", true},
	{FindNotMeasured, "left out", true},
	{FindNoControl, "what the tests say of themselves is not compared with anything else", true},
	{FindRenamed, "has another name", true},
	{FindNotFailing, "new, and passes without the change as well", true},
}

// Notes returns what needs attention, code by code, the gravest first.
func (f *Findings) Notes() []Note {
	of := map[string][]Finding{}
	var others []string
	for _, x := range f.Findings {
		of[x.Code] = append(of[x.Code], x)
		if !slices.Contains(others, x.Code) {
			others = append(others, x.Code)
		}
	}
	var notes []Note
	var ignored []string
	say := func(code, text string, gather bool) {
		list := of[code]
		switch {
		case len(list) == 0:
		case f.Policy(code) == PolicyIgnore:
			ignored = append(ignored, fmt.Sprintf("%d %s", len(list), code))
		case gather:
			notes = append(notes, Note{code, gathered(list) + ": " + text})
		default:
			for i := range list[:min(len(list), maxNoted)] {
				notes = append(notes, Note{code, described(&list[i], text)})
			}
			if more := len(list) - maxNoted; more > 0 {
				notes = append(notes, Note{code, fmt.Sprintf("and %d more", more)})
			}
		}
	}
	for _, what := range attention {
		others = slices.DeleteFunc(others, func(code string) bool { return code == what.code })
		say(what.code, what.text, what.gather)
	}
	for _, code := range others {
		say(code, "", false)
	}
	if len(ignored) > 0 {
		notes = append(notes, Note{Text: "the policy ignores " + strings.Join(ignored, ", ")})
	}
	return notes
}

// place returns where a finding is, "" if it is the count of those left out.
func place(x *Finding) string {
	var parts []string
	if x.Path != "" {
		at := x.Path
		if x.Line > 0 {
			at += fmt.Sprintf(":%d", x.Line)
		}
		parts = append(parts, at)
	}
	switch test := strings.TrimSpace(x.Test.String()); {
	case x.Path != "" && x.Test.Name != "":
		parts = append(parts, x.Test.Name)
	case x.Path == "" && test != "":
		parts = append(parts, test)
	case x.Path == "" && x.Test.Entry != "":
		parts = append(parts, x.Test.Entry)
	}
	return strings.Join(parts, " ")
}

// weaker says what a test has less of.
var weaker = strings.NewReplacer(
	"assertions-fewer", "fewer assertions", "rows-fewer", "fewer rows in its tables", "skip-added", "a skip was added",
	"constraint-added", "a build constraint was added", "commented-out", "it is commented out", "output-removed", "its Output comment is gone",
	"body-emptied", "its body is empty", "early-return", "it returns early",
)

// described returns one finding as a sentence.
func described(x *Finding, text string) string {
	at, detail := place(x), x.Detail
	if at == "" {
		return detail
	}
	if x.Code == FindWeakened {
		detail = weaker.Replace(detail)
	}
	parts := []string{at}
	if text != "" {
		parts = append(parts, text)
	}
	if detail != "" {
		parts = append(parts, detail)
	}
	return strings.Join(parts, ": ")
}

// gathered returns what findings of one code are about, each once.
func gathered(list []Finding) string {
	const shown = 5
	var items []string
	times := map[string]int{}
	left := ""
	for i := range list {
		x := &list[i]
		item := place(x)
		switch {
		case item == "":
			left = x.Detail
			continue
		case x.Code == FindRenamed:
			item += " → " + x.Detail
		case x.Code == FindNotMeasured:
			what, why, told := strings.Cut(x.Detail, ": ")
			item = x.Test.Entry + " " + what
			if told {
				item += " (" + why + ")"
			}
		}
		if times[item]++; times[item] == 1 {
			items = append(items, item)
		}
	}
	for i, item := range items {
		if n := times[item]; n > 1 {
			items[i] = fmt.Sprintf("%s, %d times", item, n)
		}
	}
	if more := len(items) - shown; more > 1 {
		items = append(items[:shown], fmt.Sprintf("and %d more", more))
	}
	if left != "" {
		items = append(items, left)
	}
	return strings.Join(items, ", ")
}
