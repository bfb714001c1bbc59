package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// notRun says, by its first line, which block of a page does not run here, and why.
var notRun = map[string]string{
	"go install github.com/truegreen-dev/truegreen/cmd/truegreen@latest":         "it needs the network",
	"go build -o truegreen ./cmd/truegreen":                                      "the go command builds the program for this test; the rest runs all tests",
	"truegreen trust update":                                                     "it needs the network",
	`truegreen init --repository-id "$(gh api repos/OWNER/REPOSITORY --jq .id)"`: "it needs the network",
	"go tool gotestsum ./...":                                                    "it runs this test",
}

// TestDocCommands runs the commands of the documentation, each page in a clone
// of its own, and compares their output with what the page shows.
func TestDocCommands(t *testing.T) {
	t.Parallel()
	needIsolation(t)
	for page, prepare := range map[string]func(*docSession){
		"README.md":             func(*docSession) {},
		"CONTRIBUTING.md":       func(*docSession) {},
		"docs/configuration.md": func(*docSession) {},
		"docs/hook.md":          func(*docSession) {},
		"docs/trust.md":         trustToken,
		"docs/verify-by-hand.md": func(s *docSession) {
			needTools(s.t, "tar", "zstd", "sha256sum", "python3")
			s.sh(`truegreen run --sign ~/.ssh/id_ed25519 --out evidence.tar.zst
echo "alice@example.com namespaces=\"seal@truegreen.dev\" $(cat ~/.ssh/id_ed25519.pub)" > allowed_signers
cp "$TRUEGREEN_STATE/receipt.key" .`)
		},
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			blocks := docBlocks(t, page)
			s := newDocSession(t)
			prepare(s)
			changed := map[int]string{}
			for i, b := range blocks {
				if text, ok := s.block(b); !ok {
					changed[i] = text
				}
			}
			if *updateDocs {
				rewriteBlocks(t, page, blocks, changed)
			}
		})
	}
}

// A docSession is a clone in which the commands of one page run, one after the
// other.
type docSession struct {
	t   *testing.T
	dir string
	env []string
}

func newDocSession(t *testing.T) *docSession {
	needTools(t, "git", "sh", "ssh-keygen")
	top := t.TempDir()
	s := &docSession{t: t, dir: filepath.Join(top, "project")}
	s.env = []string{
		"PATH=" + os.Getenv("PATH"), // with the program, see TestMain
		"HOME=" + top, "TRUEGREEN_STATE=" + filepath.Join(top, "state"), "TMPDIR=" + top, "NO_COLOR=1",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.sh(`git init --quiet --initial-branch=main
printf 'test:\n  - name: unit\n    run: [sh, test.sh]\n    format: junit\n' > .truegreen.yaml
echo 'echo "<testsuite name=\"calc\"><testcase name=\"zero\"/></testsuite>" > "$TRUEGREEN_OUT/report.xml"' > test.sh
git add . && git commit --quiet -m first
echo 'text' > text && git add text && git commit --quiet -m second
mkdir ~/.ssh && ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519`)
	return s
}

// sh runs a script and returns what it wrote.
func (s *docSession) sh(script string) string {
	s.t.Helper()
	cmd := exec.Command("sh", "-eu", "-c", script)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}

// block runs what a block shows. Where its output is another one than shown,
// ok is false, and text is what the block should be.
func (s *docSession) block(b docBlock) (text string, ok bool) {
	first, _, _ := strings.Cut(b.text, "\n")
	if notRun[first] != "" {
		return "", true
	}
	switch b.lang {
	case "sh":
		s.sh(b.text)
	case "console":
		text = s.console(b.text)
		if maskOutput(text) != maskOutput(b.text) {
			if !*updateDocs {
				s.t.Errorf("%s:%d: the commands print\n%s", b.page, b.line, text)
			}
			return text, false
		}
	case "python":
		if b.file == "" {
			s.t.Errorf("%s:%d: a program without a name", b.page, b.line)
			break
		}
		if err := os.WriteFile(filepath.Join(s.dir, b.file), []byte(b.text), 0o644); err != nil {
			s.t.Fatal(err)
		}
	case "json", "yaml", "text":
	default:
		s.t.Errorf("%s:%d: what is %q? no test looks at it", b.page, b.line, b.lang)
	}
	return "", true
}

// console runs the commands after "$ ", and returns them with their output.
func (s *docSession) console(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			out.WriteString(line)
			out.WriteString(s.sh(command))
		}
	}
	return out.String()
}

// maskOutput replaces what differs from run to run and from host to host.
func maskOutput(s string) string {
	for _, m := range []struct{ from, to string }{
		{`[0-9a-f]{64}`, "DIGEST"},
		{`\b[0-9a-f]{40}\b`, "COMMIT"},
		{`\b[0-9a-f]{12}\b`, "ABBREV"},
		{`\b(base|head) [0-9a-f]{7}\b`, "$1 ABBREV"},
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, "TIME"},
		{`\d+\.\d+s`, "SECONDS"},
		{`\((rootdrop|userns)\)`, "(MODE)"},
		{`before byte \d+`, "before byte N"},
	} {
		s = regexp.MustCompile(m.from).ReplaceAllString(s, m.to)
	}
	return s
}

// needTools skips the test where a stock tool is missing, or fails where they
// are required.
func needTools(t testing.TB, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err == nil {
			continue
		}
		if os.Getenv("TRUEGREEN_TOOLS") == "require" {
			t.Fatalf("%s is not installed", tool)
		}
		t.Skipf("%s is not installed", tool)
	}
}

// needIsolation skips the test where no sandbox of level 3 can be had.
func needIsolation(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it runs tests in sandboxes")
	}
	if out, err := exec.Command("truegreen", "doctor").CombinedOutput(); err != nil {
		t.Skipf("this host cannot isolate:\n%s", out)
	}
}
