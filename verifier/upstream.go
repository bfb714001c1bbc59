package verifier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/receipts/foreign"
	"github.com/truegreen-dev/truegreen/receipts/jws"
)

// The formats of receipts that a configuration can ask for. CrustCore's is none of
// them: its key is a secret, and a configuration has none.
const (
	adapterPipelock = "pipelock"
	adapterJWS      = "jws"
	adapterActa     = "acta"
	adapterDSSE     = "dsse"
)

// Limits of receipts that a configuration asks for.
const (
	maxUpstream    = 16          // entries
	maxUpstreamAge = 366 * 86400 // seconds
	maxUpstreamWhy = 3           // violations that are told
	// MaxUpstreamReceipt is the largest size of the file of one, in bytes.
	MaxUpstreamReceipt = 4 << 20
)

// A ReceiptEntry asks for a receipt, or a chain of them, that another tool made of
// something that came before the run. Its fields are what package
// [github.com/truegreen-dev/truegreen/receipts/foreign] asks, and the keys are in it:
// a configuration says by itself whose receipts count.
//
// The receipt comes to the run as a file. A call of the tool receipt, behind that of
// plan, holds the files that were given:
//
//	args    no name, side, argv or env
//	result  files  receipt/NAME   of the entries, in their order; those that were
//	                              not given are left out
//
// Whoever verifies the bundle asks each file again, with the configuration's keys and
// rules, at the time at which the call started. That is the clock of whoever sealed.
// A receipt says what its issuer says. truegreen saw nothing of it, and nothing ties it
// to the patch but what the entry asks for.
type ReceiptEntry struct {
	Name    string   `json:"name"`    // as that of a test entry; unique
	Adapter string   `json:"adapter"` // pipelock, jws, acta or dsse
	Keys    []string `json:"keys"`    // each as foreign.ParseKeys reads it
	Tool    string   `json:"tool,omitempty"`
	ArgHash string   `json:"arg_hash,omitempty"`
	Target  string   `json:"target,omitempty"`
	Allowed bool     `json:"allowed,omitempty"`   // it has to say that the call was allowed
	MaxAge  int      `json:"max_age_s,omitempty"` // 0: any
	Chain   bool     `json:"chain,omitempty"`     // pipelock, acta
	Prefix  bool     `json:"allow_prefix,omitempty"`

	Algorithms []string `json:"alg,omitempty"` // jws, where it is needed
	Issuer     string   `json:"issuer,omitempty"`
	Audience   string   `json:"audience,omitempty"`
	NoExpiry   bool     `json:"allow_no_expiry,omitempty"`

	Types     []string `json:"type,omitempty"` // dsse
	Threshold int      `json:"threshold,omitempty"`
}

// checkReceipts reports the first entry that is not as documented.
func checkReceipts(list []ReceiptEntry) error {
	if len(list) > maxUpstream {
		return fieldErrorf("receipts", "more than %d entries", maxUpstream)
	}
	names := map[string]bool{}
	for i := range list {
		e, at := &list[i], fmt.Sprintf("receipts[%d]", i)
		if err := e.check(at); err != nil {
			return err
		}
		if names[e.Name] {
			return fieldErrorf(at+".name", "another entry is named %q", e.Name)
		}
		names[e.Name] = true
	}
	return nil
}

