package pipelock

import (
	"bytes"
	"reflect"
	"testing"
)

// FuzzReceipt: what parses has a canonical form, which parses to the same and is the
// one text that the exact form takes, but for the digits of a signature.
func FuzzReceipt(f *testing.F) {
	f.Add([]byte(sign(plain("id", `"redaction":{"by_class":{"a":1}},`, "genesis", 0, `,"run_nonce":"r"`), testKey)))
	f.Add([]byte(sign(plain("i\\u2028d", "", "x", 7, `,"key_transition":{"prior_signer_key":"a","prior_chain_seq":1,"prior_chain_hash":"b"}`), testKey)))
	f.Add([]byte(`{"version":1,"ext": {"a" : "<"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var d, again Decoder
		r, err := d.Decode(text)
		if err != nil {
			if r != nil || code(err) == err.Error() {
				t.Fatalf("%+v, %v", r, err)
			}
			return
		}
		canonical := bytes.Clone(d.out)
		r2, err := again.Decode(canonical)
		if err != nil || !bytes.Equal(again.out, canonical) {
			t.Fatalf("%s\nencodes as %s\nand then %s, %v", text, canonical, again.out, err)
		}
		r.Time, r2.Time = r.Time.UTC(), r2.Time.UTC()
		if !reflect.DeepEqual(r, r2) {
			t.Fatalf("%+v\n%+v", r, r2)
		}
		again.Exact = true
		_, err = again.Decode(canonical)
		if lower := bytes.Equal(bytes.ToLower([]byte(r.Signature)), []byte(r.Signature)); (err == nil) != lower {
			t.Fatalf("%s: exact: %v", canonical, err)
		}
		if d.Exact = true; !bytes.Equal(bytes.Trim(text, " \t\r\n"), canonical) {
			if _, err := d.Decode(text); code(err) != codeNotCanonical {
				t.Fatalf("%s: exact: %v", text, err)
			}
		}
	})
}

// FuzzEvidence: the canonical form of what parses is its own, and says the same.
func FuzzEvidence(f *testing.F) {
	f.Add([]byte(`{"record_type":"evidence_receipt_v2","receipt_version":2,"payload_kind":"proxy_decision","canonicalization":{"jcs_profile":"pipelock-jcs-rfc8785-nfc-v1","jcs_version":"rfc8785","hash_alg":"sha256","sig_alg":"ed25519","redaction_ruleset_id":"pipelock-transform-v1","redaction_ruleset_version":"1","redaction_ruleset_hash":"sha256:541896788b42651a202448894583a847db9d1aa081c33a7e1f0512303d72527e"},"crit":["canonicalization"],"event_id":"e","timestamp":"2026-04-25T22:00:00Z","signature":{"signer_key_id":"k","key_purpose":"receipt-signing","algorithm":"ed25519","signature":"ed25519:00"},"chain_seq":1,"chain_prev_hash":"sha256:0","policy_hash":"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","payload":{"action_type":"connect","target":"e\u0301","verdict":"allow","transport":"forward","policy_sources":["t"],"winning_source":"t"}}`))
	f.Add([]byte(`{"\u212b":1,"\u00c5":2}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		full, signed, err := canonicalEvidence(bytes.Trim(text, " \t\r\n"))
		var d Decoder
		e, decodeErr := d.Evidence(text)
		if err != nil {
			if decodeErr == nil || full != nil || signed != nil {
				t.Fatalf("%v, %v", err, decodeErr)
			}
			return
		}
		again, signedAgain, err := canonicalEvidence(full)
		if err != nil || !bytes.Equal(again, full) || !bytes.Equal(signedAgain, signed) {
			t.Fatalf("%s\nand then %s, %v", full, again, err)
		}
		if decodeErr != nil {
			return
		}
		e2, err := d.Evidence(full)
		if err != nil || e2.Hash != e.Hash || !bytes.Equal(e2.signed, e.signed) || e2.Seq != e.Seq {
			t.Fatalf("%+v\n%+v, %v", e, e2, err)
		}
	})
}

// FuzzEntry: no line makes a reader panic, and an entry that parses hashes without one.
func FuzzEntry(f *testing.F) {
	f.Add([]byte(`{"v":2,"seq":0,"ts":"2026-01-02T03:04:05Z","session_id":"s","type":"checkpoint","transport":"","summary":"","detail":{"entry_count":1,"first_seq":0,"last_seq":0},"prev_hash":"genesis","hash":"x"}`))
	f.Add([]byte(`{"v":1,"seq":1,"ts":"2026-01-02T03:04:05Z","type":"transcript_root","detail":"{}","prev_hash":"a","hash":"x"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var d Decoder
		e, err := d.Entry(line)
		if err != nil {
			if e != nil || code(err) == err.Error() {
				t.Fatalf("%+v, %v", e, err)
			}
			return
		}
		if hash := e.computed(); hash != "" && len(hash) != 64 {
			t.Fatalf("hash %q", hash)
		}
		if d.Recognize(line) != FormEntry && !bytes.Contains(line, []byte("record_type")) && !bytes.Contains(line, []byte("\\u")) && !bytes.Contains(line, []byte("action_record")) {
			t.Fatalf("%s: not recognized", line)
		}
		e.ReceiptText()
		if s, err := d.Seal(e); err == nil && s.Verify(nil) {
			t.Fatal("verifies without a key")
		}
	})
}

// FuzzEndorsement: no text verifies that the old key did not sign.
func FuzzEndorsement(f *testing.F) {
	f.Add([]byte(`{"version":1,"session_id":"s","prior_signer_key":"4655a7e605c12ebb00a46037881c33c5bca5eb74b45a02e8e7261a7ff5a21678","prior_final_seq":2,"prior_tail_hash":"81bd68bc2eff256bfe3967ed10d102cbe7df55d4888ae70ac903f101709f3306","new_signer_key":"970955695494cf0fb3109671e673ecaeb0a161e834861a325b97b0656e3c9cd1","rotated_at":"2026-10-01T12:00:10Z","endorsement":"ed25519:73d6a748c9ea3855ea024f0b1197e338b13cfb6a854e0e98a827dd6ae13a91e6f3e299e6f40bb6fb1d27ec664b282bf161d65c25a13be5a538905e24bfd5530c"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := ParseEndorsement(text)
		if err != nil && !reflect.ValueOf(e).IsZero() {
			t.Fatalf("%+v, %v", e, err)
		}
		if err == nil && e.Verify() {
			t.Fatalf("%s: verifies", text) // the seed is of another session
		}
	})
}
