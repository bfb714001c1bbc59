package verifier

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const fullConfig = `# Everything that there is.
test:
  - name: unit
    run: [go, test, ./...]
  - name: web-1
    run:
      - npm
      - "test"
      - ""
    dir: web/app
    format: junit
    report: junit.xml
    timeout: 1h30m
    env: {LANG: C, A_B: "1", A: 'x=y'}
    paths: ["web/**", 'pack?ge*.json']
    connect: ["[::1]:5432", 127.0.0.1:6379, 127.0.0.1:5432]
    network: none
  - {name: lint, run: [make, lint], timeout: 90s}
  - {name: tap, run: [node, --test], format: tap}
  - {name: ctrf, run: [npx, jest], format: ctrf}
  - {name: ctrf-2, run: [npx, jest], format: ctrf, report: ctrf.json, coverage: lcov.info}
prepare:
  run: [[go, mod, download], [go, mod, verify]]
  secrets: [NPM_TOKEN, ABC]
  vcs: [git.example.com, 10.0.0.7, a-b.example.com]
  network: false
isolation: {level: 2, image: "registry.example.com:5000/go@sha256:00"}
limits: {pids: 512, memory: 4GiB, cpu: "1.5", disk: 1073741824, output: "64KiB"}
`

func TestParseConfig(t *testing.T) {
	t.Parallel()
	c, err := ParseConfig([]byte(fullConfig))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := c.Document()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"v":1,"test":[` +
		`{"name":"unit","run":["go","test","./..."],"dir":".","format":"go","timeout_s":600},` +
		`{"name":"web-1","run":["npm","test",""],"dir":"web/app","format":"junit","report":"junit.xml","timeout_s":5400,` +
		`"env":["A=x=y","A_B=1","LANG=C"],"paths":["web/**","pack?ge*.json"],"connect":["127.0.0.1:5432","127.0.0.1:6379","[::1]:5432"]},` +
		`{"name":"lint","run":["make","lint"],"dir":".","format":"exit","timeout_s":90},` +
		`{"name":"tap","run":["node","--test"],"dir":".","format":"tap","timeout_s":600},` +
		`{"name":"ctrf","run":["npx","jest"],"dir":".","format":"ctrf","report":"report.json","timeout_s":600},` +
		`{"name":"ctrf-2","run":["npx","jest"],"dir":".","format":"ctrf","report":"ctrf.json","coverage":"lcov.info","timeout_s":600}],` +
		`"prepare":{"run":[["go","mod","download"],["go","mod","verify"]],"secrets":["ABC","NPM_TOKEN"],"vcs":["10.0.0.7","a-b.example.com","git.example.com"],"network":false},` +
		`"isolation":{"level":2,"image":"registry.example.com:5000/go@sha256:00"},` +
		`"limits":{"pids":512,"memory_bytes":4294967296,"cpu_milli":1500,"disk_bytes":1073741824,"output_bytes":65536},` + defaultTail + `}`
	if string(doc) != want {
		t.Errorf("document\n%s\nwant\n%s", doc, want)
	}
	again, err := ParseConfigDocument(doc)
	if err != nil || !reflect.DeepEqual(again, c) {
		t.Errorf("parsed again: %+v, %v", again, err)
	}
}

// defaultTail is what a configuration document has of evidence and integrity where
// the file does not say anything.
const defaultTail = `"evidence":{"level":1,"auto":true,"reruns":5,"mutants":40,"budget_s":1200},"integrity":{"removed":"fail","newly_skipped":"fail","still_failing":"fail","zero_tests":"fail","weakened":"warn","unstable":"warn","harness_touched":"warn","ci_touched":"warn","build_touched":"warn","golden_touched":"warn","tooling_touched":"warn","test_aware":"warn","fails_base_tests":"warn","no_fail_to_pass":"warn","not_executed":"warn","survived":"warn"}`

func TestParseConfigDefault(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"", "\n", "# nothing\n", "---\n", "{}\n", "isolation: {level: 3}\n", "prepare:\n  network: true\r\n"} {
		c, err := ParseConfig([]byte(file))
		if err != nil || !reflect.DeepEqual(c, DefaultConfig()) {
			t.Errorf("%q: %+v, %v", file, c, err)
		}
	}
	doc, err := DefaultConfig().Document()
	if want := `{"v":1,"prepare":{"network":true},"isolation":{"level":3},"limits":{},` + defaultTail + `}`; err != nil || string(doc) != want {
		t.Errorf("document %s, %v", doc, err)
	}
}

func TestParseConfigEvidence(t *testing.T) {
	t.Parallel()
	c, err := ParseConfig([]byte("evidence: {level: L4, reruns: 1, mutants: 7, budget: 90s, tests: [spec/**], unstable: [\"TestFlaky*\"]}\n" +
		"integrity: {removed: warn, newly-skipped: ignore, zero-tests: fail, harness-touched: fail}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultConfig()
	want.Evidence = EvidenceConfig{Level: 4, Reruns: 1, Mutants: 7, Budget: 90, Tests: []string{"spec/**"}, Unstable: []string{"TestFlaky*"}}
	want.Integrity.Removed, want.Integrity.NewlySkipped, want.Integrity.Harness = PolicyWarn, PolicyIgnore, PolicyFail
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v", c)
	}
	for file, part := range map[string]string{
		"evidence: {level: 3}\n":                      "evidence.level: not a string",
		"evidence: {level: L5}\n":                     "is not one of L0 to L4",
		"evidence: {level: l1}\n":                     "is not one of L0 to L4",
		"evidence: {reruns: 0}\n":                     "evidence.reruns: 0",
		"evidence: {budget: 7h}\n":                    "evidence.budget: not between",
		"evidence: {levels: L1}\n":                    "nearest known one is \"level\"",
		"evidence: {tests: []}\n":                     "evidence.tests",
		"integrity: {removed: never}\n":               "integrity.removed: \"never\" is not fail, warn or ignore",
		"integrity: {harness: fail}\n":                "integrity.harness: unknown key",
		"integrity: {removed: warn, removed: fail}\n": "removed",
	} {
		if _, err := ParseConfig([]byte(file)); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %q", file, err, part)
		}
	}
}

func TestParseConfigProcessors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1": 1000, "1024": 1024000, `"2"`: 2000, `"0.001"`: 1, `"0.5"`: 500, `"1.25"`: 1250, `"1.050"`: 1050, `"1024.000"`: 1024000, "'3.999'": 3999,
	} {
		c, err := ParseConfig([]byte("limits: {cpu: " + text + "}\n"))
		if err != nil || c.Limits != (LimitsConfig{CPU: want}) {
			t.Errorf("%s: %+v, %v; want %d", text, c.Limits, err, want)
		}
	}
}

// TestParseConfigErrors has one file for every rule, and the whole error.
func TestParseConfigErrors(t *testing.T) {
	t.Parallel()
	const entry = "test:\n  - name: a\n    run: [x]\n"
	long := strings.Repeat("x", maxArg+1)
	for _, test := range []struct{ file, want string }{
		// YAML
		{"a: b: c\n", "1: "},
		{"test: [\n", "2: "},
		{"\xff", "1: not UTF-8"},
		{"\xff\xfet\x00", "1: not UTF-8"},
		{"\ufefftest: []", "1: not UTF-8"},
		{"#\n#\x00\n", "2: not UTF-8"},
		{"%YAML 1.1\n---\n{}\n", "1: directives are not supported"},
		{"{}\n---\n{}\n", ": a second document"},
		{entry + "prepare: &p {}\nlimits: *p\n", "4: anchors and aliases are not supported"},
		{entry + "prepare: !!map {}\n", "4: tags are not supported"},
		{entry + "    env: {<<: {A: b}}\n", "4: merge keys are not supported"},
		{entry + "    dir: b\n    dir: c\n", "5: dir: there twice"},
		{"1: a\n", "1: a key that is not a string"},
		{"? [a]\n: b\n", "1: a key that is not a string"},
		{"limits: {pids: 0x10}\n", "1: 0x10: integers are plain decimal; quote it if it is text"},
		{"limits: {pids: 010}\n", "1: 010: integers are plain decimal"},
		{"limits: {pids: 1_000}\n", "1: 1_000: integers are plain decimal"},
		{"limits: {pids: +1}\n", "1: +1: integers are plain decimal"},
		{"test: " + strings.Repeat("[", 20) + strings.Repeat("]", 20), "1: more than 16 levels"},
		{"#" + strings.Repeat("x", maxYAML), "1: 65537 bytes: the limit is 65536"},
		// Keys and types
		{"tests: []\n", `1: tests: unknown key; the nearest known one is "test"`},
		{entry + "    timout: 1m\n", `4: test[0].timout: unknown key; the nearest known one is "timeout"`},
		{"limits:\n  memroy: 1GiB\n", `2: limits.memroy: unknown key; the nearest known one is "memory"`},
		{"[]\n", "1: not a mapping"},
		{"text\n", "1: not a mapping"},
		{"test: {}\n", "1: test: not a list with at least one item"},
		{"test: []\n", "1: test: not a list with at least one item"},
		{"test: [a]\n", "1: test[0]: not a mapping"},
		{"test:\n", "1: test: not a list with at least one item"},
		{"prepare:\n  network: yes\n", "2: prepare.network: not true or false"},
		{"prepare:\n  network: \"true\"\n", "2: prepare.network: not true or false"},
		{"prepare:\n  run: [a]\n", "2: prepare.run[0]: not a list with at least one item"},
		{"prepare:\n  run: [[]]\n", "2: prepare.run[0]: not a list with at least one item"},
		{"prepare:\n  run: [[sh, fetch.sh]]\n  secrets: [TOKEN]\n", "2: prepare.run[0]: beside prepare.secrets only go mod download and go mod verify can be run: the patch's own files would see the secrets"},
		{"prepare:\n  run: [[go, mod, download], [go, run, .]]\n  secrets: [TOKEN]\n", "2: prepare.run[1]: beside prepare.secrets only go mod download and go mod verify can be run: the patch's own files would see the secrets"},
		// Entries
		{"test:\n  - run: [x]\n", `2: test[0].name: "" is not 1 to 32 of a-z`},
		{"test:\n  - run: [x]\n    name: Unit\n", `3: test[0].name: "Unit" is not 1 to 32 of a-z`},
		{"test:\n  - run: [x]\n    name: -x\n", `3: test[0].name: "-x" is not`},
		{"test:\n  - run: [x]\n    name: " + strings.Repeat("n", 33) + "\n", `3: test[0].name: "nnn`},
		{entry + "  - run: [x]\n    name: a\n", `5: test[1].name: another entry is named "a"`},
		{"test:\n  - name: a\n", "2: test[0].run: no command"},
		{"test:\n  - name: a\n    run: go test\n", "3: test[0].run: not a list with at least one item"},
		{"test:\n  - name: a\n    run: ['']\n", "3: test[0].run: no command"},
		{"test:\n  - name: a\n    run: [x, 1]\n", `3: test[0].run[1]: not a string; quote it: "1"`},
		{"test:\n  - name: a\n    run: [x, ~]\n", `3: test[0].run[1]: not a string; quote it: "~"`},
		{"test:\n  - name: a\n    run:\n      - x\n      - 1.5\n", `5: test[0].run[1]: not a string; quote it: "1.5"`},
		{"test:\n  - name: a\n    run: [x, \"\\0\"]\n", "3: test[0].run[1]: holds a NUL"},
		{"test:\n  - name: a\n    run: [x, " + long + "]\n", "3: test[0].run[1]: longer than 4096 bytes"},
		{entry + "    dir: /a\n", `4: test[0].dir: "/a" is not a clean relative path`},
		{entry + "    dir: a/\n", `4: test[0].dir: "a/" is not a clean relative path`},
		{entry + "    dir: ''\n", `4: test[0].dir: "" is not a clean relative path`},
		{entry + "    dir: a\\b\n", `4: test[0].dir: "a\\b" is not a clean relative path`},
		{entry + "    dir: ../a\n", `4: test[0].dir: "../a" leaves the tree`},
		{entry + "    dir: ..\n", `4: test[0].dir: ".." leaves the tree`},
		{entry + "    format: TAP\n", `4: test[0].format: "TAP" is not go, junit, tap, ctrf or exit`},
		{entry + "    report: x.xml\n", "4: test[0].report: only formats junit and ctrf have one"},
		{entry + "    format: exit\n    coverage: x.xml\n", "5: test[0].coverage: only formats junit, tap and ctrf have one"},
		{entry + "    format: tap\n    coverage: a/b\n", `5: test[0].coverage: "a/b" is not a file name`},
		{entry + "    format: tap\n    coverage: ''\n", `5: test[0].coverage: empty: leave it out`},
		{entry + "    format: junit\n    coverage: report.xml\n", `5: test[0].coverage: "report.xml" is the report of the tests`},
		{entry + "    format: tap\n    report: x.tap\n", "5: test[0].report: only formats junit and ctrf have one"},
		{entry + "    format: ctrf\n    report: a/b.json\n", `5: test[0].report: "a/b.json" is not a file name`},
		{entry + "    format: junit\n    report: a/b\n", `5: test[0].report: "a/b" is not a file name`},
		{entry + "    format: junit\n    report: .x\n", `5: test[0].report: ".x" is not a file name`},
		{entry + "    timeout: 10\n", "4: test[0].timeout: not a duration, such as 90s or 10m"},
		{entry + "    timeout: 1500ms\n", "4: test[0].timeout: not a number of whole seconds"},
		{entry + "    timeout: 0s\n", "4: test[0].timeout: not between 1s and 6h"},
		{entry + "    timeout: -5m\n", "4: test[0].timeout: not between 1s and 6h"},
		{entry + "    timeout: 6h1s\n", "4: test[0].timeout: not between 1s and 6h"},
		{entry + "    env: [A]\n", "4: test[0].env: not a mapping of names to values"},
		{entry + "    env:\n      B: c\n      A: 1\n", `6: test[0].env.A: not a string; quote it: "1"`},
		{entry + "    env: {A-B: c}\n", `4: test[0].env: "A-B" is not the name of a variable`},
		{entry + "    env: {Ä_: c}\n", `4: test[0].env: "Ä_" is not the name of a variable`},
		{entry + "    env: {PATH: c}\n", "4: test[0].env: PATH is reserved: truegreen sets it"},
		{entry + "    env: {LD_PRELOAD: c}\n", "4: test[0].env: LD_PRELOAD is reserved, as all names with LD_ are"},
		{entry + "    env: {GIT_DIR: c}\n", "4: test[0].env: GIT_DIR is reserved"},
		{entry + "    env: {TRUEGREEN_OUT: c}\n", "4: test[0].env: TRUEGREEN_OUT is reserved"},
		{entry + "    env: {GOFLAGS: -x}\n", "4: test[0].env: GOFLAGS is reserved"},
		{entry + "    env: {A: \"\\0\"}\n", "4: test[0].env.A: holds a NUL"},
		{entry + "    paths: []\n", "4: test[0].paths: not a list with at least one item"},
		{entry + "    paths: [/a]\n", `4: test[0].paths[0]: "/a": not a clean path`},
		{entry + "    paths:\n      - a\n      - a**\n", `6: test[0].paths[1]: "a**": ** must be a whole element`},
		{entry + "    paths: ['{a,b}']\n", `4: test[0].paths[0]: "{a,b}": only * ? and ** are special`},
		{entry + "    paths: ['!a']\n", `4: test[0].paths[0]: "!a": only * ? and ** are special`},
		{entry + "    paths: [a/../b]\n", `4: test[0].paths[0]: "a/../b": not a clean path`},
		{entry + "    connect: 127.0.0.1:80\n", "4: test[0].connect: not a list with at least one item"},
		{entry + "    connect: []\n", "4: test[0].connect: not a list with at least one item"},
		{entry + "    connect: [5432]\n", `4: test[0].connect[0]: not a string; quote it: "5432"`},
		{entry + "    connect: ['5432']\n", `4: test[0].connect[0]: "5432" is not a loopback address and a port, such as 127.0.0.1:5432`},
		{entry + "    connect: [localhost:80]\n", `4: test[0].connect[0]: "localhost:80" is not a loopback`},
		{entry + "    connect: [127.0.0.1]\n", `4: test[0].connect[0]: "127.0.0.1" is not a loopback`},
		{entry + "    connect: ['127.0.0.1:0']\n", `4: test[0].connect[0]: "127.0.0.1:0" is not a loopback`},
		{entry + "    connect: ['127.0.0.1:080']\n", `4: test[0].connect[0]: "127.0.0.1:080" is not a loopback`},
		{entry + "    connect: ['127.0.0.1:65536']\n", `4: test[0].connect[0]: "127.0.0.1:65536" is not a loopback`},
		{entry + "    connect: ['127.0.0.01:80']\n", `4: test[0].connect[0]: "127.0.0.01:80" is not a loopback`},
		{entry + "    connect: ['0.0.0.0:80']\n", `4: test[0].connect[0]: "0.0.0.0:80" is not a loopback`},
		{entry + "    connect: ['169.254.169.254:80']\n", `4: test[0].connect[0]: "169.254.169.254:80" is not a loopback`},
		{entry + "    connect: ['[0:0::1]:80']\n", `4: test[0].connect[0]: "[0:0::1]:80" is not a loopback`},
		{entry + "    connect: ['[::1%lo]:80']\n", `4: test[0].connect[0]: "[::1%lo]:80" is not a loopback`},
		{entry + "    connect: ['[::ffff:127.0.0.1]:80']\n", `4: test[0].connect[0]: "[::ffff:127.0.0.1]:80" is not a loopback`},
		{entry + "    connect: ['127.0.0.1:1', '127.0.0.1:1']\n", "4: test[0].connect[1]: 127.0.0.1:1: not sorted, or there twice"},
		{entry + "    connect: [" + strings.Repeat("'127.0.0.1:1', ", 17) + "]\n", "4: test[0].connect: more than 16 ports"},
		{entry + "    network: hosts\n", `4: test[0].network: "hosts" is not none or host`},
		{entry + "    network: ''\n", `4: test[0].network: "" is not none or host`},
		{entry + "    network: host\n", "4: test[0].network: with the host's network a test has isolation level 1 at most, and isolation.level asks for 3"},
		{entry + "    network: host\nisolation: {level: 2}\n", "4: test[0].network: with the host's network a test has isolation level 1 at most, and isolation.level asks for 2"},
		{entry + "    network: host\n    connect: ['127.0.0.1:80']\nisolation: {level: 1}\n", "5: test[0].connect: not with network host"},
		// The rest
		{"prepare:\n  secrets: [a b]\n", `2: prepare.secrets[0]: "a b" is not the name of a variable`},
		{"prepare:\n  secrets: [A, A]\n", "2: prepare.secrets[1]: A: not sorted, or there twice"},
		{"prepare:\n  secrets: [HOME]\n", "2: prepare.secrets[0]: HOME is reserved"},
		{"prepare:\n  vcs: git.example.com\n", "2: prepare.vcs: not a list with at least one item"},
		{"prepare:\n  vcs: []\n", "2: prepare.vcs: not a list with at least one item"},
		{"prepare:\n  vcs: [b.org, a.org, b.org]\n", "2: prepare.vcs[2]: b.org: not sorted, or there twice"},
		{"prepare:\n  vcs:\n    - a.org\n    - b.org:443\n", `4: prepare.vcs[1]: "b.org:443" is not a host such as git.example.com: small letters`},
		{"isolation: {level: 5}\n", "1: isolation.level: 5 is not one of 0 to 4"},
		{"isolation: {level: -1}\n", "1: isolation.level: -1 is not one of 0 to 4"},
		{"isolation: {image: \"\"}\n", "1: isolation.image: empty"},
		{"isolation: {image: -v}\n", "1: isolation.image: \"-v\" is not the name of an image"},
		{"isolation: {image: a b}\n", "1: isolation.image: \"a b\" is not the name of an image"},
		{"isolation: {image: ü}\n", "1: isolation.image: \"ü\" is not the name of an image"},
		{"isolation: {image: " + strings.Repeat("a", 257) + "}\n", "1: isolation.image: "},
		{"isolation: {image: 1}\n", "1: isolation.image: not a string; quote it"},
		{"isolation: {level: high}\n", "1: isolation.level: not an integer"},
		{"isolation: {level: 99999999999}\n", "1: isolation.level: not an integer"},
		{"limits: {pids: 0}\n", "1: limits.pids: not above 0"},
		{"limits: {pids: 4194305}\n", "1: limits.pids: 4194305 is not one of 1 to 4194304"},
		{"limits: {memory: 4GB}\n", "1: limits.memory: not a size, such as 512MiB or 4GiB"},
		{"limits: {memory: 1.5GiB}\n", "1: limits.memory: not a size"},
		{"limits: {memory: 1.5}\n", "1: limits.memory: not a size"},
		{"limits: {memory: -1}\n", "1: limits.memory: not a size"},
		{"limits: {memory: 0MiB}\n", "1: limits.memory: not above 0"},
		{"limits: {memory: 9999999999GiB}\n", "1: limits.memory: not a size"},
		{"limits: {cpu: 0}\n", "1: limits.cpu: not above 0"},
		{"limits: {cpu: \"0.000\"}\n", "1: limits.cpu: not above 0"},
		{"limits: {cpu: 1025}\n", "1: limits.cpu: 1025000 thousandths of a processor are not 1 to 1024000"},
		{"limits: {cpu: \"1024.001\"}\n", "1: limits.cpu: 1024001 thousandths of a processor are not 1 to 1024000"},
		{"limits: {cpu: 1.5}\n", `1: limits.cpu: not a number of processors, such as 2 or "1.5" in quotes`},
		{"limits: {cpu: [1]}\n", "1: limits.cpu: not a number of processors"},
		{"limits: {cpu: true}\n", "1: limits.cpu: not a number of processors"},
		{"limits: {cpu: }\n", "1: limits.cpu: not a number of processors"},
		{"limits: {cpu: -1}\n", "1: limits.cpu: not a number of processors"},
		{"limits: {cpu: 9223372036854775807}\n", "1: limits.cpu: not a number of processors"},
		{"limits: {cpu: \"\"}\n", "1: limits.cpu: not a number of processors"},
		{"limits: {cpu: \"1.\"}\n", "1: limits.cpu: not a number of processors"},
		{"limits: {cpu: \".5\"}\n", "1: limits.cpu: not a number of processors"},
		{"limits: {cpu: \"-0.5\"}\n", "1: limits.cpu: not a number of processors"},
		{"limits: {cpu: \"+1.5\"}\n", "1: limits.cpu: not a number of processors"},
		{"limits: {cpu: \"01.5\"}\n", "1: limits.cpu: not a number of processors"},
		{"limits: {cpu: \"1.+5\"}\n", "1: limits.cpu: not a number of processors"},
		{"limits: {cpu: \"1.5.\"}\n", "1: limits.cpu: not a number of processors"},
		{"limits: {cpu: \"1.2345\"}\n", "1: limits.cpu: not a number of processors"},
		{"limits: {cpu: \"1e3\"}\n", "1: limits.cpu: not a number of processors"},
		{"limits: {memory: 1048577GiB}\n", "1: limits.memory: 1125900980584448 is not one of 1 to"},
	} {
		c, err := ParseConfig([]byte(test.file))
		if err == nil || !reflect.DeepEqual(c, Config{}) {
			t.Errorf("%q: accepted, or a result beside the error", test.file)
			continue
		}
		if got := strings.TrimPrefix(err.Error(), ConfigFile+":"); !strings.HasPrefix(got, test.want) && !strings.HasPrefix(test.want, ": ") ||
			!strings.Contains(got, test.want) {
			t.Errorf("%q:\ngot  %s\nwant %s", test.file, got, test.want)
		}
	}
}

