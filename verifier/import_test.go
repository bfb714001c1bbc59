package verifier_test

import (
	"bytes"
	"io"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// The calls of the plain runs of one entry, without prepare and import.
const (
	headCall = 4
	baseCall = 5
)

var canaryFunc = regexp.MustCompile(`func (Test\w+)\(\*`)

// sung is the output of a go test on a tree with these tests, and with the canary
// that was laid over it.
func sung(tests func(verifier.PlannedRun) []string) func(verifier.PlannedRun) fixture.Output {
	return func(p verifier.PlannedRun) fixture.Output {
		list := tests(p)
		for _, in := range p.Inputs() {
			if m := canaryFunc.FindSubmatch(in.Content); m != nil {
				list = append(list, string(m[1]))
			}
		}
		return fixture.Output{Stdout: fixture.GoTest(fixture.Package, list...)}
	}
}

func testFile(names ...string) string {
	var b strings.Builder
	b.WriteString("package project\n\nimport \"testing\"\n")
	for _, name := range names {
		b.WriteString("\nfunc " + name + "(t *testing.T) { t.Log(Add(1, 2)) }\n")
	}
	return b.String()
}

// version returns the files of a module after so many changes, and the tests in it.
func version(n int) (fixture.Files, []string) {
	files := fixture.Files{"go.mod": "module " + fixture.Package + "\n\ngo 1.26\n"}
	files["add.go"] = "package project\n\nfunc Add(a, b int) int { return a + b + " + string(rune('0'+n)) + " }\n"
	names := []string{"TestA", "TestB", "TestC", "TestD"}[:n+1]
	files["add_test.go"] = testFile(names...)
	return files, names
}

// step returns the run of the patch from one version to the next.
func step(from int, name string) fixture.Run {
	r := fixture.New()
	base, before := version(from)
	head, after := version(from + 1)
	r.Base, r.Head, r.Texts, r.Program = base, head, true, "v1.2.3"
	r.Canary, r.Salt = receipts.Sum([]byte("canary "+name)), receipts.Sum([]byte("salt "+name))
	r.Output = sung(func(p verifier.PlannedRun) []string {
		if p.Side == verifier.SideBase {
			return append([]string{}, before...)
		}
		return append([]string{}, after...)
	})
	return r
}

// earlier returns a bundle, and the run of the next patch, which takes its base's
// results out of that.
func earlier(t testing.TB, edit func(first, second *fixture.Run)) (first, second fixture.Run, file []byte) {
	t.Helper()
	first, second = step(0, "first"), step(1, "second")
	if edit != nil {
		edit(&first, &second)
	}
	file = bundleOf(t, &first)
	second.Import = []fixture.Imported{{Entry: "unit", Bundle: file, Call: headCall}}
	return first, second, file
}

// TestImport: what the base of a patch came to is what the head of the patch before
// came to, and a reader of the report sees both that and where it is from.
func TestImport(t *testing.T) {
	t.Parallel()
	first, second, file := earlier(t, nil)
	want(t, verify(t, file, first.Options()))
	plain := second
	plain.Import = nil
	full := verify(t, bundleOf(t, &plain), plain.Options())
	want(t, full)
	for _, quick := range []bool{false, true} {
		o := second.Options()
		o.Quick = quick
		r := verify(t, bundleOf(t, &second), o)
		want(t, r)
		if r.Sentence() != full.Sentence() || r.Findings().Claim.Level != verifier.LevelNoRegression {
			t.Errorf("quick %t: %q at L%d, without the import %q", quick, r.Sentence(), r.Findings().Claim.Level, full.Sentence())
		}
		_, seal := verify(t, file, first.Options()).Seal()
		n := 0
		for _, run := range r.Findings().Runs {
			if run.Side != verifier.SideBase {
				if run.Imported != nil {
					t.Errorf("%s is imported", run.Side)
				}
				continue
			}
			n++
			if run.Imported == nil || run.Imported.Seal != seal || run.Imported.Call.Call != headCall || run.State != receipts.StateExited || run.Pass != 2 || run.Canaries != 1 || run.CanariesSeen != 1 {
				t.Errorf("quick %t: base %+v", quick, run)
			}
		}
		if n != 1 {
			t.Errorf("quick %t: %d runs on the base", quick, n)
		}
		if text, err := r.MarshalJSON(); err != nil || !bytes.Contains(text, []byte(`"imported":{"seal":"`+seal.String()+`","call":4,"ended":"2026-`)) {
			t.Errorf("quick %t: report %s (%v)", quick, text, err)
		}
	}
}

// TestImportOfBase: the base of an earlier patch can be the base of the next, too.
func TestImportOfBase(t *testing.T) {
	t.Parallel()
	first, second := step(0, "first"), step(0, "second")
	head, _ := version(2)
	second.Head = head
	second.Output = sung(func(p verifier.PlannedRun) []string {
		if p.Side == verifier.SideBase {
			t.Error("the base is run")
		}
		return []string{"TestA", "TestB", "TestC"}
	})
	second.Import = []fixture.Imported{{Entry: "unit", Bundle: bundleOf(t, &first), Call: baseCall}}
	want(t, verify(t, bundleOf(t, &second), second.Options()))
}

// TestImportFinds: a test that fails on the head and passed in the earlier run is a
// regression, and the base is then run after all, which can excuse it.
func TestImportFinds(t *testing.T) {
	t.Parallel()
	for _, flaky := range []bool{false, true} {
		_, second, _ := earlier(t, func(_, second *fixture.Run) {
			green := second.Output
			second.Output = func(p verifier.PlannedRun) fixture.Output {
				o := green(p)
				if p.Side == verifier.SideHead || flaky {
					o.Exit = 1
					o.Stdout = strings.ReplaceAll(o.Stdout, `"Action":"pass","Package":"`+fixture.Package+`","Test":"TestA"`, `"Action":"fail","Package":"`+fixture.Package+`","Test":"TestA"`)
					o.Stdout = strings.ReplaceAll(o.Stdout, "--- PASS: TestA", "--- FAIL: TestA")
					o.Stdout = strings.ReplaceAll(o.Stdout, `"Action":"pass","Package":"`+fixture.Package+`"}`, `"Action":"fail","Package":"`+fixture.Package+`"}`)
					o.Stdout = strings.ReplaceAll(o.Stdout, "ok  \\t", "FAIL\\t")
					o.Stdout = strings.ReplaceAll(o.Stdout, `"PASS\n"`, `"FAIL\n"`)
				}
				return o
			}
		})
		r := verify(t, bundleOf(t, &second), second.Options())
		again := 0
		for _, run := range r.Findings().Runs {
			if run.Side == verifier.SideBase && run.Purpose == verifier.PurposeRepeat && run.Imported == nil && run.State == receipts.StateExited {
				again++
			}
		}
		if again != 1 {
			t.Errorf("flaky %t: the base was run %d times again", flaky, again)
		}
		if r.Has(verifier.TestsFailed) == flaky {
			t.Errorf("flaky %t: %v", flaky, r.Reasons())
		}
	}
}

// TestImportRefused: what cannot stand for the run on the base.
func TestImportRefused(t *testing.T) {
	t.Parallel()
	retape := func(t *testing.T, second *fixture.Run, edit func(*fixture.Tape, receipts.Key)) []byte {
		tape, err := fixture.NewTape(bundleOf(t, second))
		if err != nil {
			t.Fatal(err)
		}
		receipt, seal, err := second.Keys()
		if err != nil {
			t.Fatal(err)
		}
		edit(tape, receipt)
		if err := tape.Mint(receipt); err != nil {
			t.Fatal(err)
		}
		a, err := tape.Resealed(seal)
		if err != nil {
			t.Fatal(err)
		}
		return packLarge(t, a)
	}
	// exchange puts another bundle in the place of the imported one.
	exchange := func(t *testing.T, second *fixture.Run, bundle []byte, notes ...receipts.Note) []byte {
		return retape(t, second, func(tape *fixture.Tape, _ receipts.Key) {
			old := receipts.Sum(second.Import[0].Bundle)
			delete(tape.Blobs, old)
			if err := tape.EditResult(tape.Completed()[3], func(r *receipts.Result) {
				r.Files[0].Digest, r.Files[0].Size = tape.Put(bundle), int64(len(bundle))
				copy(r.Notes, notes)
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
	sealNote := func(file []byte) receipts.Note {
		b, err := bundle.Open(bytes.NewReader(file), int64(len(file)), bundle.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return receipts.Note{Name: verifier.NoteImportSeal, Value: receipts.Bytes(bundle.SealDigest(b.Seal()).String())}
	}
	for _, test := range []struct {
		name string
		make func(t *testing.T) ([]byte, verifier.Options)
		why  string
	}{
		{"one byte of the bundle", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, file := earlier(t, nil)
			file = bytes.Clone(file)
			file[len(file)/2] ^= 1
			return exchange(t, &second, file), second.Options()
		}, "the earlier run: "},
		{"cut short", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, file := earlier(t, nil)
			return exchange(t, &second, file[:len(file)/2]), second.Options()
		}, "the earlier run: truncated"},
		{"no bundle at all", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, _ := earlier(t, nil)
			return exchange(t, &second, []byte("green\n")), second.Options()
		}, "the earlier run: not-a-bundle"},
		{"larger than allowed", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, _ := earlier(t, nil)
			return exchange(t, &second, make([]byte, verifier.MaxImport+1)), second.Options()
		}, "the limit is"},
		{"output changed, and sealed without the key", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, file := earlier(t, nil)
			tape, err := fixture.NewTape(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := tape.EditResult(tape.Completed()[headCall-1], func(r *receipts.Result) {
				old := tape.Blobs[r.Stdout.Digest]
				delete(tape.Blobs, r.Stdout.Digest)
				r.Stdout.Digest = tape.Put(bytes.ReplaceAll(old, []byte("TestB"), []byte("TestX")))
			}); err != nil {
				t.Fatal(err)
			}
			if err := tape.Mint(nil); err != nil {
				t.Fatal(err)
			}
			a, err := tape.Resealed(nil)
			if err != nil {
				t.Fatal(err)
			}
			if file, err = a.Pack(); err != nil {
				t.Fatal(err)
			}
			o := second.Options()
			o.Keys[0].Asked = true
			return exchange(t, &second, file, sealNote(file)), o
		}, "the earlier run: mac-mismatch"},
		{"another key, asked for", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, _ := earlier(t, func(first, _ *fixture.Run) { first.Secret = bytes.Repeat([]byte{7}, 32) })
			o := second.Options()
			o.Keys[0].Asked = true
			return bundleOf(t, &second), o
		}, "the earlier run: mac-mismatch"},
		{"another repository", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, _ := earlier(t, nil)
			other := step(0, "first")
			other.Repository = "git.example.com/fork"
			file := bundleOf(t, &other)
			return exchange(t, &second, file, sealNote(file)), second.Options()
		}, "the earlier run: wrong-patch: repository"},
		{"another tree", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, file := earlier(t, nil)
			return exchange(t, &second, file, sealNote(file), receipts.Note{Name: verifier.NoteImportCall, Value: "5"}), second.Options()
		}, "the earlier call is of another tree than this base's"},
		{"no such call", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, file := earlier(t, nil)
			return exchange(t, &second, file, sealNote(file), receipts.Note{Name: verifier.NoteImportCall, Value: "3"}), second.Options()
		}, "call 3: the earlier run has no such test call"},
		{"another seal than it says", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, file := earlier(t, nil)
			return exchange(t, &second, file, receipts.Note{Name: verifier.NoteImportSeal, Value: receipts.Bytes(receipts.Digest{1}.String())}), second.Options()
		}, "the earlier run has another seal than the call says"},
		{"another configuration", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, _ := earlier(t, func(first, second *fixture.Run) {
				first.Config.Test = append([]verifier.TestEntry{}, first.Config.Test...)
				first.Config.Evidence.Reruns = 7
			})
			return bundleOf(t, &second), second.Options()
		}, "another configuration"},
		{"another version", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, _ := earlier(t, func(first, _ *fixture.Run) { first.Program = "v1.2.2" })
			return bundleOf(t, &second), second.Options()
		}, "version of truegreen"},
		{"another go command", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, _ := earlier(t, func(first, _ *fixture.Run) { first.Go = "go1.26.4" })
			return bundleOf(t, &second), second.Options()
		}, "go command"},
		{"another environment", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, _ := earlier(t, func(first, _ *fixture.Run) {
				first.Forge.Args = func(a *receipts.Args) { a.Env = append(a.Env, "GODEBUG=x=1") }
			})
			return bundleOf(t, &second), second.Options()
		}, "environment"},
		{"another sandbox", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, _ := earlier(t, func(first, _ *fixture.Run) {
				first.Forge.Args = func(a *receipts.Args) {
					if a.Tool == receipts.ToolTest {
						a.Sandbox.Memory++
					}
				}
			})
			return bundleOf(t, &second), second.Options()
		}, "sandbox"},
		{"a run that was itself imported", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, file := earlier(t, nil)
			nested := bundleOf(t, &second)
			third := step(1, "third")
			third.Import = []fixture.Imported{{Entry: "unit", Bundle: file, Call: headCall}}
			return exchange(t, &third, nested, sealNote(nested), receipts.Note{Name: verifier.NoteImportCall, Value: "6"}), third.Options()
		}, "call 6: it was not run itself"},
		{"twice", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, _ := earlier(t, nil)
			second.Import = append(second.Import, second.Import[0])
			return bundleOf(t, &second), second.Options()
		}, "is imported twice"},
		{"of an entry that the base does not have", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, _ := earlier(t, nil)
			second.Import[0].Entry = "unite"
			return bundleOf(t, &second), second.Options()
		}, `the earlier call is of the entry "unit", not of "unite"`},
		{"where the base is not run", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, _ := earlier(t, nil)
			second.HeadOnly = true
			return bundleOf(t, &second), second.Options()
		}, "the plan does not run this entry on the base"},
		{"of the other side", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, _ := earlier(t, nil)
			second.Forge.Args = func(a *receipts.Args) {
				if a.Tool == receipts.ToolImport {
					a.Side = verifier.SideHead
				}
			}
			return bundleOf(t, &second), second.Options()
		}, "it is not for the base of this patch"},
		{"without a bundle", func(t *testing.T) ([]byte, verifier.Options) {
			_, second, _ := earlier(t, nil)
			second.Forge.Result = func(a *receipts.Args, r *receipts.Result) {
				if a.Tool == receipts.ToolImport {
					r.Files[0].Name = "bundles"
				}
			}
			return bundleOf(t, &second), second.Options()
		}, "no bundle"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			file, o := test.make(t)
			r := verify(t, file, o)
			want(t, r, verifier.ImportBroken)
			if reasons := r.Reasons(); !strings.Contains(reasons[0].Detail, test.why) {
				t.Errorf("%v, want %q", reasons, test.why)
			}
		})
	}
}

