package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/receipts/foreign"
)

// showReceipt prints what a receipt comes to: the verdict with its first reason, each
// answer with its reasons, and what to keep.
func (a *app) showReceipt(r *verifiedReceipt) error {
	if m := r.Malformed; m != nil {
		at := ""
		if m.Line > 0 {
			at = fmt.Sprintf(" at line %d", m.Line)
		}
		_, err := fmt.Fprintf(a.out, "%s\n", a.color("31", "INVALID"+at+": "+oneLine(withDetail(m.Code, m.Detail))))
		return err
	}
	v := r.Verification
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", a.receiptHead(r.Verdict, v))
	fmt.Fprintf(&b, "  %-9s %s %s\n", "format", oneLine(v.Adapter), oneLine(v.Form))
	for _, q := range v.Answers() {
		if q.Answer != foreign.NotAsked {
			fmt.Fprintf(&b, "  %-9s %s%s\n", q.Question, q.Answer, about(v, q.Question))
		}
	}
	for _, x := range v.Violations {
		fmt.Fprintf(&b, "  %-9s %s\n", "why", oneLine(x.String()))
	}
	if len(v.Uncovered) > 0 {
		fmt.Fprintf(&b, "  %-9s %s\n", "unsigned", oneLine(strings.Join(v.Uncovered, ", ")))
	}
	if v.Receipts > 1 || v.Chain != foreign.NotAsked {
		fmt.Fprintf(&b, "  %-9s %d\n", "receipts", v.Receipts)
	}
	if v.Head != "" {
		fmt.Fprintf(&b, "  %-9s %s\n", "head", oneLine(v.Head))
	}
	_, err := a.out.Write([]byte(b.String()))
	return err
}

// receiptHead is the line that comes first.
func (a *app) receiptHead(verdict string, v *foreign.Verification) string {
	switch verdict {
	case receiptValid:
		text := "VALID"
		if v.EndProof != "" {
			text += ", END PROVEN by " + v.EndProof
		}
		return a.color("32", oneLine(text))
	case receiptPrefix:
		return a.color("33", "VALID PREFIX, END UNPROVEN")
	case receiptUnproven:
		if v.Trust == foreign.Unproven {
			return a.color("33", "UNPINNED: nothing is wrong, and no key of yours vouches for it; name one with --key")
		}
		return a.color("33", "UNPROVEN"+firstReason(v))
	}
	at := ""
	if x, ok := v.Reason(); ok && x.Seq != nil {
		at = fmt.Sprintf(" at seq %d", *x.Seq)
	}
	return a.color("31", "INVALID"+at+firstReason(v))
}

func firstReason(v *foreign.Verification) string {
	x, ok := v.Reason()
	if !ok {
		return ""
	}
	return ": " + oneLine(withDetail(x.Code, x.Detail))
}

func withDetail(code, detail string) string {
	if detail == "" {
		return code
	}
	return code + ": " + detail
}

// about says in a few words what an answer is about.
func about(v *foreign.Verification, question string) string {
	said := ""
	switch question {
	case "trust":
		said = v.Issuer
	case "binding":
		said = strings.TrimSpace(v.Tool + " " + v.Target)
	case "decision":
		said = v.Said
	case "freshness":
		if !v.Issued.IsZero() {
			said = "of " + v.Issued.UTC().Format(time.RFC3339)
		}
		if !v.Expires.IsZero() {
			said = strings.TrimSpace(said + " until " + v.Expires.UTC().Format(time.RFC3339))
		}
	case "end":
		said = v.EndProof
	}
	if said == "" {
		return ""
	}
	return "  " + oneLine(said)
}