func TestParseConfigDocumentErrors(t *testing.T) {
	t.Parallel()
	const tail = `"prepare":{"network":true},"isolation":{"level":3},"limits":{},` + defaultTail + `}`
	entry := func(rest string) string {
		return `{"v":1,"test":[{"name":"a","run":["x"],` + rest + `}],` + tail
	}
	good := entry(`"dir":".","format":"exit","timeout_s":600`)
	if _, err := ParseConfigDocument([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ doc, want string }{
		{"", "configuration document"},
		{good + "\n", "configuration document"},
		{strings.Replace(good, `"v":1`, `"v":2`, 1), "version 2 is unknown"},
		{strings.Replace(good, `"v":1,`, ``, 1), "configuration document"},
		{strings.Replace(good, `"limits":{}`, `"limits":{"x":1}`, 1), "configuration document"},
		{strings.Replace(good, `"limits":{}`, `"limits":{"pids":0}`, 1), "configuration document"},
		{strings.Replace(good, `"limits":{}`, `"limits":{"pids":-1}`, 1), "limits.pids: -1"},
		{strings.Replace(good, `"evidence":{"level":1,"auto":true`, `"evidence":{"level":5`, 1), "evidence.level"},
		{strings.Replace(good, `"evidence":{"level":1,"auto":true`, `"evidence":{"level":-1`, 1), "evidence.level"},
		{strings.Replace(good, `"evidence":{"level":1`, `"evidence":{"level":2`, 1), "evidence.level: chosen, and automatic"},
		{strings.Replace(good, `"reruns":5`, `"reruns":0`, 1), "evidence.reruns: 0"},
		{strings.Replace(good, `"reruns":5`, `"reruns":51`, 1), "evidence.reruns: 51"},
		{strings.Replace(good, `"mutants":40`, `"mutants":501`, 1), "evidence.mutants: 501"},
		{strings.Replace(good, `"budget_s":1200`, `"budget_s":0`, 1), "evidence.budget"},
		{strings.Replace(good, `"budget_s":1200`, `"budget_s":1200,"tests":["/a"]`, 1), "evidence.tests[0]"},
		{strings.Replace(good, `"removed":"fail"`, `"removed":"yes"`, 1), "integrity.removed"},
		{strings.Replace(good, `"removed":"fail",`, ``, 1), "configuration document"},
		{strings.Replace(good, `"limits":{}`, `"limits":{"cpu_milli":0}`, 1), "configuration document"},
		{strings.Replace(good, `"limits":{}`, `"limits":{"cpu_milli":-1}`, 1), "limits.cpu: -1"},
		{strings.Replace(good, `"limits":{}`, `"limits":{"cpu_milli":1024001}`, 1), "limits.cpu: 1024001"},
		{strings.Replace(good, `"limits":{}`, `"limits":{"cpu_milli":1.5}`, 1), "configuration document"},
		{strings.Replace(good, `"level":3`, `"level":3,"image":"-a"`, 1), "isolation.image"},
		{strings.Replace(good, `"level":3`, `"level":3,"image":"a\n"`, 1), "isolation.image"},
		{strings.Replace(good, `"level":3`, `"level":3,"image":""`, 1), "configuration document"},
		{strings.Replace(good, `[{"name"`, `[{"name":"b","name"`, 1), "configuration document"},
		{entry(`"dir":"..","format":"exit","timeout_s":600`), "test[0].dir"},
		{entry(`"dir":"","format":"exit","timeout_s":600`), "test[0].dir"},
		{entry(`"dir":".","format":"","timeout_s":600`), "test[0].format"},
		{entry(`"dir":".","format":"junit","timeout_s":600`), "test[0].report"},
		{entry(`"dir":".","format":"exit","timeout_s":0`), "test[0].timeout"},
		{entry(`"dir":".","format":"exit","timeout_s":6,"env":["B=","A="]`), "test[0].env: A: not sorted"},
		{entry(`"dir":".","format":"exit","timeout_s":6,"env":["A"]`), "is not NAME=value"},
		{entry(`"dir":".","format":"exit","timeout_s":6,"paths":["a","/"]`), "test[0].paths[1]"},
	} {
		c, err := ParseConfigDocument([]byte(test.doc))
		if err == nil || !strings.Contains(err.Error(), test.want) || !reflect.DeepEqual(c, Config{}) {
			t.Errorf("%s:\ngot %v\nwant %s", test.doc, err, test.want)
		}
	}
	if doc, err := (Config{}).Document(); err == nil || doc != nil {
		t.Errorf("the zero Config has document %s", doc)
	}
}

// TestModuleHosts: a host is one host to the go command, and nothing else.
func TestModuleHosts(t *testing.T) {
	t.Parallel()
	label := strings.Repeat("x", 63)
	config := func(hosts ...string) error {
		c := DefaultConfig()
		c.Prepare.VCS = hosts
		_, err := c.Document()
		return err
	}
	for _, host := range []string{
		"git.example.com", "a.b", "1.2.3.4", "xn--bcher-kva.example", label + "." + label, "a--b.c-d.e",
	} {
		if err := config(host); err != nil {
			t.Errorf("%q: %v", host, err)
		}
	}
	for _, host := range []string{
		"", ".", "a", "*", "*.*", "*.example.com", "git.example.?om", "[a-z].example.com", "public", "private", "all", "off", "localhost",
		"Git.example.com", "git.example.com:443", "git.example.com:git", "git.example.com/org", "git.example.com/*", "https://git.example.com",
		"user@git.example.com", "a.b,c.d", "a.b:all,*", "a.b|c.d", "a.b ", " a.b", "a .b", "a.b\n", "a.b\x00", "a\\.b", ".a.b", "a.b.", "a..b",
		"-a.b", "a-.b", "a.-b", "a.b-", "bücher.example", "a_b.c", "::1", "[::1]", label + "x.b", strings.Repeat("a.", 127) + "a",
	} {
		if err := config(host); err == nil || !strings.Contains(err.Error(), "prepare.vcs[0]: ") {
			t.Errorf("%q: %v", host, err)
		}
	}
	many := make([]string, maxList+1)
	for i := range many {
		many[i] = fmt.Sprintf("h%02d.example.com", i)
	}
	if err := config(many[1:]...); err != nil {
		t.Error(err)
	}
	if err := config(many...); err == nil || !strings.Contains(err.Error(), "prepare.vcs: more than 64 hosts") {
		t.Error(err)
	}
	if err := config("b.org", "a.org"); err == nil || !strings.Contains(err.Error(), "prepare.vcs[1]: a.org: not sorted") {
		t.Error(err)
	}
}

func TestMatchPath(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ glob, yes, no string }{
		{"a.go", "a.go", "b/a.go a.goo aa.go A.go"},
		{"*.go", "a.go .go x.y.go", "a/b.go a.goo"},
		{"a?c", "abc aéc", "ac a/c abbc"},
		{"**/*.go", "a.go a/b.go a/b/c.go", "a.txt a.go/b"},
		{"a/**", "a a/b a/b/c", "ab b/a"},
		{"a/**/z", "a/z a/b/z a/b/c/z a/z/z", "az a/b b/a/z"},
		{"**", "a a/b/c", ""},
		{"**/b/**/d", "b/d a/b/c/d a/b/x/b/y/d", "b a/d d/b"},
		{"a*b*c", "abc axxbyyc abcbc", "abd ac ab/c"},
		{"*", "a .git", "a/b"},
		{"*/**/*", "a/b a/b/c", "a"},
	} {
		for _, path := range strings.Fields(test.yes) {
			if !MatchPath([]string{"none", test.glob}, []string{"other", path}) {
				t.Errorf("%s does not match %s", test.glob, path)
			}
		}
		for _, path := range strings.Fields(test.no) {
			if MatchPath([]string{test.glob}, []string{path}) {
				t.Errorf("%s matches %s", test.glob, path)
			}
		}
		if err := checkGlob(test.glob); err != nil {
			t.Errorf("%s: %v", test.glob, err)
		}
	}
	if MatchPath(nil, []string{"a"}) || MatchPath([]string{"**"}, nil) {
		t.Error("nothing matches")
	}
	if !MatchPath([]string{"a?c"}, []string{"a\xffc"}) {
		t.Error("? does not match a byte that is not UTF-8")
	}
	// These would take for ever if every star were tried with every length.
	stars := strings.Repeat("*a", 40) + "b"
	if MatchPath([]string{stars}, []string{strings.Repeat("a", 4000)}) {
		t.Error("stars match")
	}
	deep := strings.Repeat("**/a/", 40) + "b"
	if MatchPath([]string{deep}, []string{strings.Repeat("a/", 2000) + "a"}) {
		t.Error("double stars match")
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(fullConfig))
	f.Add([]byte(`receipts: [{name: a, adapter: acta, keys: ["d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"], max-age: 24h, chain: true}]`))
	f.Add([]byte("test: [{name: a, run: [x], paths: ['**']}]\n"))
	f.Add([]byte("a: &b\n  - !!str |\n    x\n  - *b\n"))
	f.Add([]byte("? {a: b}\n: 'c'\n---\n..."))
	f.Add([]byte(`{"v":1,"prepare":{"network":true},"isolation":{"level":3},"limits":{},` + defaultTail + `}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := ParseConfigDocument(data); err == nil {
			doc, err := c.Document()
			if err != nil || string(doc) != string(data) {
				t.Errorf("document %q, encoded again %q, %v", data, doc, err)
			}
		}
		c, err := ParseConfig(data)
		if err != nil {
			if !reflect.DeepEqual(c, Config{}) || !strings.HasPrefix(err.Error(), ConfigFile+":") {
				t.Errorf("%+v, %v", c, err)
			}
			return
		}
		doc, err := c.Document()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseConfigDocument(doc)
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("%s: parsed again: %+v, %v", doc, again, err)
		}
	})
}

// FuzzMatchPath compares MatchPath with a matcher that tries everything.
func FuzzMatchPath(f *testing.F) {
	f.Add("**/*.go", "a/b.go")
	f.Add("a?*/**/b", "aé/x/b")
	f.Fuzz(func(t *testing.T, glob, path string) {
		if checkGlob(glob) != nil || len(glob) > 24 || len(path) > 24 {
			return
		}
		want := tryAll(strings.Split(glob, "/"), strings.Split(path, "/"))
		if got := MatchPath([]string{glob}, []string{path}); got != want {
			t.Errorf("%q and %q: %v, want %v", glob, path, got, want)
		}
	})
}

func tryAll(pattern, path []string) bool {
	switch {
	case len(pattern) == 0:
		return len(path) == 0
	case pattern[0] == "**":
		return tryAll(pattern[1:], path) || len(path) > 0 && tryAll(pattern, path[1:])
	}
	return len(path) > 0 && tryAllRunes([]rune(pattern[0]), []rune(path[0])) && tryAll(pattern[1:], path[1:])
}

func tryAllRunes(pattern, name []rune) bool {
	switch {
	case len(pattern) == 0:
		return len(name) == 0
	case pattern[0] == '*':
		return tryAllRunes(pattern[1:], name) || len(name) > 0 && tryAllRunes(pattern, name[1:])
	case len(name) == 0:
		return false
	}
	return (pattern[0] == '?' || pattern[0] == name[0]) && tryAllRunes(pattern[1:], name[1:])
}
