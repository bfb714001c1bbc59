package main

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

func init() { commands["image"] = useImage }

// standInGo is the go command of the base that the image is built on here, where there are
// no modules: it hands over a program that was compiled before, if it is asked for the
// right one.
const standInGo = `#!/bin/sh
[ "$CGO_ENABLED $*" = "0 build -trimpath -buildvcs=false -o /truegreen ./cmd/truegreen" ] || exit 1
[ -f cmd/truegreen/main.go ] && [ ! -e .git ] && exec cp /bin/truegreen /truegreen
`

// useImage builds the image of the Dockerfile, on bases of this host's files, under a name
// that no other process uses, and removes all of it after the script.
func useImage(ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, neg || len(args) != 1, "image NAME")
	work := ts.MkAbs("image")
	ts.Check(os.Mkdir(work, 0o755))
	defer os.RemoveAll(work)
	run := func(stdin io.Reader, name string, args ...string) {
		cmd := exec.Command(name, args...)
		cmd.Stdin, cmd.Env = stdin, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			ts.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	program, compiler := filepath.Join(work, "truegreen"), filepath.Join(work, "go")
	run(nil, "go", "build", "-o", program, ".")
	ts.Check(os.WriteFile(compiler, []byte(standInGo), 0o755))
	name := fmt.Sprintf("truegreen-image-test:%d-%s", os.Getpid(), strings.ToLower(args[0]))
	load := func(image string, files map[string]string) {
		ts.Defer(func() { exec.Command("docker", "image", "rm", "--force", image).Run() })
		out, in := io.Pipe()
		go func() { in.CloseWithError(writeBase(in, files)) }()
		run(out, "docker", "import", "--change", "ENV PATH=/usr/local/bin:/usr/bin:/bin", "-", image)
	}
	load(name+"-build", map[string]string{"bin/truegreen": program, "bin/go": compiler})
	base, err := gitFiles()
	ts.Check(err)
	load(name+"-base", base)
	// What has a name can be removed: so the stage that is not the image has one, too.
	for _, stage := range [][]string{{"--tag=" + name + "-stage", "--target=build"}, {"--tag=" + name}} {
		tag := strings.TrimPrefix(stage[0], "--tag=")
		ts.Defer(func() { exec.Command("docker", "image", "rm", "--force", tag).Run() })
		build := append([]string{"build", "--network=none", "--build-arg=BUILD=" + name + "-build", "--build-arg=BASE=" + name + "-base"}, stage...)
		run(nil, "docker", append(build, moduleRoot)...)
	}
	ts.Setenv(args[0], name)
}

// gitFiles returns git with the libraries that it is linked to, and certificates, by their
// paths in an image.
func gitFiles() (map[string]string, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	out, err := exec.Command("ldd", git).Output()
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w", git, err)
	}
	files := map[string]string{"usr/bin/git": git, "etc/ssl/certs/ca-certificates.crt": git} // nothing reads the second
	for _, m := range regexp.MustCompile(`(?m)(/[^ ]+) \(0x`).FindAllStringSubmatch(string(out), -1) {
		files[m[1][1:]] = m[1]
	}
	return files, nil
}

// writeBase writes the file system of a base: a shell and files of the host.
func writeBase(w io.Writer, files map[string]string) error {
	tw := tar.NewWriter(w)
	if err := addFile(tw, "bin/busybox", "/bin/busybox"); err != nil {
		return err
	}
	for _, name := range []string{"sh", "cp", "id", "test", "true"} {
		if err := tw.WriteHeader(&tar.Header{Name: "bin/" + name, Linkname: "busybox", Typeflag: tar.TypeSymlink, Mode: 0o777}); err != nil {
			return err
		}
	}
	if err := tw.WriteHeader(&tar.Header{Name: "tmp", Typeflag: tar.TypeDir, Mode: 0o1777}); err != nil {
		return err
	}
	for name, path := range files {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return err
		}
		if err := addFile(tw, name, real); err != nil {
			return err
		}
	}
	return tw.Close()
}
