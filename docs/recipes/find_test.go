package recipes

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFind: the action takes the program that it is given, or that of its release for this
// system, held to its digest, and nothing where it is at no release: then it builds.
// It is no container, so it works on every system (snyk/actions#87), and no registry can
// go away under it (sdwan-lab#206).
func TestFind(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	action, err := os.ReadFile(filepath.Join(moduleRoot, "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if s := string(action); !strings.Contains(s, "using: composite") || strings.Contains(s, "docker://") {
		t.Error("action.yml is not a composite action without containers")
	}
	script, err := filepath.Abs(filepath.Join(moduleRoot, ".github/action/find.sh"))
	if err != nil {
		t.Fatal(err)
	}
	const program = "the program\n"
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(program)))
	given := filepath.Join(t.TempDir(), "given")
	if err := os.WriteFile(given, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	release := "# comment\n" + sum + " Linux X64 v1.2.3\n" + sum + " Windows ARM64 v1.2.3\n"
	for name, c := range map[string]struct {
		table, binary, os, arch, served string
		exit                            int
		path                            string // end of the output
		stderr, asked                   string
	}{
		"given":      {release, given, "Linux", "X64", "", 0, "given", "", ""},
		"not there":  {release, given + "x", "Linux", "X64", "", 2, "", "no such file", ""},
		"no release": {"# none\n", "", "Linux", "X64", "", 0, "", "", ""},
		"elsewhere":  {release, "", "macOS", "ARM64", "", 0, "", "", ""},
		"release":    {release, "", "Linux", "X64", program, 0, "truegreen-v1.2.3-Linux-X64", "", "/v1.2.3/truegreen-v1.2.3-Linux-X64"},
		"windows":    {release, "", "Windows", "ARM64", program, 0, "truegreen-v1.2.3-Windows-ARM64.exe", "", ".exe"},
		"another":    {release, "", "Linux", "X64", "another program\n", 2, "", "is what the action knows it by", ""},
		"gone":       {release, "", "Linux", "X64", "", 22, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write := func(path, text string) {
				path = filepath.Join(dir, path)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
					t.Fatal(err)
				}
			}
			write(".github/action/releases", c.table)
			write("served", c.served)
			write("output", "")
			// In the place of the network: the last argument but one is where to write.
			write("bin/curl", "#!/bin/sh\n[ -s \""+dir+"/served\" ] || exit 22\nfor a; do case $prev in --output) to=$a;; esac; prev=$a; done\n"+
				"echo \"$a\" > \""+dir+"/asked\"\ncp \""+dir+"/served\" \"$to\"\n")
			cmd := exec.Command(bash, script)
			cmd.Env = []string{
				"PATH=" + filepath.Join(dir, "bin") + string(os.PathListSeparator) + os.Getenv("PATH"), "TRUEGREEN_ACTION=" + dir, "TRUEGREEN_BINARY=" + c.binary,
				"RUNNER_OS=" + c.os, "RUNNER_ARCH=" + c.arch, "RUNNER_TEMP=" + dir, "GITHUB_OUTPUT=" + filepath.Join(dir, "output"),
			}
			var stderr strings.Builder
			cmd.Stderr = &stderr
			var exit *exec.ExitError
			if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			output, err := os.ReadFile(filepath.Join(dir, "output"))
			if err != nil {
				t.Fatal(err)
			}
			path, _, _ := strings.Cut(strings.TrimPrefix(string(output), "path="), "\n")
			if cmd.ProcessState.ExitCode() != c.exit || !strings.HasSuffix(path, c.path) || (c.path == "") != (len(output) == 0) || !strings.Contains(stderr.String(), c.stderr) {
				t.Errorf("exit code %d, output %q\n%s", cmd.ProcessState.ExitCode(), output, stderr.String())
			}
			if asked, _ := os.ReadFile(filepath.Join(dir, "asked")); c.asked != "" && !strings.HasSuffix(strings.TrimSpace(string(asked)), c.asked) {
				t.Errorf("asked for %q", asked)
			}
			if c.exit == 2 && c.served != "" {
				if left, _ := filepath.Glob(filepath.Join(dir, "truegreen-*")); len(left) != 0 {
					t.Errorf("%q stays", left)
				}
			}
		})
	}
}