// packLarge returns the bundle of members of any size.
func packLarge(t *testing.T, a fixture.Archive) []byte {
	t.Helper()
	reader := func(b []byte) (io.ReadCloser, int64, error) {
		return io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
	}
	m := bundle.Members{
		Seal: a.Content(fixture.SealMember), MAC: a.Content(fixture.MACMember), Sig: a.Content(fixture.SigMember),
		Log:  func() (io.ReadCloser, int64, error) { return reader(a.Content(fixture.LogMember)) },
		Open: func(d receipts.Digest) (io.ReadCloser, int64, error) { return reader(a.Content(fixture.BlobMember(d))) },
	}
	for _, member := range a[a.Find(fixture.LogMember)+1:] {
		m.Blobs = append(m.Blobs, receipts.Sum(member.Content))
	}
	var file bytes.Buffer
	if err := bundle.Write(&file, m); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// TestImportLies: a run on the base that says to be imported, and is not.
func TestImportLies(t *testing.T) {
	t.Parallel()
	r := step(1, "liar")
	r.Forge.Result = func(a *receipts.Args, result *receipts.Result) {
		if a.Tool == receipts.ToolTest && a.Side == verifier.SideBase {
			*result = receipts.Result{State: receipts.StateNotRun, Why: verifier.SkipImported, Start: result.Start, End: result.End}
		}
	}
	want(t, verify(t, bundleOf(t, &r), r.Options()), verifier.CallsMismatch)

	// And one that is imported, and was run all the same.
	_, second, _ := earlier(t, nil)
	second.Forge.Result = func(a *receipts.Args, result *receipts.Result) {
		if a.Tool == receipts.ToolTest && a.Side == verifier.SideBase {
			*result = receipts.Result{State: receipts.StateExited, Start: result.Start, End: result.End}
		}
	}
	want(t, verify(t, bundleOf(t, &second), second.Options()), verifier.CallsMismatch)

	// The document is made of what the earlier run put out, and of nothing else.
	_, second, _ = earlier(t, nil)
	second.Forge.Evidence = func(doc []byte) []byte { return bytes.Replace(doc, []byte(`"imported":4`), []byte(`"imported":5`), 1) }
	for _, quick := range []bool{false, true} {
		o := second.Options()
		o.Quick = quick
		want(t, verify(t, bundleOf(t, &second), o), verifier.EvidenceBroken)
	}
}

// TestImportTrust: who is trusted to have sealed a run has to have sealed what that
// takes over; levels and ages that are asked for hold for it as well.
func TestImportTrust(t *testing.T) {
	t.Parallel()
	sign := func(name string) func([]byte) ([]byte, error) {
		return func(text []byte) ([]byte, error) { return fixture.Sign(name, text) }
	}
	signers, err := bundle.ParseSigners([]byte(fixture.SignerLine("alice", "") + fixture.SignerLine("bob", "")))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		edit func(first, second *fixture.Run)
		ask  func(*verifier.Options)
		want []verifier.Code
	}{
		{"another key", func(first, _ *fixture.Run) { first.Secret = bytes.Repeat([]byte{7}, 32) }, nil, []verifier.Code{verifier.NoTrustedSeal}},
		{"no key at all", nil, func(o *verifier.Options) { o.Keys = nil }, []verifier.Code{verifier.NoTrustedSeal}},
		{"both signed", func(first, second *fixture.Run) {
			first.Statement.Sign, second.Statement.Sign = sign("alice"), sign("alice")
		}, func(o *verifier.Options) { o.Keys, o.Signers = nil, signers }, nil},
		{"signed by two", func(first, second *fixture.Run) {
			first.Statement.Sign, second.Statement.Sign = sign("alice"), sign("bob")
		}, func(o *verifier.Options) { o.Keys, o.Signers = nil, signers }, []verifier.Code{verifier.NoTrustedSeal}},
		{"the earlier one not signed", func(_, second *fixture.Run) { second.Statement.Sign = sign("alice") },
			func(o *verifier.Options) { o.Keys, o.Signers = nil, signers }, []verifier.Code{verifier.NoTrustedSeal}},
		{"a greater level", func(_, second *fixture.Run) {
			green := second.Output
			second.Output = func(p verifier.PlannedRun) fixture.Output { o := green(p); o.Level = 4; return o }
		}, func(o *verifier.Options) { o.MinLevel = 4 }, []verifier.Code{verifier.LowIsolation}},
		{"recent enough", nil, func(o *verifier.Options) { o.MaxAge = 2 * time.Hour }, nil},
		{"too old", nil, func(o *verifier.Options) { o.MaxAge = time.Minute }, []verifier.Code{verifier.Stale, verifier.Stale}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, second, _ := earlier(t, test.edit)
			o := second.Options()
			if test.ask != nil {
				test.ask(&o)
			}
			want(t, verify(t, bundleOf(t, &second), o), test.want...)
		})
	}
}

