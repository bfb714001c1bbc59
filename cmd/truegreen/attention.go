package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/verifier"
)

// What findings say to people, in the order in which they deserve attention. Those
// that are gathered are one line for all of a code: who looks for them wants to know
// that they are there.
var attention = []struct {
	code   string
	text   string
	gather bool
}{
	{verifier.FindCanarySilent, "a test that has to fail did not turn its run red", false},
	{verifier.FindRemoved, "it was there on the base", false},
	{verifier.FindNewlySkipped, "it was not skipped on the base and is now", false},
	{verifier.FindBaseTests, "the base's own version of it fails on the head's code", false},
	{verifier.FindWeakened, "it checks less than on the base", false},
	{verifier.FindHarnessCode, "it changes how tests run", false},
	{verifier.FindTestAware, "code that can find out whether it is tested", false},
	{verifier.FindUnstable, "it fails and passes", false},
	{verifier.FindMisplaced, "it fails when all tests run in another order", false},
	{verifier.FindCIDependent, "it ends otherwise where nothing tells of CI", false},
	{verifier.FindSuspect, "it regressed, and may do so by chance", false},
	{verifier.FindNeverRun, "its package ended before it", false},
	{verifier.FindNotExecuted, "changed lines that no test executed", false},
	{verifier.FindSurvived, "a fault on purpose that no test noticed", false},
	{"harness-touched", "decides how tests run", true},
	{"ci-touched", "decides what is run and who must agree", true},
	{"build-touched", "decides what is built", true},
	{"golden-touched", "is what tests read or compare with", true},
	{"tooling-touched", "decides how coverage and mutants are counted", true},
	{verifier.FindNotMeasured, "left out", true},
	{verifier.FindNoControl, "what the tests say of themselves is not compared with anything else", true},
	{verifier.FindRenamed, "has another name", true},
	{verifier.FindNotFailing, "new, and passes without the change as well", true},
}

// printFindings lists what needs attention, code by code, the gravest first.
func (a *app) printFindings(w io.Writer, r verifier.Report) {
	f := r.Findings()
	of := map[string][]verifier.Finding{}
	var others []string
	for _, x := range f.Findings {
		of[x.Code] = append(of[x.Code], x)
		if !slices.Contains(others, x.Code) {
			others = append(others, x.Code)
		}
	}
	var ignored []string
	show := func(code, text string, gather bool) {
		list := of[code]
		switch {
		case len(list) == 0:
		case f.Policy(code) == verifier.PolicyIgnore:
			ignored = append(ignored, fmt.Sprintf("%d %s", len(list), code))
		case gather:
			fmt.Fprintf(w, "  note      %s: %s: %s\n", oneLine(code), oneLine(gathered(list)), text)
		default:
			for i := range list[:min(len(list), maxListed)] {
				fmt.Fprintf(w, "  note      %s: %s\n", oneLine(code), oneLine(described(&list[i], text)))
			}
			if more := len(list) - maxListed; more > 0 {
				fmt.Fprintf(w, "  note      %s: and %d more\n", oneLine(code), more)
			}
		}
	}
	for _, what := range attention {
		others = slices.DeleteFunc(others, func(code string) bool { return code == what.code })
		show(what.code, what.text, what.gather)
	}
	for _, code := range others {
		show(code, "", false)
	}
	if len(ignored) > 0 {
		fmt.Fprintf(w, "  note      the policy ignores %s\n", oneLine(strings.Join(ignored, ", ")))
	}
}

// place returns where a finding is, "" if it is the count of those left out.
func place(x *verifier.Finding) string {
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
func described(x *verifier.Finding, text string) string {
	at, detail := place(x), x.Detail
	if at == "" {
		return detail
	}
	if x.Code == verifier.FindWeakened {
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
func gathered(list []verifier.Finding) string {
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
		case x.Code == verifier.FindRenamed:
			item += " → " + x.Detail
		case x.Code == verifier.FindNotMeasured:
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
