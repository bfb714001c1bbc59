package runner

import (
	"bytes"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
)

// A trick is a patch that is run as it would be by a user, and what must be said of
// it. It is a file of testdata/tamper, where the patch wants to look better than it
// is, or of testdata/honest, where it does not. Before its files it says
//
//	what it does, in prose
//	evidence: L4            the level of evidence; else L2, which does not hang on how fast a machine is
//	vector: NAME            files of the head, from the folder of test vectors
//	fast                    run always, and not with TRUEGREEN_FULL alone
//	named by: CODE…         what names the trick: reasons, signals, findings
//	not seen: WHY           instead: nothing names it
//
// Its files begin with base/, head/ or both/; a go.mod is given where there is none.
// The last one, want, is all that the report says of the head:
//
//	verdict                 and how far the evidence reaches
//	reason CODE
//	signal CODE SUITE TEST  of the plain run on the head, * if it disqualifies
//	finding TEXT
type trick struct {
	folder, name string
	level        int
	vector       string
	fast         bool
	named        []string
	unseen       string
	base, head   map[string]string
	want         string
	skip         string // why it is not run
}

// readTrick parses a file. What it does not know is an error, so that nothing is
// left out by a slip.
func readTrick(name string, text []byte) (*trick, error) {
	a := txtar.Parse(text)
	k := &trick{name: name, level: verifier.LevelFailToPass, base: map[string]string{}, head: map[string]string{}}
	prose := false
	for line := range strings.Lines(string(a.Comment)) {
		line = strings.TrimSpace(line)
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "evidence":
			n, err := strconv.Atoi(strings.TrimPrefix(value, "L"))
			if err != nil {
				return nil, err
			}
			k.level = n
		case "vector":
			k.vector = value
		case "fast":
			k.fast = true
		case "named by":
			k.named = strings.Fields(value)
		case "not seen":
			k.unseen = value
		default:
			prose = prose || line != ""
		}
	}
	if !prose {
		return nil, errors.New("says nothing of what it does")
	}
	for _, f := range a.Files {
		side, name, _ := strings.Cut(f.Name, "/")
		switch {
		case f.Name == "want":
			k.want = string(f.Data)
		case name == "" || side != "base" && side != "head" && side != "both":
			return nil, fmt.Errorf("file %s: of no side", f.Name)
		}
		if side == "base" || side == "both" {
			k.base[name] = string(f.Data)
		}
		if side == "head" || side == "both" {
			k.head[name] = string(f.Data)
		}
	}
	for _, side := range []map[string]string{k.base, k.head} {
		if side["go.mod"] == "" {
			side["go.mod"] = "module lab\n\ngo 1.26\n"
		}
	}
	return k, nil
}

// addVector adds the files of a vector to the head, those of one package, below
// which the base may have others.
func (k *trick) addVector(vectors string) error {
	root := os.DirFS(vectors)
	return fs.WalkDir(root, k.vector, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(root, p)
		k.head[p] = string(text)
		return err
	})
}

func readTricks(t *testing.T, folder string) []*trick {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files, %v", folder, err)
	}
	vectors := os.Getenv("TRUEGREEN_VECTORS")
	var list []*trick
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		k, err := readTrick(name, text)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		k.folder = folder
		switch {
		case !k.fast && os.Getenv("TRUEGREEN_FULL") == "":
			k.skip = "takes long; TRUEGREEN_FULL=1 includes it"
		case k.vector != "" && vectors == "":
			k.skip = "TRUEGREEN_VECTORS is not set"
		case k.vector != "":
			if err := k.addVector(filepath.Join(vectors, "tamper-go")); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
		list = append(list, k)
	}
	return list
}

// A lab runs tricks with one state folder.
type lab struct {
	state, key string
	secret     []byte
}

