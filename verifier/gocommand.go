package verifier

import (
	"slices"
	"strings"
)

// A goCommand is a go test command, taken apart.
type goCommand struct {
	build    []string // flags of go build
	vet      []string // -vet and its value
	test     []string // flags that go to the test binary, without -count, -json and what follows below
	filters  []string // of them, those that choose tests: -run, -skip, -bench, -fuzz, -list
	packages []string
	args     []string // behind -args
}

// Flags of go test whose value may be the next argument.
var (
	goBuildValue = strings.Fields("-p -asmflags -buildmode -buildvcs -compiler -covermode -coverpkg -gccgoflags -gcflags -installsuffix -ldflags -mod -modfile -pgo -pkgdir -tags")
	goBuildBool  = strings.Fields("-a -asan -cover -linkshared -modcacherw -msan -race -trimpath -work -x")
	goTestValue  = strings.Fields("-benchtime -blockprofile -blockprofilerate -count -coverprofile -cpu -cpuprofile -fuzzcachedir -fuzzminimizetime -fuzztime -memprofile -memprofilerate -mutexprofile -mutexprofilefraction -outputdir -parallel -shuffle -timeout -trace")
	goTestBool   = strings.Fields("-benchmem -failfast -fullpath -short -v")
	goFilter     = strings.Fields("-bench -fuzz -list -run -skip")
)

// parseGoTest takes a go test command apart. It returns nil for one with a flag
// that it does not know, or that changes what is run: then nothing can be laid
// over it, and no part of it can be run again.
func parseGoTest(e *TestEntry) *goCommand {
	if !isGoTest(e) {
		return nil
	}
	var c goCommand
	argv := e.Run[2:]
	for len(argv) > 0 {
		arg := argv[0]
		argv = argv[1:]
		if arg == "-args" || arg == "--args" {
			c.args = argv
			break
		}
		if !strings.HasPrefix(arg, "-") {
			c.packages = append(c.packages, arg)
			continue
		}
		if len(c.packages) > 0 {
			// What follows a package may be the package's own.
			return nil
		}
		name, value, given := strings.Cut("-"+strings.TrimLeft(arg, "-"), "=")
		name = strings.Replace(name, "-test.", "-", 1)
		takesValue := slices.Contains(goBuildValue, name) || slices.Contains(goTestValue, name) || slices.Contains(goFilter, name) || name == "-vet"
		if takesValue && !given {
			if len(argv) == 0 {
				return nil
			}
			value, argv = argv[0], argv[1:]
		}
		whole := name
		if takesValue || given {
			whole += "=" + value
		}
		switch {
		case name == "-json" || name == "-count" || name == "-i":
		case name == "-vet":
			c.vet = append(c.vet, whole)
		case slices.Contains(goFilter, name):
			c.filters = append(c.filters, whole)
		case name == "-cover" || name == "-covermode" || name == "-coverpkg" || name == "-coverprofile":
			// Counted runs are made by themselves.
		case slices.Contains(goBuildValue, name), slices.Contains(goBuildBool, name):
			c.build = append(c.build, whole)
		case slices.Contains(goTestValue, name), slices.Contains(goTestBool, name):
			c.test = append(c.test, whole)
		default:
			return nil
		}
	}
	if len(c.packages) == 0 {
		c.packages = []string{"."}
	}
	return &c
}

// race reports whether the command asks for the race detector, with which the go
// command chooses other files.
func (c *goCommand) race() bool { return slices.Contains(c.build, "-race") }

// tags returns the build tags of the command.
func (c *goCommand) tags() []string {
	var list []string
	for _, flag := range c.build {
		if value, ok := strings.CutPrefix(flag, "-tags="); ok {
			list = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
		}
	}
	return list
}

// buildArgv returns the command that builds the test binary of a package in the
// working directory. As go test does itself when it keeps no binary, it leaves out
// what is for debuggers: a third of the time that linking takes.
func (c *goCommand) buildArgv(goCommand, overlay, out, pkg string) []string {
	argv := []string{goCommand, "test", "-c", "-vet=off"}
	if overlay != "" {
		argv = append(argv, overlay)
	}
	if !slices.ContainsFunc(c.build, func(flag string) bool { return strings.HasPrefix(flag, "-ldflags=") }) {
		argv = append(argv, "-ldflags=-s -w")
	}
	return append(append(argv, c.build...), "-o", out, pkg)
}

// testArgv returns the command that tests packages with these flags, then those of
// the command that build, and then test, the flags for the test binary.
func (c *goCommand) testArgv(goCommand string, test, packages []string, flags ...string) []string {
	argv := slices.Concat([]string{goCommand, "test", "-json", "-count=1"}, flags, c.build, test, packages)
	if len(c.args) > 0 {
		argv = append(append(argv, "-args"), c.args...)
	}
	return argv
}

// coverFlags returns the flags with which a run in a folder counts the executed
// lines of all that the command tests.
func (c *goCommand) coverFlags(dir string) []string {
	return []string{"-coverpkg=" + strings.Join(c.packages, ","), "-coverprofile=" + fromDir(dir) + OutDir + "/" + coverFile}
}

// binaryArgv returns the command that runs a test binary with the flags of the
// command and those given.
func (c *goCommand) binaryArgv(binary string, flags ...string) []string {
	argv := []string{binary, "-test.v=test2json", "-test.paniconexit0"}
	timeout := false
	for _, flag := range c.test {
		name, _, _ := strings.Cut(flag, "=")
		switch name {
		case "-v", "-shuffle", "-fullpath":
			continue
		case "-timeout":
			timeout = true
		}
		argv = append(argv, "-test."+flag[1:])
	}
	if !timeout {
		argv = append(argv, "-test.timeout=10m0s")
	}
	argv = append(argv, flags...)
	return append(argv, c.args...)
}
