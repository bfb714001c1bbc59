package verifier_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// upstream returns a run that asks for a receipt, and is given one.
func upstream(t *testing.T, decision string) fixture.Run {
	t.Helper()
	text, key, err := fixture.Receipt(decision)
	if err != nil {
		t.Fatal(err)
	}
	r := fixture.New()
	r.Config.Receipts = []verifier.ReceiptEntry{{Name: "agent", Adapter: "acta", Keys: []string{key}, Tool: "read", Allowed: true, MaxAge: 3600}}
	r.Receipts = map[string][]byte{"agent": text}
	return r
}

// TestUpstream: the receipts that a configuration asks for are asked again by whoever
// verifies the bundle, at the time of the run, and each that does not count is a reason.
func TestUpstream(t *testing.T) {
	t.Parallel()
	const other = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
	for _, tt := range []struct {
		name, decision string
		edit           func(*fixture.Run)
		state          string
		code           verifier.Code // "": verified
		detail         string
	}{
		{"trusted", "allow", func(*fixture.Run) {}, verifier.UpstreamTrusted, "", ""},
		{"another key", "allow", func(r *fixture.Run) { r.Config.Receipts[0].Keys[0] = other }, verifier.UpstreamUntrusted, verifier.ReceiptUntrusted, "agent: "},
		{"another tool", "allow", func(r *fixture.Run) { r.Config.Receipts[0].Tool = "write" }, verifier.UpstreamUntrusted, verifier.ReceiptUntrusted, "tool-mismatch"},
		{"denied", "deny", func(*fixture.Run) {}, verifier.UpstreamUntrusted, verifier.ReceiptUntrusted, "not-allowed"},
		{"too old for the run", "allow", func(r *fixture.Run) { r.Config.Receipts[0].MaxAge = 60 }, verifier.UpstreamUntrusted, verifier.ReceiptUntrusted, "too-old"},
		{"changed", "allow", func(r *fixture.Run) {
			r.Receipts["agent"] = bytes.Replace(r.Receipts["agent"], []byte("policy-1"), []byte("policy-2"), 1)
		}, verifier.UpstreamUntrusted, verifier.ReceiptUntrusted, "agent: "},
		{"no receipt", "allow", func(r *fixture.Run) { r.Receipts["agent"] = []byte("{}") }, verifier.UpstreamUntrusted, verifier.ReceiptUntrusted, "acta: "},
		{"empty", "allow", func(r *fixture.Run) { r.Receipts["agent"] = nil }, verifier.UpstreamUntrusted, verifier.ReceiptUntrusted, "acta: "},
		{"missing", "allow", func(r *fixture.Run) { r.Receipts = nil }, verifier.UpstreamMissing, verifier.ReceiptMissing, "agent"},
		{"no end", "allow", func(r *fixture.Run) { r.Config.Receipts[0].Chain = true }, verifier.UpstreamUnproven, verifier.ReceiptUnproven, "end-unproven"},
		{"no end asked", "allow", func(r *fixture.Run) { r.Config.Receipts[0].Chain, r.Config.Receipts[0].Prefix = true, true }, verifier.UpstreamTrusted, "", ""},
		{"no end, and another key", "allow", func(r *fixture.Run) {
			e := &r.Config.Receipts[0]
			e.Chain, e.Prefix, e.Keys[0] = true, true, other
		}, verifier.UpstreamUntrusted, verifier.ReceiptUntrusted, "agent: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := upstream(t, tt.decision)
			tt.edit(&r)
			report := verifyUpstream(t, &r)
			list := report.Upstream()
			if len(list) != 1 || list[0].State != tt.state || list[0].Name != "agent" {
				t.Fatalf("%+v: want %s", list, tt.state)
			}
			if reasons := report.Reasons(); tt.code == "" && len(reasons) > 0 || tt.code != "" && (len(reasons) != 1 || reasons[0].Code != tt.code || !strings.Contains(reasons[0].Detail, tt.detail)) {
				t.Errorf("%v: want %q with %q", reasons, tt.code, tt.detail)
			}
		})
	}
}

