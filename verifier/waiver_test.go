package verifier_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/verifier"
)

const waiverText = `truegreen.dev/waiver/v1
repository git.example.com/octo/project
commit 00112233445566778899aabbccddeeff00112233
expires 2026-12-31T00:00:00Z
reason the runner was down; seen by hand
`

func signText(t testing.TB, text string) []byte {
	t.Helper()
	sig, err := bundle.SignSSH(nil, fixture.Signer("alice"), verifier.WaiverNamespace, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte(text+"\n"), sig...)
}

func TestParseWaiver(t *testing.T) {
	t.Parallel()
	w, err := verifier.ParseWaiver(signText(t, waiverText))
	if err != nil {
		t.Fatal(err)
	}
	if w.Commit != "00112233445566778899aabbccddeeff00112233" || w.Tree != "" || w.Reason != "the runner was down; seen by hand" ||
		!w.Expires.Equal(time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)) || w.Repository != "git.example.com/octo/project" {
		t.Errorf("%+v", w)
	}
	if text, err := w.Text(); err != nil || string(text) != waiverText {
		t.Errorf("%s, %v", text, err)
	}
	// What the signature covers is the text as it is in the file.
	signers, err := bundle.ParseSigners([]byte(fixture.SignerLine("alice", "")))
	if err != nil {
		t.Fatal(err)
	}
	if who, err := w.By([]string{"bob", "alice"}, signers, nil, gateTime); err != nil || who != "alice" {
		t.Errorf("by %q, %v", who, err)
	}
	changed := bytes.Replace(signText(t, waiverText), []byte("00112233\n"), []byte("00112234\n"), 1)
	if w, err = verifier.ParseWaiver(changed); err != nil {
		t.Fatal(err)
	}
	if who, err := w.By([]string{"alice"}, signers, nil, gateTime); err == nil || who != "" {
		t.Errorf("changed after it was signed: by %q", who)
	}
}

func TestBadWaiver(t *testing.T) {
	t.Parallel()
	replace := func(a, b string) []byte { return signText(t, strings.Replace(waiverText, a, b, 1)) }
	good := signText(t, waiverText)
	for name, file := range map[string][]byte{
		"empty":                   nil,
		"no signature":            []byte(waiverText),
		"no empty line":           bytes.Replace(good, []byte("\n\n"), []byte("\n"), 1),
		"something behind":        append(bytes.Clone(good), '\n'),
		"other version":           replace("v1", "v2"),
		"no repository":           replace("repository git.example.com/octo/project\n", ""),
		"repository with blanks":  replace("octo/project", "octo/ project"),
		"short id":                replace("00112233\n", "\n"),
		"id in capitals":          replace("aabb", "AABB"),
		"a branch":                replace("00112233445566778899aabbccddeeff00112233", "main"),
		"commit and tree":         replace("expires", "tree 00112233445566778899aabbccddeeff00112233\nexpires"),
		"no expiry":               replace("expires 2026-12-31T00:00:00Z\n", ""),
		"a day":                   replace("T00:00:00Z", ""),
		"another zone":            replace("00Z", "00+01:00"),
		"fractions":               replace("00Z", "00.5Z"),
		"that day does not exist": replace("12-31", "02-31"),
		"no reason":               replace("reason the runner was down; seen by hand", "reason "),
		"blank reason":            replace("the runner was down; seen by hand", " "),
		"reason with escapes":     replace("the runner", "\x1b[2J"),
		"reason in two lines":     replace("; ", "\n"),
		"reason not in UTF-8":     replace("; ", "\xff"),
		"long reason":             replace("the", strings.Repeat("x", 513)),
		"CR":                      replace("\n", "\r\n"),
		"order":                   signText(t, "truegreen.dev/waiver/v1\ncommit 00112233445566778899aabbccddeeff00112233\nrepository a\nexpires 2026-12-31T00:00:00Z\nreason x\n"),
		"large":                   append(bytes.Clone(good), make([]byte, 16<<10)...),
	} {
		if w, err := verifier.ParseWaiver(file); err == nil || !reflect.DeepEqual(w, verifier.Waiver{}) {
			t.Errorf("%s: %+v, %v", name, w, err)
		}
	}
	both := verifier.Waiver{Repository: "a", Commit: strings.Repeat("0", 40), Tree: strings.Repeat("1", 40), Expires: gateTime, Reason: "x"}
	if text, err := both.Text(); err == nil || text != nil {
		t.Errorf("commit and tree: %s", text)
	}
}

func FuzzWaiver(f *testing.F) {
	f.Add(signText(f, waiverText))
	f.Add(signText(f, strings.Replace(waiverText, "commit", "tree", 1)))
	f.Fuzz(func(t *testing.T, file []byte) {
		w, err := verifier.ParseWaiver(file)
		if err != nil {
			if !reflect.DeepEqual(w, verifier.Waiver{}) {
				t.Errorf("an error, and %+v", w)
			}
			return
		}
		text, err := w.Text()
		if err != nil || !bytes.HasPrefix(file, append(text, '\n')) {
			t.Errorf("%q reads as %q, %v", file, text, err)
		}
	})
}

func FuzzGitTag(f *testing.F) {
	f.Add(tagObject(f, "v1", strings.Repeat("0", 40), "alice"))
	f.Add(tagObject(f, "v1", strings.Repeat("0", 64), ""))
	f.Add([]byte("object x\n"))
	f.Fuzz(func(t *testing.T, object []byte) {
		tag, err := verifier.ParseGitTag(object)
		if err != nil && !reflect.DeepEqual(tag, verifier.GitTag{}) {
			t.Errorf("an error, and %+v", tag)
		}
		if err == nil && !bytes.HasPrefix(object, []byte("object "+tag.Object+"\ntype "+tag.Type+"\ntag "+tag.Name)) {
			t.Errorf("%q reads as %+v", object, tag)
		}
	})
}