// newLab makes a lab whose build cache has what the tricks import, so that none of
// them has to compile it again.
func newLab(t *testing.T, tricks []*trick) *lab {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs go")
	}
	l := &lab{state: t.TempDir(), key: filepath.Join(t.TempDir(), "key"), secret: bytes.Repeat([]byte{7}, 32)}
	if err := os.Chmod(l.state, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { makeWritable(l.state) })
	if err := os.WriteFile(l.key, l.secret, 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{"testing": true}
	for _, k := range tricks {
		for name, text := range k.head {
			if !strings.HasSuffix(name, ".go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
			if err != nil {
				continue
			}
			for _, spec := range f.Imports {
				if p, err := strconv.Unquote(spec.Path.Value); err == nil && !strings.Contains(p, ".") && !strings.HasPrefix(p, "lab") && importable(p) {
					all[p] = true
				}
			}
		}
	}
	var b strings.Builder
	b.WriteString("package warm\n\nimport (\n")
	for p := range all {
		if p != "testing" {
			fmt.Fprintf(&b, "\t_ %q\n", p)
		}
	}
	b.WriteString("\t\"testing\"\n)\n\nfunc TestWarm(*testing.T) {}\n")
	const mod = "module warm\n\ngo 1.26\n"
	warm := &trick{name: "warm", base: map[string]string{"go.mod": mod}, head: map[string]string{"go.mod": mod, "warm_test.go": b.String()}}
	if report := l.run(t, warm); report.Verdict() != verifier.Verified {
		t.Fatalf("a run that does nothing: %v", report.Reasons())
	}
	return l
}

// run runs a trick's patch and verifies the bundle.
func (l *lab) run(t *testing.T, k *trick) verifier.Report {
	t.Helper()
	g := newRepo(t)
	for name, text := range k.base {
		g.write(name, text)
	}
	g.commit("base")
	for name := range k.base {
		if _, ok := k.head[name]; !ok {
			if err := os.Remove(filepath.Join(g.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range k.head {
		g.write(name, text)
	}
	g.commit("head")
	out := filepath.Join(t.TempDir(), "bundle.tar.zst")
	done, err := Run(t.Context(), Options{
		Repo: g.dir, Head: "HEAD", State: l.state, Out: out, Attempt: 1, Evidence: k.level,
		Key: func() (*os.File, error) { return os.Open(l.key) }, Now: time.Now,
		Getenv: func(string) string { return "" }, Environ: os.Environ(),
	})
	var refused *sandbox.RefusedError
	if errors.As(err, &refused) || errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	done.Close()
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	o := done.Expect
	o.Keys, o.Now = []verifier.KeyAnchor{{Secret: l.secret, Who: "the test"}}, time.Now()
	report, err := verifier.Verify(bytes.NewReader(text), int64(len(text)), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// said returns what a report says of the head, and the codes in it.
func said(report verifier.Report) (text string, codes []string) {
	f := report.Findings()
	var lines []string
	line := func(kind, code, format string, args ...any) {
		codes = append(codes, code)
		lines = append(lines, strings.TrimRight(kind+" "+code+fmt.Sprintf(format, args...), " "))
	}
	for _, r := range report.Reasons() {
		line("reason", string(r.Code), "")
	}
	for _, r := range f.Runs {
		if !r.Plain() || r.Side != verifier.SideHead {
			continue
		}
		for _, s := range r.Signals {
			star := ""
			if s.Disqualifies() {
				star = "*"
			}
			line("signal", s.Code, "%s %s %s", star, s.Suite, s.Test)
		}
	}
	for i := range f.Findings {
		x := &f.Findings[i]
		line("finding", x.Code, "%s", strings.TrimPrefix(x.String(), x.Code))
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	reach := "nothing"
	if f.Claim.Level >= 0 {
		reach = fmt.Sprintf("L%d", f.Claim.Level)
	}
	if f.Claim.Missing != "" {
		reach += ": " + f.Claim.Missing
	}
	lines = slices.Insert(lines, 0, fmt.Sprintf("%s, %s", report.Verdict(), reach))
	return strings.Join(lines, "\n") + "\n", codes
}

// check runs a trick and compares.
func (l *lab) check(t *testing.T, k *trick) {
	report := l.run(t, k)
	got, codes := said(report)
	if !report.Sound() {
		t.Errorf("the evidence is not sound: %v", report.Reasons())
	}
	if got != k.want {
		t.Errorf("said:\n%s\nwant:\n%s", got, k.want)
		for _, s := range report.Steps() {
			if s.Args != nil && s.Args.Tool == receipts.ToolTest {
				t.Logf("%s %s: %s %d %s", s.Args.Purpose, s.Args.Side, s.Result.State, s.Result.Exit, s.Result.Why)
			}
		}
	}
	for _, code := range k.named {
		if !slices.Contains(codes, code) {
			t.Errorf("%s does not name it", code)
		}
	}
	if k.unseen != "" && len(codes) > 0 {
		t.Errorf("is said not to be seen, and is: %q", codes)
	}
}

// TestTricks: every trick is named, or known not to be, and nothing is said of an
// honest patch but what is true of it.
func TestTricks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs some dozens of patches")
	}
	var tricks []*trick
	for _, folder := range []string{"tamper", "honest"} {
		for _, k := range readTricks(t, folder) {
			if (folder == "tamper") != (len(k.named) > 0 || k.unseen != "") || len(k.named) > 0 && k.unseen != "" {
				t.Errorf("%s/%s: does not say what names it, or says it of what is none", folder, k.name)
			}
			if k.skip == "" {
				tricks = append(tricks, k)
				continue
			}
			t.Run(folder+"/"+k.name, func(t *testing.T) { t.Skip(k.skip) })
		}
	}
	l := newLab(t, tricks)
	for _, k := range tricks {
		t.Run(k.folder+"/"+k.name, func(t *testing.T) {
			t.Parallel()
			l.check(t, k)
		})
	}
}