// TestUpstreamForged: the call that holds the receipts is there where the configuration
// asks for some and nowhere else, and holds what that names and nothing else.
func TestUpstreamForged(t *testing.T) {
	t.Parallel()
	times := func(n int) func(*fixture.Run) {
		return func(r *fixture.Run) {
			r.Forge.Times = func(a *receipts.Args) int {
				if a.Tool == receipts.ToolReceipt {
					return n
				}
				return 1
			}
		}
	}
	result := func(edit func(*receipts.Result)) func(*fixture.Run) {
		return func(r *fixture.Run) {
			r.Forge.Result = func(a *receipts.Args, result *receipts.Result) {
				if a.Tool == receipts.ToolReceipt {
					edit(result)
				}
			}
		}
	}
	for _, tt := range []struct {
		name string
		edit func(*fixture.Run)
		code verifier.Code
	}{
		{"no call", times(0), verifier.CallsMismatch},
		{"two calls", times(2), verifier.CallsMismatch},
		{"another size", result(func(r *receipts.Result) { r.Files[0].Size++ }), verifier.CallsMismatch},
		{"too large", func(r *fixture.Run) {
			r.Receipts["agent"] = bytes.Repeat([]byte(" "), verifier.MaxUpstreamReceipt+1)
		}, verifier.LimitExceeded},
		{"another name", result(func(r *receipts.Result) {
			r.Files = []receipts.File{{Name: "receipt/other", Digest: r.Files[0].Digest, Size: r.Files[0].Size}}
		}), verifier.CallsMismatch},
		{"one file twice", result(func(r *receipts.Result) { r.Files = append(r.Files[:1:1], r.Files[0]) }), verifier.CallsMismatch},
		{"nobody asks", func(r *fixture.Run) {
			r.Config.Receipts = nil
			r.Forge.Args = func(a *receipts.Args) {
				if a.Tool == receipts.ToolPrepare {
					a.Tool = receipts.ToolReceipt
				}
			}
			r.Prepare = []fixture.Prepared{{Name: "go"}}
		}, verifier.CallsMismatch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := upstream(t, "allow")
			tt.edit(&r)
			if report := verifyUpstream(t, &r); report.Verdict() != verifier.Broken || !report.Has(tt.code) {
				t.Errorf("%s: %v", report.Verdict(), report.Reasons())
			}
		})
	}
}

func verifyUpstream(t *testing.T, r *fixture.Run) verifier.Report {
	t.Helper()
	file, err := r.Bundle(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	report, err := verifier.Verify(bytes.NewReader(file), int64(len(file)), r.Options())
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestReceiptEntries: what a configuration cannot ask for is refused where it is written.
func TestReceiptEntries(t *testing.T) {
	t.Parallel()
	const key = `keys: ["d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"]`
	for _, tt := range []struct{ entry, want string }{
		{"{name: a, adapter: acta, " + key + ", tool: read, allowed: true, max-age: 24h, chain: true, allow-prefix: true}", ""},
		{"{name: a, adapter: pipelock, " + key + ", target: x, arg-hash: sha256:" + strings.Repeat("0", 64) + "}", ""},
		{"{name: a, adapter: jws, " + key + ", alg: [EdDSA], issuer: i, audience: u, allow-no-expiry: true}", ""},
		{"{name: a, adapter: dsse, " + key + ", type: [https://example.com/t], threshold: 1}", ""},
		{"{name: A, adapter: acta, " + key + "}", "name"},
		{"{name: a, adapter: crustcore, " + key + "}", "is not one of"},
		{"{name: a, adapter: acta}", "keys: none"},
		{`{name: a, adapter: acta, keys: ["00"]}`, "keys[0]"},
		{"{name: a, adapter: acta, " + key + ", alg: [EdDSA]}", "says nothing to acta"},
		{"{name: a, adapter: jws, " + key + "}", "receipts[0]"},
		{"{name: a, adapter: jws, " + key + ", alg: [HS256]}", "secret"},
		{"{name: a, adapter: dsse, " + key + ", threshold: 2}", "threshold"},
		{"{name: a, adapter: dsse, " + key + ", chain: true}", "says nothing to dsse"},
		{"{name: a, adapter: acta, " + key + ", allow-prefix: true}", "only chains"},
		{"{name: a, adapter: acta, " + key + ", max-age: 0s}", "max-age"},
		{"{name: a, adapter: acta, " + key + ", arg-hash: sha256:00}", "arg-hash"},
		{"{name: a, adapter: acta, " + key + ", path: r.json}", "unknown key"},
	} {
		c, err := verifier.ParseConfig([]byte("receipts:\n  - " + tt.entry + "\n"))
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %q", tt.entry, err, tt.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.entry, err)
			continue
		}
		doc, err := c.Document()
		if err != nil {
			t.Fatal(err)
		}
		again, err := verifier.ParseConfigDocument(doc)
		if text, _ := again.Document(); err != nil || !bytes.Equal(text, doc) {
			t.Errorf("%s: %v: %s", tt.entry, err, doc)
		}
	}
	if _, err := verifier.ParseConfig([]byte("receipts:\n  - {name: a, adapter: acta, " + key + "}\n  - {name: a, adapter: acta, " + key + "}\n")); err == nil {
		t.Error("two entries of one name")
	}
}

// TestReceiptsPage: the configuration that docs/receipts.md shows is one.
func TestReceiptsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/receipts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, ok := strings.Cut(rest, "```")
	if c, err := verifier.ParseConfig([]byte(text)); !ok || err != nil || len(c.Receipts) != 1 {
		t.Errorf("%+v, %v", c.Receipts, err)
	}
}
