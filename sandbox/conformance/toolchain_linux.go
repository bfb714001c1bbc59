//go:build amd64 || arm64

package conformance

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/sandbox"
)

func toolchainRows() []Row {
	caches := func(in *Inside) string {
		for _, name := range []string{".npm", ".cargo", ".cache", ".config", ".npmrc", "go", ".gitconfig"} {
			if got := open(filepath.Join(in.Home, name), unix.O_RDONLY); got != "ENOENT" {
				return got
			}
		}
		return "ENOENT"
	}
	includes := func(in *Inside) string {
		got := script{
			files: map[string]string{"x.c": "#include \"" + in.File + "\"\n"},
			argv:  []string{"cc", "-E", "-o", "x.i", "x.c"},
		}.run(in, "106")
		if strings.Contains(got, "compilation terminated") {
			return "refused"
		}
		return got
	}
	configured := func(in *Inside) string {
		return script{
			files: map[string]string{
				"package.json": `{"name":"x","version":"1.0.0","scripts":{"test":"true"}}`,
				".npmrc":       "script-shell=./shell\nupdate-notifier=false\n",
				"shell":        "#!/bin/sh\necho ran >ran\ncat '" + in.File + "' >got\n",
				"run":          "#!/bin/sh\nnpm test --offline >log 2>&1\nif test -s got; then exit 0; elif test -s ran; then echo nothing read; else tail -n 1 log; fi; exit 1\n",
			},
			argv: []string{"./run"},
		}.run(in, "108")
	}
	rows := []Row{
		changeRow("99", "swap an object of a build cache", "object-d", func(p string) error {
			f, err := os.OpenFile(p, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte("swapped"), 0)
			return err
		}),
		modulesRow(),
		{ID: "101a", Name: "find npm's, cargo's and pip's files of the caller", Level: sandbox.LevelRestricted, Want: []string{"ENOENT", "EACCES"},
			Try: caches, Control: mayRefuse(here(caches)), Why: "what programs keep in a home directory, by name; EACCES in mode restricted, where the directory is seen and not entered"},
		homeRow(),
		{ID: "103", Name: "see variables that make programs load code", Level: sandbox.LevelRestricted, Want: []string{"none"},
			Try: func(*Inside) string { return loaders() }, Why: "no control: attempt 7 plants variables, this one looks for names"},
		{ID: "104", Name: "make the go command download a toolchain", Level: walls, Want: []string{"ENETUNREACH"}, Own: true, Spec: goRoot,
			Try: func(in *Inside) string { return otherToolchain(in) }, Needs: goThere, Why: "no control: outside it would download"},
		{ID: "106", Name: "include a file of the host in a build", Level: sandbox.LevelRestricted, Want: []string{"refused"},
			Try: includes, Control: mayRefuse(here(includes)), Needs: installed("cc"), Why: "the compiler finds no such file"},
		{ID: "108", Name: "read a file of the host from npm's configuration", Level: sandbox.LevelRestricted, Want: []string{"nothing read"},
			Try: configured, Control: mayRefuse(here(configured)), Needs: installed("npm", "node"), Why: "what a repository configures does run, inside: so .cargo/config.toml, conftest.py and the like"},
	}
	for i := range rows {
		rows[i].Group, rows[i].Host = "toolchain", rows[i].Needs != nil
	}
	return rows
}

// modulesRow edits a directory that is mounted read-only, as the downloaded
// modules are, although it belongs to the command.
func modulesRow() Row {
	dir := func(o *Outside) string { return filepath.Join(o.Dir, "modules") }
	edit := func(in *Inside) string {
		p := filepath.Join(dir(&in.Outside), "module.go")
		if got := ended(os.Chmod(p, 0o777)); got != "EROFS" && got != "ok" {
			return got
		}
		return open(p, unix.O_WRONLY|unix.O_TRUNC)
	}
	return Row{
		ID: "100", Name: "edit a downloaded module", Level: sandbox.LevelNamespaces, Want: []string{"EROFS", "EACCES", "EPERM"}, Own: true, Try: edit,
		Why: "EROFS by a read-only mount; EACCES where Landlock stands in for it; EPERM for the mode of a file that is somebody else's",
		Control: func(o *Outside) string {
			if err := give(dir(o), filepath.Join(dir(o), "module.go"), o.Secret); err != nil {
				return ended(err)
			}
			return edit(&Inside{Outside: *o})
		},
		Spec: func(o *Outside, spec *sandbox.Spec) {
			spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: dir(o), Target: dir(o), Kind: sandbox.ReadOnly})
		},
	}
}

// loaders looks for variables that make a program run somebody's code.
func loaders() string {
	names := []string{
		"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "NODE_OPTIONS", "PYTHONSTARTUP", "PYTHONPATH", "PERL5OPT", "PERL5LIB", "RUBYOPT",
		"JAVA_TOOL_OPTIONS", "RUSTC_WRAPPER", "GOFLAGS", "GOENV", "GODEBUG", "CC", "CXX",
	}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if slices.Contains(names, name) || strings.HasPrefix(name, "GIT_") || strings.HasPrefix(name, "CGO_") || strings.HasPrefix(name, "npm_config_") {
			return name
		}
	}
	return "none"
}

// homeRow is made twice: the first time only leaves something.
func homeRow() Row {
	return Row{
		ID: "101b", Name: "find what the command before left in the home directory", Level: walls, Want: []string{"nothing"}, Own: true,
		Why: "no control: the directory is there only inside",
		Spec: func(_ *Outside, spec *sandbox.Spec) {
			before := *spec
			before.Stdout = io.Discard
			if r, err := sandbox.Run(context.Background(), before); err != nil || r.State != sandbox.StateExited || r.Exit != 0 {
				spec.Argv = []string{"false"} // the row has no answer then
			}
		},
		Try: func(*Inside) string {
			home := os.Getenv("HOME")
			list, err := os.ReadDir(home)
			if err != nil {
				return ended(err)
			}
			if len(list) > 0 {
				return list[0].Name()
			}
			if err := os.WriteFile(filepath.Join(home, ".npmrc"), []byte("script-shell=/tmp/x\n"), 0o644); err != nil {
				return ended(err)
			}
			return "nothing"
		},
	}
}

// otherToolchain asks for a version of Go that is not there, from an address
// that is nobody's.
func otherToolchain(in *Inside) string {
	got := script{
		files: map[string]string{"go.mod": "module x\n\ngo 1.24\n\ntoolchain go1.999.0\n"},
		env:   []string{"GOTOOLCHAIN=auto", "GOENV=off", "GOPROXY=http://198.51.100.53", "GOSUMDB=off", "GOTELEMETRY=off"},
		argv:  []string{filepath.Join(os.Getenv("GOROOT"), "bin/go"), "version"},
	}.run(in, "104")
	if strings.HasSuffix(got, "network is unreachable") {
		return "ENETUNREACH"
	}
	return got
}
