package verifier

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/verifier/source"
)

func TestParseGoTest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		run  string
		want *goCommand
	}{
		{"go test", &goCommand{packages: []string{"."}}},
		{"go test ./...", &goCommand{packages: []string{"./..."}}},
		{"go test -json -count=3 -count 2 ./a ./b", &goCommand{packages: []string{"./a", "./b"}}},
		{"go test -race -tags=x,y -short -timeout 30s -vet=off ./...", &goCommand{
			build: []string{"-race", "-tags=x,y"}, vet: []string{"-vet=off"}, test: []string{"-short", "-timeout=30s"}, packages: []string{"./..."},
		}},
		{"go test --race -test.short -v=true ./...", &goCommand{build: []string{"-race"}, test: []string{"-short", "-v=true"}, packages: []string{"./..."}}},
		{"go test -run X -skip=Y -bench . ./...", &goCommand{filters: []string{"-run=X", "-skip=Y", "-bench=."}, packages: []string{"./..."}}},
		{"go test -cover -coverprofile=c.out -covermode atomic ./...", &goCommand{packages: []string{"./..."}}},
		{"go test ./... -args -x ./y", &goCommand{packages: []string{"./..."}, args: []string{"-x", "./y"}}},
		{"go test ./a -own-flag", nil}, // the package's, or none: nobody can tell
		{"go test -overlay=x.json ./...", nil},
		{"go test -exec sudo ./...", nil},
		{"go test -toolexec=x ./...", nil},
		{"go test -c ./...", nil},
		{"go test -C dir ./...", nil},
		{"go test -o x ./...", nil},
		{"go test -unheard-of ./...", nil},
		{"go test -timeout", nil},
		{"go vet ./...", nil},
	} {
		got := parseGoTest(&TestEntry{Format: FormatGo, Run: strings.Fields(test.run)})
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", test.run, got, test.want)
		}
	}
	if parseGoTest(&TestEntry{Format: FormatExit, Run: []string{"go", "test", "./..."}}) != nil {
		t.Error("what is read by its exit code alone has nothing laid over it")
	}
	c := parseGoTest(&TestEntry{Format: FormatGo, Run: strings.Fields("go test -race -tags=a,b ./...")})
	if !c.race() || !slices.Equal(c.tags(), []string{"a", "b"}) {
		t.Errorf("race %t, tags %q", c.race(), c.tags())
	}
}

func TestGoArgv(t *testing.T) {
	t.Parallel()
	c := parseGoTest(&TestEntry{Format: FormatGo, Run: strings.Fields("go test -race -short -v -shuffle=on ./... -args -deep")})
	if got := strings.Join(c.buildArgv("go", "-overlay=o", "out", "./p"), " "); got != "go test -c -vet=off -overlay=o -ldflags=-s -w -race -o out ./p" {
		t.Errorf("build %q", got)
	}
	if got := strings.Join(c.binaryArgv("x.test", "-test.run=^A$"), " "); got != "x.test -test.v=test2json -test.paniconexit0 -test.short -test.timeout=10m0s -test.run=^A$ -deep" {
		t.Errorf("binary %q", got)
	}
	want := "go test -json -count=1 -vet=off -coverpkg=./... -coverprofile=../../out/cover.out -race -short -v=true ./p -args -deep"
	if got := strings.Join(c.testArgv("go", []string{"-short", "-v=true"}, []string{"./p"}, append([]string{"-vet=off"}, c.coverFlags("d")...)...), " "); got != want {
		t.Errorf("part %q", got)
	}
	c = parseGoTest(&TestEntry{Format: FormatGo, Run: strings.Fields("go test -timeout=3s ./...")})
	if got := strings.Join(c.binaryArgv("x.test"), " "); got != "x.test -test.v=test2json -test.paniconexit0 -test.timeout=3s" {
		t.Errorf("binary %q", got)
	}
	for dir, want := range map[string]string{".": "-overlay=../overlay/overlay.json", "a": "-overlay=../../overlay/overlay.json", "a/b": "-overlay=../../../overlay/overlay.json"} {
		if got := overlayFlag(dir); got != want {
			t.Errorf("in %s: %s", dir, got)
		}
	}
	for _, test := range [][3]string{{".", ".", "./."}, {".", "a/b", "./a/b"}, {"a", "a", "./"}, {"a", "a/b", "./b"}} {
		if got := packageArg(&TestEntry{Dir: test[0]}, &source.GoPackage{Dir: test[1]}); got != test[2] {
			t.Errorf("%v: %s", test, got)
		}
	}
}

// TestOverlay: an overlay names files relative to where the go command runs, says
// the same again for the same files, and holds nothing but them.
func TestOverlay(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]string{
		".":   `{"Replace":{"a/gone.go":"","a/x_test.go":"../overlay/1.go"}}`,
		"a":   `{"Replace":{"../a/gone.go":"","../a/x_test.go":"../../overlay/1.go"}}`,
		"b/c": `{"Replace":{"../../a/gone.go":"","../../a/x_test.go":"../../../overlay/1.go"}}`,
	} {
		o := newOverlay(dir)
		o.add("a/x_test.go", []byte("package a\n"))
		o.remove("a/gone.go")
		files := o.files()
		if len(files) != 2 || files[0].Name != "/overlay/overlay.json" || string(files[0].Content) != want || files[1].Name != "/overlay/1.go" {
			t.Errorf("in %s: %s", dir, files[0].Content)
		}
	}
}

// TestCanaryNames: no canary's name says what it is for, or follows from another's.
func TestCanaryNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, secret := range []string{"a", "b"} {
		for _, kind := range []string{canaryPass, canaryFail, "file", "import"} {
			for _, pkg := range []string{"p", "p/q"} {
				name := canaryName([32]byte([]byte(strings.Repeat(secret, 32))), kind, pkg)
				if seen[name] || len(name) != len("Test")+18 || strings.Contains(strings.ToLower(name), "green") {
					t.Errorf("%s of %s: %s", kind, pkg, name)
				}
				seen[name] = true
			}
		}
	}
}
