package source

import (
	"bytes"
	"errors"
	"go/build/constraint"
	"go/version"
	"slices"
	"strconv"
	"strings"
)

// A GoEnv is what decides which files the go command builds. The tags of GOOS,
// GOARCH, the compiler gc and the releases up to Version follow from it.
type GoEnv struct {
	OS, Arch string
	Version  string   // such as go1.26.5; without a valid one there are no release tags
	Tags     []string // of -tags, and those of GOEXPERIMENT and GOAMD64 and its kin if they matter
	Cgo      bool
	Race     bool
}

// The names that count at the end of a file's name.
const (
	goKnownOS   = " aix android darwin dragonfly freebsd hurd illumos ios js linux nacl netbsd openbsd plan9 solaris wasip1 windows zos "
	goUnixOS    = " aix android darwin dragonfly freebsd hurd illumos ios linux netbsd openbsd solaris "
	goKnownArch = " 386 amd64 amd64p32 arm arm64 arm64be armbe loong64 mips mips64 mips64le mips64p32 mips64p32le mipsle" +
		" ppc ppc64 ppc64le riscv riscv64 s390 s390x sparc sparc64 wasm "
)

func oneOf(list, word string) bool { return word != "" && strings.Contains(list, " "+word+" ") }

// has reports whether a build tag is set.
func (e GoEnv) has(tag string) bool {
	switch tag {
	case e.OS, e.Arch, "gc":
		return tag != ""
	case "cgo":
		return e.Cgo
	case "race":
		return e.Race
	case "unix":
		return oneOf(goUnixOS, e.OS)
	case "linux":
		if e.OS == "android" {
			return true
		}
	case "solaris":
		if e.OS == "illumos" {
			return true
		}
	case "darwin":
		if e.OS == "ios" {
			return true
		}
	case "boringcrypto":
		tag = "goexperiment.boringcrypto"
	}
	return slices.Contains(e.Tags, tag) || e.hasRelease(tag)
}

// hasRelease reports whether tag is go1.N with an N up to that of the version.
func (e GoEnv) hasRelease(tag string) bool {
	minor, ok := strings.CutPrefix(tag, "go1.")
	if !ok {
		return false
	}
	n, err := strconv.Atoi(minor)
	if err != nil || n < 1 || strconv.Itoa(n) != minor || !version.IsValid(e.Version) {
		return false
	}
	return version.Compare(tag, version.Lang(e.Version)) <= 0
}

// builds reports whether the go command builds a Go file of that name, and an
// error if it refuses the file's build constraint.
func (e GoEnv) builds(name string, content []byte) (bool, error) {
	if strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") || !e.buildsName(name) {
		return false, nil
	}
	header, line, err := constraintLines(bytes.TrimPrefix(content, []byte("\ufeff")))
	if err != nil {
		return false, err
	}
	if line != "" {
		x, err := constraint.Parse(line)
		if err != nil {
			return false, err
		}
		return x.Eval(e.has), nil
	}
	for line := range bytes.Lines(header) {
		text := string(bytes.TrimSpace(line))
		if !constraint.IsPlusBuild(text) {
			continue
		}
		if x, err := constraint.Parse(text); err == nil && !x.Eval(e.has) {
			return false, nil
		}
	}
	return true, nil
}

// buildsName looks at the ends _GOOS, _GOARCH and _GOOS_GOARCH of a name, before
// _test.
func (e GoEnv) buildsName(name string) bool {
	name, _, _ = strings.Cut(name, ".")
	_, name, ok := strings.Cut(name, "_")
	if !ok {
		return true
	}
	parts := strings.Split(name, "_")
	if parts[len(parts)-1] == "test" {
		parts = parts[:len(parts)-1]
	}
	n := len(parts)
	if n == 0 {
		return true
	}
	if oneOf(goKnownArch, parts[n-1]) {
		return e.has(parts[n-1]) && (n < 2 || !oneOf(goKnownOS, parts[n-2]) || e.has(parts[n-2]))
	}
	return !oneOf(goKnownOS, parts[n-1]) || e.has(parts[n-1])
}

// constraintLines returns the part of a file in which lines of the old form
// count, up to the last blank line before the first one that is neither blank
// nor a // comment, and its line of the new form, which may be anywhere before
// the first text that is no comment.
func constraintLines(content []byte) (header []byte, line string, err error) {
	end, seen := 0, 0
	simple, block := true, false // only blank lines and // comments so far; inside /* */
	for l := range bytes.Lines(content) {
		seen += len(l)
		l = bytes.TrimSpace(l)
		if len(l) == 0 && simple {
			end = seen
			continue
		}
		if !bytes.HasPrefix(l, []byte("//")) {
			simple = false
		}
		if !block && constraint.IsGoBuild(string(l)) {
			if line != "" {
				return nil, "", errors.New("multiple //go:build lines")
			}
			line = string(l)
		}
		for len(l) > 0 {
			if block {
				var ok bool
				if _, l, ok = bytes.Cut(l, []byte("*/")); !ok {
					break
				}
				block = false
				l = bytes.TrimSpace(l)
				continue
			}
			if bytes.HasPrefix(l, []byte("//")) {
				break
			}
			var ok bool
			if l, ok = bytes.CutPrefix(l, []byte("/*")); !ok {
				return content[:end], line, nil
			}
			block = true
		}
	}
	return content[:end], line, nil
}
