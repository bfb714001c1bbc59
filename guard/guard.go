package guard

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/receipts/foreign"
)

// Limits.
const (
	MaxContent    = 16 << 20 // bytes of content, and of a receipt
	MaxDetections = 16       // of one rule in a report; others are counted
	MaxMatched    = 128      // bytes of text in a detection, before escaping
	DefaultCache  = 128      // reports
)

// ErrNoAdapter says that a result has a receipt and the guard has no adapter.
var ErrNoAdapter = errors.New("receipt given, but no adapter: nothing can verify it")

// A SizeError says that a result is larger than [MaxContent].
type SizeError struct {
	What string // "content" or "receipt"
	Size int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("%s: %d bytes, limit %d", e.What, e.Size, MaxContent)
}

// Options say how a guard works. The zero value is of use.
type Options struct {
	Mode    Mode             // "": Flag
	Adapter foreign.Adapter  // verifies receipts; nil: none is asked for
	Cache   int              // how many reports are kept; 0: DefaultCache
	NoCache bool             // keep none
	Now     func() time.Time // nil: time.Now
}

// A Guard scans tool results. It can be used by several goroutines.
type Guard struct {
	mode    Mode
	adapter foreign.Adapter
	now     func() time.Time
	cache   *cache
}

// New returns a guard.
func New(o Options) (*Guard, error) {
	switch o.Mode {
	case "":
		o.Mode = Flag
	case Block, Flag, Log, Sanitize:
	default:
		return nil, fmt.Errorf("mode %q: want block, flag, log or sanitize", o.Mode)
	}
	if o.Cache < 0 {
		return nil, fmt.Errorf("cache: %d reports", o.Cache)
	}
	g := &Guard{mode: o.Mode, adapter: o.Adapter, now: o.Now}
	if g.now == nil {
		g.now = time.Now
	}
	if o.Cache == 0 {
		o.Cache = DefaultCache
	}
	if o.Adapter == nil && !o.NoCache {
		g.cache = newCache(o.Cache)
	}
	return g, nil
}

// A Result is what a tool returned, and what the caller knows of it.
type Result struct {
	Content      []byte
	ToolName     string
	ToolType     string // such as "retrieval" or "code_exec"
	SourceURL    string
	ParentScanID string

	// Indirect says whether the content is from elsewhere than the tool itself; nil: it
	// is for the types retrieval, rag, web_search and search.
	Indirect *bool

	Receipt []byte          // nil: there is none
	Binding foreign.Binding // what the receipt has to be about
}

func (r *Result) indirect() bool {
	if r.Indirect != nil {
		return *r.Indirect
	}
	switch r.ToolType {
	case "retrieval", "rag", "web_search", "search":
		return true
	}
	return false
}

// key is a digest of all that shapes a report, except the time: each part behind its
// length, so that no two results read alike.
func (g *Guard) key(r *Result) [sha256.Size]byte {
	h := sha256.New()
	frame := func(s string) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	frame("truegreen/v1 guard scan")
	frame(Digest())
	frame(string(g.mode))
	for _, s := range []string{r.ToolName, r.ToolType, r.SourceURL, r.ParentScanID, fmt.Sprint(r.indirect())} {
		frame(s)
	}
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(r.Content))))
	h.Write(r.Content)
	if g.adapter != nil {
		frame(fmt.Sprint(r.Receipt != nil))
		frame(string(r.Receipt))
		for _, s := range []string{r.Binding.Tool, r.Binding.ArgHash, r.Binding.Target, fmt.Sprint(r.Binding.Allowed)} {
			frame(s)
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Scan says whether a result is safe to show. The verdict is in the report: an error
// says that there is none, and the report is zero.
func (g *Guard) Scan(ctx context.Context, r Result) (Report, error) {
	switch {
	case len(r.Content) > MaxContent:
		return Report{}, &SizeError{"content", len(r.Content)}
	case len(r.Receipt) > MaxContent:
		return Report{}, &SizeError{"receipt", len(r.Receipt)}
	case r.Receipt != nil && g.adapter == nil:
		return Report{}, ErrNoAdapter
	case ctx.Err() != nil:
		return Report{}, ctx.Err()
	}
	key := g.key(&r)
	if g.cache != nil {
		if report, ok := g.cache.get(key); ok {
			return report, nil
		}
	}
	report, err := g.scan(ctx, &r)
	if err != nil {
		return Report{}, err
	}
	report.ScanID = "sha256:" + hex.EncodeToString(key[:])
	if g.cache != nil {
		g.cache.put(key, report.clone())
	}
	return report, nil
}

func (g *Guard) scan(ctx context.Context, r *Result) (Report, error) {
	report := Report{
		Time:       g.now().UTC(),
		Gate:       "tool_result",
		Mode:       g.mode,
		Rules:      Digest(),
		Bytes:      len(r.Content),
		Indirect:   r.indirect(),
		Provenance: Provenance{r.ToolName, r.ToolType, r.SourceURL, r.ParentScanID},
	}
	f := newFindings(r.Content)
	if err := f.scan(ctx); err != nil {
		return Report{}, err
	}
	if g.adapter != nil {
		receipt := verify(ctx, g.adapter, r)
		if err := ctx.Err(); err != nil {
			return Report{}, err
		}
		report.Receipt = &receipt
	}
	report.Detections, report.More = f.detections()
	if g.mode == Sanitize {
		s := string(r.Content)
		if f.count > 0 {
			s = string(sanitize(r.Content))
		}
		report.Sanitized = &s
	}
	untrusted := report.Receipt != nil && !report.Receipt.Trusted
	if untrusted {
		report.Detections = append(report.Detections, receiptDetection(report.Receipt))
		f.highest[UntrustedOrigin] = 1
	}
	report.Families, report.Confidence = classify(f.highest)
	report.Mitigation = mitigation(report.Families)
	report.Action, report.Reason = g.decide(&report, untrusted)
	return report, nil
}

// decide returns what the report asks for, and why.
func (g *Guard) decide(r *Report, untrusted bool) (Action, string) {
	if len(r.Detections) == 0 {
		return ActionPass, ""
	}
	names := make([]string, len(r.Families))
	for i, f := range r.Families {
		names[i] = string(f)
	}
	reason := strings.Join(names, ", ")
	if untrusted {
		reason = "untrusted origin: " + r.Receipt.Reason
	}
	switch {
	case g.mode == Block:
		return ActionBlock, "blocked: " + reason
	case g.mode == Log && !untrusted:
		return ActionLog, reason
	}
	return ActionFlag, reason // also in mode log: fail closed
}