func (e *ReceiptEntry) check(at string) error {
	if !isEntryName(e.Name) {
		return fieldErrorf(at+".name", "%q is not 1 to 32 of a-z, 0-9 and -, beginning with a letter or digit", e.Name)
	}
	formats := []string{adapterPipelock, adapterJWS, adapterActa, adapterDSSE}
	if !slices.Contains(formats, e.Adapter) {
		return fieldErrorf(at+".adapter", "%q is not one of %s", e.Adapter, strings.Join(formats, ", "))
	}
	for _, f := range []struct {
		name  string
		there bool
		of    []string
	}{
		{"chain", e.Chain, []string{adapterPipelock, adapterActa}},
		{"alg", len(e.Algorithms) > 0, []string{adapterJWS}},
		{"issuer", e.Issuer != "", []string{adapterJWS}},
		{"audience", e.Audience != "", []string{adapterJWS}},
		{"allow-no-expiry", e.NoExpiry, []string{adapterJWS}},
		{"type", len(e.Types) > 0, []string{adapterDSSE}},
		{"threshold", e.Threshold != 0, []string{adapterDSSE}},
	} {
		if f.there && !slices.Contains(f.of, e.Adapter) {
			return fieldErrorf(at+"."+f.name, "says nothing to %s: it is for %s", e.Adapter, strings.Join(f.of, ", "))
		}
	}
	for _, text := range append([]string{e.Tool, e.Target, e.Issuer, e.Audience}, e.Types...) {
		if len(text) > maxArg {
			return fieldErrorf(at, "%d bytes of text: the limit is %d", len(text), maxArg)
		}
	}
	if hash, ok := strings.CutPrefix(e.ArgHash, "sha256:"); e.ArgHash != "" && (!ok || len(hash) != 64 || strings.Trim(hash, "0123456789abcdef") != "") {
		return fieldErrorf(at+".arg-hash", "%q is not sha256: and 64 lower-case hexadecimal digits", e.ArgHash)
	}
	switch {
	case len(e.Keys) == 0:
		return fieldErrorf(at+".keys", "none: no receipt would count")
	case len(e.Keys) > maxList || len(e.Types) > maxList:
		return fieldErrorf(at, "more than %d keys or types", maxList)
	case e.Threshold < 0:
		return fieldErrorf(at+".threshold", "not above 0")
	case e.MaxAge < 0 || e.MaxAge > maxUpstreamAge:
		return fieldErrorf(at+".max-age", "not between 1s and 8784h")
	case e.Prefix && !e.Chain:
		return fieldErrorf(at+".allow-prefix", "only chains have an end")
	}
	for i, a := range e.Algorithms {
		if strings.HasPrefix(a, "HS") {
			return fieldErrorf(fmt.Sprintf("%s.alg[%d]", at, i), "%q: its key is a secret, and a configuration has none", a)
		}
	}
	for i, k := range e.Keys {
		if _, err := foreign.ParseKeys([]byte(k)); err != nil {
			return fieldErrorf(fmt.Sprintf("%s.keys[%d]", at, i), "%v", err)
		}
	}
	if _, err := e.adapter(time.Time{}); err != nil {
		return fieldErrorf(at, "%v", err)
	}
	return nil
}

// adapter returns what asks receipts of the entry at a time.
func (e *ReceiptEntry) adapter(now time.Time) (foreign.Adapter, error) {
	var keys []foreign.Key
	for _, text := range e.Keys {
		k, err := foreign.ParseKeys([]byte(text))
		if err != nil {
			return nil, err
		}
		keys = append(keys, k...)
	}
	rules := foreign.Rules{Now: func() time.Time { return now }, MaxAge: time.Duration(e.MaxAge) * time.Second, Chain: e.Chain}
	switch e.Adapter {
	case adapterPipelock:
		return foreign.NewPipelock(foreign.PipelockOptions{Rules: rules, Keys: keys})
	case adapterJWS:
		o := foreign.JWSOptions{Rules: rules, Keys: keys, Issuer: e.Issuer, Audience: e.Audience, AllowNoExpiry: e.NoExpiry}
		for _, a := range e.Algorithms {
			o.Algorithms = append(o.Algorithms, jws.Algorithm(a))
		}
		return foreign.NewJWS(o)
	case adapterActa:
		return foreign.NewActa(foreign.ActaOptions{Rules: rules, Keys: keys})
	case adapterDSSE:
		return foreign.NewDSSE(foreign.DSSEOptions{Rules: rules, Keys: keys, Types: e.Types, Threshold: e.Threshold})
	}
	return nil, fmt.Errorf("adapter %q: unknown", e.Adapter)
}

// The states of an [UpstreamReceipt].
const (
	UpstreamTrusted   = "trusted"   // every answer that was asked for is yes
	UpstreamUnproven  = "unproven"  // nothing is wrong, and what would prove it is missing
	UpstreamUntrusted = "untrusted" // an answer is no, or it is no receipt of the format
	UpstreamMissing   = "missing"   // the run was not given it
)

// An UpstreamReceipt is what became of a [ReceiptEntry]: what another tool says,
// whose word it is.
type UpstreamReceipt struct {
	Name         string                `json:"name"`
	Adapter      string                `json:"adapter"`
	State        string                `json:"state"`
	Why          string                `json:"why,omitempty"` // it is not trusted
	File         *receipts.File        `json:"file,omitempty"`
	Verification *foreign.Verification `json:"verification,omitempty"` // nil: missing, or malformed
}

// String returns the receipt in one line.
func (u *UpstreamReceipt) String() string {
	s := u.Name + ": " + u.State
	if v := u.Verification; v != nil && u.State == UpstreamTrusted {
		s += ", " + v.Form + " by " + v.Issuer
		for _, part := range [][2]string{{"tool", v.Tool}, {"target", v.Target}, {"says", v.Said}} {
			if part[1] != "" {
				s += ", " + part[0] + " " + part[1]
			}
		}
	}
	if u.Why != "" {
		s += ": " + u.Why
	}
	return s
}

// Upstream returns the receipts of other tools that the configuration asks for. The
// report vouches for what they came to when they were asked, and not for what they say.
func (r Report) Upstream() []UpstreamReceipt { return slices.Clone(r.get().upstream) }

