package foreign

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/internal/jcs"
)

// A fleetBatch is an audit batch of one instance.
type fleetBatch struct {
	instance, id, hash string
	org, fleet         string
	start, end         int64
	events, dropped    int64
	emitted            time.Time
}

// number returns a number that is not negative.
func (f *fields) number(v *jcs.Value, name string) int64 {
	n, ok := v.Member(name).Int()
	if !ok || n < 0 {
		f.fail("wrong-type", "%s: want a number that is not negative", name)
		return 0
	}
	return n
}

// fleet reads a fleet receipt and answers whether it agrees with itself.
func fleet(p, subjects *jcs.Value, s *statement, f *fields, j *judgment) {
	if n, ok := p.Member("schemaVersion").Int(); !ok || n != 1 {
		f.fail("unknown-version", "schemaVersion: want 1")
	}
	f.only(p, "verificationLevel", "L1", "unsupported-level")
	s.issued = f.time(p, "generatedAt")
	window := f.object(p, "reportWindow")
	from, to := f.time(window, "start"), f.time(window, "end")
	org, name := f.text(p, "orgId"), f.text(p, "fleetId")
	list := p.Member("sourceBatches")
	if list == nil || len(list.Elements()) == 0 || len(list.Elements()) > MaxSubjects {
		f.fail("missing-member", "sourceBatches: want 1 to %d", MaxSubjects)
		return
	}
	var batches []fleetBatch
	for i := range list.Elements() {
		e := &list.Elements()[i]
		batches = append(batches, fleetBatch{
			instance: f.text(e, "instanceId"), id: f.text(e, "batchId"), hash: f.text(e, "envelopeHash"),
			org: f.text(e, "orgId"), fleet: f.text(e, "fleetId"),
			start: f.number(e, "seqStart"), end: f.number(e, "seqEnd"), events: f.number(e, "eventCount"), dropped: f.number(e, "droppedCount"),
			emitted: f.time(e, "emittedAt"),
		})
	}
	if f.err != nil {
		return
	}
	askFor(&j.Chain)
	wrong := func(code, format string, args ...any) { j.find(&j.Chain, No, code, format, args...) }
	if !from.Before(to) {
		wrong("window", "the report's window ends before it begins")
	}
	seen := map[string]bool{}
	for i, b := range batches {
		if b.org != org || b.fleet != name {
			wrong("foreign-batch", "batch %d is of another fleet", i)
		}
		if b.emitted.Before(from) || b.emitted.After(to) {
			wrong("window", "batch %d was emitted outside the report's window", i)
		}
		if span := b.end - b.start + 1; b.end < b.start || b.events > span || b.dropped == 0 && b.events != span {
			wrong("batch-count", "batch %d has %d events, %d dropped, of the numbers %d to %d", i, b.events, b.dropped, b.start, b.end)
		}
		// An id and a hash cannot be taken for each other.
		for _, key := range [...]string{"id " + b.instance + "\x00" + b.id, "hash " + b.hash} {
			if seen[key] {
				wrong("duplicate-batch", "batch %d is there before", i)
				break
			}
			seen[key] = true
		}
		if i > 0 {
			b.follows(&batches[i-1], i, j)
		}
	}
	fleetSubjects(batches, subjects, f, wrong)
	fleetSums(p, batches, f, wrong)
	j.Violations = dedupe(j.Violations, 0)
}

// follows answers for the order of two batches.
func (b *fleetBatch) follows(before *fleetBatch, i int, j *judgment) {
	switch {
	case b.instance < before.instance, b.instance == before.instance && b.start < before.start:
		j.find(&j.Chain, No, "reordered", "batch %d belongs before the one before it", i)
	case b.instance == before.instance && b.start <= before.end:
		j.find(&j.Chain, No, "overlap", "batch %d has numbers of the one before it", i)
	case b.instance == before.instance && b.start > before.end+1:
		j.find(&j.Chain, Unproven, "gap", "between batch %d and the one before it, numbers are missing", i)
	}
}

func fleetSubjects(batches []fleetBatch, subjects *jcs.Value, f *fields, wrong func(string, string, ...any)) {
	list := subjects.Elements()
	if len(list) != len(batches) {
		wrong("subject-mismatch", "%d subjects, %d batches", len(list), len(batches))
		return
	}
	for i, b := range batches {
		name := "conductor-audit-batch:" + strings.Join([]string{b.org, b.fleet, b.instance, b.id}, "/")
		if f.optional(&list[i], "name") != name || f.optional(f.object(&list[i], "digest"), "sha256") != b.hash {
			wrong("subject-mismatch", "subject %d is not batch %d", i, i)
		}
	}
}

// fleetSums answers for the totals.
func fleetSums(p *jcs.Value, batches []fleetBatch, f *fields, wrong func(string, string, ...any)) {
	var events, dropped int64
	followers := map[string]int64{}
	for _, b := range batches {
		// At most 1,024 numbers below 2^53.
		events, dropped, followers[b.instance] = events+b.events, dropped+b.dropped, followers[b.instance]+b.events
	}
	summary, completeness := f.object(p, "summary"), f.object(p, "completeness")
	total := f.number(summary, "totalActions")
	if total != events {
		wrong("summary-mismatch", "totalActions is %d, the batches have %d", total, events)
	}
	by := f.object(summary, "byFollower")
	for _, m := range by.Members() {
		if n := f.number(by, m.Name); n != followers[m.Name] {
			wrong("summary-mismatch", "byFollower: %.80q has %d, its batches have %d", m.Name, n, followers[m.Name])
		}
	}
	for name, n := range followers {
		if n > 0 && by.Member(name) == nil {
			wrong("summary-mismatch", "byFollower: some are missing")
			break
		}
	}
	for _, group := range [...]struct {
		name string
		some bool // not every action has to have one
	}{{"byTransport", false}, {"byActionType", false}, {"byVerdict", false}, {"byLayer", true}, {"bySeverity", true}} {
		by, sum := f.object(summary, group.name), new(big.Int)
		for _, m := range by.Members() {
			sum.Add(sum, big.NewInt(f.number(by, m.Name)))
		}
		if c := sum.Cmp(big.NewInt(total)); c > 0 || c < 0 && !group.some {
			wrong("summary-mismatch", "%s has %s together, totalActions is %d", group.name, sum, total)
		}
	}
	observed, mediated := f.number(completeness, "observedActions"), f.number(completeness, "mediatedActions")
	if observed != events || f.number(completeness, "droppedObservedActions") != dropped || mediated > observed {
		wrong("completeness-mismatch", "%d observed and %d mediated, the batches have %d and %d dropped", observed, mediated, events, dropped)
	}
	if text := f.text(completeness, "mediatedFraction"); !isFraction(text, mediated, observed) {
		wrong("completeness-mismatch", "mediatedFraction %.40q of %d in %d", text, mediated, observed)
	}
}

// isFraction reports whether text is n/d as a decimal number, to its last digit.
func isFraction(text string, n, d int64) bool {
	whole, fraction, _ := strings.Cut(text, ".")
	if len(text) > 40 || strings.Trim(whole+fraction, "0123456789") != "" || whole == "" || d == 0 {
		return d == 0 && n == 0 && (text == "0" || text == "1")
	}
	got, ok := new(big.Rat).SetString(text)
	if !ok {
		return false
	}
	off := got.Sub(got, big.NewRat(n, d))
	unit, ok := new(big.Rat).SetString(fmt.Sprintf("1e-%d", len(fraction)))
	return ok && (off.Sign() == 0 || len(fraction) > 0 && off.Abs(off).Cmp(unit) < 0)
}