// TestImportChain: of an earlier run that itself imports, the bundles that it
// imports need not be there, and nobody looks at them.
func TestImportChain(t *testing.T) {
	t.Parallel()
	_, second, file := earlier(t, nil)
	whole := bundleOf(t, &second)
	a, err := fixture.Unpack(whole)
	if err != nil {
		t.Fatal(err)
	}
	thin, err := a.Without(fixture.BlobMember(receipts.Sum(file))).Pack()
	if err != nil {
		t.Fatal(err)
	}
	for name, imported := range map[string][]byte{"whole": whole, "thin": thin} {
		third := step(2, "third")
		third.Import = []fixture.Imported{{Entry: "unit", Bundle: imported, Call: headCall + 1}}
		want(t, verify(t, bundleOf(t, &third), third.Options()))
		t.Logf("%s: %d bytes", name, len(imported))
	}
	// By itself it is not whole.
	want(t, verify(t, thin, second.Options()), verifier.BlobMissing)
	// Nor may anything else be left out.
	for _, m := range a {
		if !strings.HasPrefix(m.Name, "blobs/") || m.Name == fixture.BlobMember(receipts.Sum(file)) {
			continue
		}
		less, err := a.Without(m.Name).Pack()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := verifier.ReadImport(bytes.NewReader(less), int64(len(less)), headCall+1, verifier.Options{Repository: second.Repository}); err == nil {
			t.Errorf("without %s: no error", m.Name)
		}
	}
}