const receiptPrefix = "receipt/"

// ReceiptFile returns the name under which the file of a receipt is recorded.
func ReceiptFile(name string) receipts.Bytes { return receipts.Bytes(receiptPrefix + name) }

// readUpstream asks the receipts of other tools again.
func (v *verification) readUpstream() error {
	calls, err := v.completed(receipts.ToolReceipt)
	if err != nil {
		return err
	}
	var asked []ReceiptEntry
	if v.config != nil {
		asked = v.config.Receipts
	}
	want := min(1, len(asked))
	switch {
	case len(calls) > want || len(calls) < want && v.seal.Outcome == bundle.OutcomeCompleted:
		return v.stop(CallsMismatch, memberLog, "receipt: %d calls, want %d", len(calls), want)
	case len(calls) == 0:
		return nil
	}
	files := calls[0].Result.Files
	at := v.started(calls[0].Call)
	for i := range asked {
		e := &asked[i]
		u := UpstreamReceipt{Name: e.Name, Adapter: e.Adapter, State: UpstreamMissing}
		if len(files) > 0 && string(files[0].Name) == string(ReceiptFile(e.Name)) {
			u.File, files = &files[0], files[1:]
			if err := v.askUpstream(&u, e, at); err != nil {
				return err
			}
		}
		v.upstream = append(v.upstream, u)
	}
	if len(files) > 0 {
		return v.stop(CallsMismatch, memberLog, "call %d: %q does not belong there", calls[0].Call, files[0].Name)
	}
	return nil
}

// started returns when a call started, by the log.
func (v *verification) started(call uint64) time.Time {
	for _, c := range v.run.Calls {
		if c.Start.Call == call {
			return time.UnixMilli(int64(c.Time))
		}
	}
	return time.Time{}
}

func (v *verification) askUpstream(u *UpstreamReceipt, e *ReceiptEntry, at time.Time) error {
	member := blobMember(u.File.Digest)
	if !v.blobs.Has(u.File.Digest) {
		return v.stop(BlobMissing, member, "receipt %s: it is withheld", e.Name)
	}
	r, err := v.blobs.open(u.File.Digest)
	if err != nil {
		return v.refuse(err)
	}
	defer r.Close()
	content, err := io.ReadAll(io.LimitReader(r, MaxUpstreamReceipt+1))
	switch {
	case err != nil:
		return v.refuse(err)
	case len(content) > MaxUpstreamReceipt:
		return v.stop(LimitExceeded, member, "receipt %s: more than %d bytes", e.Name, MaxUpstreamReceipt)
	case int64(len(content)) != u.File.Size:
		return v.stop(CallsMismatch, memberLog, "receipt %s: %d bytes, the call says %d", e.Name, len(content), u.File.Size)
	}
	return u.ask(e, content, at)
}

// ask says what a receipt comes to.
func (u *UpstreamReceipt) ask(e *ReceiptEntry, content []byte, at time.Time) error {
	adapter, err := e.adapter(at)
	if err != nil {
		return err
	}
	got, err := adapter.Verify(context.Background(), bytes.NewReader(content), foreign.Binding{
		Tool: e.Tool, ArgHash: e.ArgHash, Target: e.Target, Allowed: e.Allowed,
	})
	var malformed *foreign.MalformedError
	if errors.As(err, &malformed) {
		u.State, u.Why = UpstreamUntrusted, malformed.Error()
		return nil
	}
	if err != nil {
		return err
	}
	u.Verification, u.State = &got, UpstreamUntrusted
	switch {
	case got.Trusted() || e.Prefix && isPrefix(&got):
		u.State = UpstreamTrusted
		return nil
	case got.Worst() != foreign.No:
		u.State = UpstreamUnproven
	}
	var why []string
	for _, violation := range got.Violations[:min(len(got.Violations), maxUpstreamWhy)] {
		why = append(why, violation.String())
	}
	u.Why = strings.Join(why, "; ")
	return nil
}

// isPrefix reports whether all that a chain lacks is a proof of its end.
func isPrefix(v *foreign.Verification) bool {
	whole := *v
	whole.End = foreign.NotAsked
	return v.End == foreign.Unproven && whole.Trusted()
}

// judgeUpstream adds a reason for each receipt that does not count.
func (v *verification) judgeUpstream() {
	codes := map[string]Code{UpstreamUntrusted: ReceiptUntrusted, UpstreamUnproven: ReceiptUnproven, UpstreamMissing: ReceiptMissing}
	for i := range v.upstream {
		u := &v.upstream[i]
		if code, ok := codes[u.State]; ok {
			detail := u.Name
			if u.Why != "" {
				detail += ": " + u.Why
			}
			v.because(code, "", "%s", detail)
		}
	}
}
