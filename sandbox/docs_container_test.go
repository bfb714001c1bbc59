//go:build linux && (amd64 || arm64)

package sandbox

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// containerRow is a line of the table of docs/sandbox.md that says what flags
// of docker run come to.
var containerRow = regexp.MustCompile("(?m)^\\| (none|`(--[^`|]+)`) \\| `?([a-z]+)`? \\| ([0-9–]) \\| ([a-z\\\\_–]+) \\|$")

// TestDocsContainer runs the doctor in containers with exactly the flags that
// docs/sandbox.md names, and compares what it finds with the page.
func TestDocsContainer(t *testing.T) {
	te := needEngine(t)
	t.Parallel()
	if te.name != "docker" || os.Geteuid() != 0 {
		t.Skip("the page speaks of docker, started by root")
	}
	if !able(ModeRootDrop) || !able(ModeUserNS) || landlockABI() < 6 {
		t.Skip("this host has less than the page was measured with: namespaces, or Landlock ABI 6")
	}
	options, err := te.output(t.Context(), "info", "--format", "{{.SecurityOptions}}")
	if err != nil {
		t.Fatal(err)
	}
	if regexp.MustCompile(`apparmor|selinux|rootless|userns`).MatchString(options) || !strings.Contains(options, "seccomp") {
		t.Skipf("this engine confines in another way than the one of the page: %s", options)
	}
	page, err := os.ReadFile("../docs/sandbox.md")
	if err != nil {
		t.Skipf("the source is not here: %v", err)
	}
	files := doctorFiles(t, te.entry)
	rows := containerRow.FindAllStringSubmatch(string(page), -1)
	if len(rows) < 8 {
		t.Fatalf("%d lines of the table found", len(rows))
	}
	for _, row := range rows {
		want := row[3] + " " + row[4] + " " + strings.ReplaceAll(row[5], `\`, "")
		t.Run(row[1], func(t *testing.T) {
			if got := te.doctor(t, strings.Fields(row[2]), files); got != want {
				t.Errorf("the page says %s, the doctor found %s", want, got)
			}
		})
	}
}

// doctorFiles is an archive of what the doctor needs in an image: itself, and
// the directories that every system has.
func doctorFiles(t *testing.T, program string) []byte {
	t.Helper()
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	tw.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777})
	tw.WriteHeader(&tar.Header{Name: "usr/", Typeflag: tar.TypeDir, Mode: 0o755})
	tw.WriteHeader(&tar.Header{Name: "bin/truegreen", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(b))})
	tw.Write(b)
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// doctor returns mode, level and root of the strongest mode in a container with
// these flags.
func (te testEngine) doctor(t *testing.T, flags []string, files []byte) string {
	t.Helper()
	id, err := te.output(t.Context(), append(append([]string{"create"}, flags...), te.image, "/bin/truegreen", "doctor", "--json")...)
	if err != nil {
		t.Fatal(err)
	}
	defer te.command(t.Context(), "rm", "--force", "--volumes", id).Run()
	load := te.command(t.Context(), "cp", "-", id+":/")
	load.Stdin = bytes.NewReader(files)
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("copy into the container: %v: %s", err, out)
	}
	out, _ := te.command(t.Context(), "start", "--attach", id).Output() // it exits with 2 below level 3
	var answer struct{ Checks []Check }
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatalf("the doctor printed %q: %v", out, err)
	}
	found := regexp.MustCompile(`^level ([a-z]+), uid [0-9]+, [0-9]+ probes, by ([a-z_]+)$`)
	for _, c := range answer.Checks {
		t.Logf("%s: %v, %s", c.Name, c.OK, c.Detail)
		mode, ok := strings.CutPrefix(c.Name, "mode ")
		if !ok || !c.OK {
			continue
		}
		m := found.FindStringSubmatch(c.Detail)
		if m == nil {
			t.Fatalf("the doctor says %q", c.Detail)
		}
		number := map[string]string{LevelRestricted.String(): "1", LevelContainer.String(): "2", LevelNamespaces.String(): "3"}[m[1]]
		return mode + " " + number + " " + m[2]
	}
	return "none – –"
}