// TestRunKey: the key of a call changes with all that decides what it comes to, and
// with nothing else.
func TestRunKey(t *testing.T) {
	t.Parallel()
	tree := receipts.Digest{9}
	fresh := func() (*verifier.Plan, *receipts.Args) {
		return &verifier.Plan{Config: receipts.Digest{1}, Program: "v1", Go: &verifier.GoFacts{OS: "linux", Arch: "amd64", Version: "go1.26.5"}}, &receipts.Args{
			V: 1, Tool: receipts.ToolTest, Name: "unit", Side: verifier.SideHead, Round: 1, Format: verifier.FormatGo, Argv: []receipts.Bytes{"go", "test"}, Dir: "/src",
			Env: []receipts.Bytes{"A=1", "SOURCE_DATE_EPOCH=1", "TRUEGREEN_RUN=x"}, Patch: receipts.Digest{2}, Tree: &tree,
			Inputs:  []receipts.File{{Name: "/overlay/1.go", Digest: receipts.Digest{3}, Size: 4}},
			Sandbox: &receipts.Sandbox{MinLevel: 3, Network: "none", Mounts: []receipts.Bytes{"overlay /src"}, Wall: 60, Pids: 5},
		}
	}
	key := func(repository receipts.Bytes, edit func(*verifier.Plan, *receipts.Args)) receipts.Digest {
		p, a := fresh()
		edit(p, a)
		before := *a
		d, err := verifier.RunKey(repository, p, a)
		if err != nil {
			t.Fatal(err)
		}
		if a.Side != before.Side || a.Sandbox != before.Sandbox || len(a.Env) != len(before.Env) {
			t.Error("the args were changed")
		}
		return d
	}
	plain := key("r", func(*verifier.Plan, *receipts.Args) {})
	same := map[string]func(*verifier.Plan, *receipts.Args){
		"patch":  func(_ *verifier.Plan, a *receipts.Args) { a.Patch[0]++ },
		"side":   func(_ *verifier.Plan, a *receipts.Args) { a.Side = verifier.SideBase },
		"round":  func(_ *verifier.Plan, a *receipts.Args) { a.Round = 2 },
		"canary": func(p *verifier.Plan, a *receipts.Args) { p.Canary[0]++; a.Inputs[0].Digest[0]++; a.Inputs[0].Size++ },
		"run":    func(_ *verifier.Plan, a *receipts.Args) { a.Env[2] = "TRUEGREEN_RUN=y" },
		"epoch":  func(_ *verifier.Plan, a *receipts.Args) { a.Env[1] = "SOURCE_DATE_EPOCH=2" },
		"wall":   func(_ *verifier.Plan, a *receipts.Args) { a.Sandbox.Wall++ },
		"laid": func(_ *verifier.Plan, a *receipts.Args) {
			a.Sandbox.Mounts = append(a.Sandbox.Mounts, "read-only /overlay", "read-only /tests")
		},
		"level": func(p *verifier.Plan, a *receipts.Args) { a.Sandbox.MinLevel++; p.Level++ },
	}
	other := map[string]func(*verifier.Plan, *receipts.Args){
		"config":  func(p *verifier.Plan, _ *receipts.Args) { p.Config[0]++ },
		"program": func(p *verifier.Plan, _ *receipts.Args) { p.Program = "v2" },
		"go":      func(p *verifier.Plan, _ *receipts.Args) { p.Go.Version = "go1.26.6" },
		"cgo":     func(p *verifier.Plan, _ *receipts.Args) { p.Go.Cgo = true },
		"arch":    func(p *verifier.Plan, _ *receipts.Args) { p.Go.Arch = "arm64" },
		"no go":   func(p *verifier.Plan, _ *receipts.Args) { p.Go = nil },
		"tree":    func(_ *verifier.Plan, a *receipts.Args) { a.Tree = &receipts.Digest{8} },
		"name":    func(_ *verifier.Plan, a *receipts.Args) { a.Name = "unit2" },
		"argv":    func(_ *verifier.Plan, a *receipts.Args) { a.Argv = append(a.Argv, "./...") },
		"dir":     func(_ *verifier.Plan, a *receipts.Args) { a.Dir = "/src/x" },
		"env":     func(_ *verifier.Plan, a *receipts.Args) { a.Env[0] = "A=2" },
		"inputs":  func(_ *verifier.Plan, a *receipts.Args) { a.Inputs = nil },
		"purpose": func(_ *verifier.Plan, a *receipts.Args) { a.Purpose = verifier.PurposeCover },
		"network": func(_ *verifier.Plan, a *receipts.Args) { a.Sandbox.Network = "host" },
		"connect": func(_ *verifier.Plan, a *receipts.Args) { a.Sandbox.Connect = []string{"127.0.0.1:1"} },
		"mounts":  func(_ *verifier.Plan, a *receipts.Args) { a.Sandbox.Mounts = nil },
		"pids":    func(_ *verifier.Plan, a *receipts.Args) { a.Sandbox.Pids++ },
		"sandbox": func(_ *verifier.Plan, a *receipts.Args) { a.Sandbox = nil },
	}
	for name, edit := range same {
		if key("r", edit) != plain {
			t.Errorf("%s: another key", name)
		}
	}
	seen := map[receipts.Digest]string{plain: "plain", key("s", func(*verifier.Plan, *receipts.Args) {}): "repository"}
	for name, edit := range maps.All(other) {
		d := key("r", edit)
		if seen[d] != "" {
			t.Errorf("%s: the key of %s", name, seen[d])
		}
		seen[d] = name
	}
	if len(seen) != len(other)+2 {
		t.Errorf("%d keys", len(seen))
	}
}

// FuzzReadImport: whatever is given as the bundle of an earlier run, nothing but an
// error or a sound import comes of it.
func FuzzReadImport(f *testing.F) {
	first := step(0, "first")
	file := bundleOf(f, &first)
	raw, err := fixture.Tar(file)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw, uint64(headCall))
	f.Add(raw[:len(raw)/2], uint64(baseCall))
	f.Add(bytes.ReplaceAll(raw, []byte("TestB"), []byte("TestX")), uint64(headCall))
	f.Fuzz(func(t *testing.T, tar []byte, call uint64) {
		file, err := fixture.Compress(tar)
		if err != nil {
			t.Skip()
		}
		i, err := verifier.ReadImport(bytes.NewReader(file), int64(len(file)), call, verifier.Options{Repository: first.Repository})
		if (i == nil) != (err != nil) {
			t.Errorf("%v, %v", i, err)
		}
		if i != nil && (!bytes.Equal(tar, raw) || call != headCall && call != baseCall) {
			t.Errorf("call %d of a bundle that nobody sealed", call)
		}
	})
}
