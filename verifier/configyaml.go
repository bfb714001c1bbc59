package verifier

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

const (
	maxYAML      = 64 << 10
	maxYAMLDepth = 16
)

// ParseConfig reads a .truegreen.yaml:
//
//	test:
//	  - name: unit               # [a-z0-9][a-z0-9-]{0,31}, unique
//	    run: [go, test, ./...]   # the arguments, without a shell
//	    dir: sub/dir             # default: the root of the tree
//	    format: go               # go, junit, tap, ctrf or exit; default: go for go test,
//	                             # else exit
//	    report: report.xml       # junit, ctrf: a file name below $TRUEGREEN_OUT; default:
//	                             # report.xml, for ctrf report.json
//	    coverage: lcov.info      # junit, tap, ctrf: likewise, executed lines as
//	                             # Cobertura XML or LCOV
//	    timeout: 10m             # at most 6h
//	    env: {NAME: value}
//	    paths: ["**/*.go"]       # run only if a changed path matches
//	    connect: [127.0.0.1:5432] # ports of the host's loopback that are in reach
//	    network: none            # or host, with isolation.level 1 at most
//	prepare:
//	  run: [[go, mod, download]] # instead of the fetchers that are detected
//	  secrets: [NAME]            # variables that the go command sees when it
//	                             # downloads modules, and nothing else
//	  vcs: [git.example.com]     # hosts whose modules the go command fetches with
//	                             # git, over https, not from a proxy
//	  network: true
//	isolation:
//	  level: 3                   # the least level that is accepted, 0 to 4
//	  image: NAME                # with level 2 or less: what a container is made of
//	                             # where the host has no stronger walls
//	limits: {pids: 512, memory: 4GiB, cpu: "1.5", disk: 4GiB, output: 64MiB}
//	evidence:
//	  level: L1                  # what the run tries to prove, L0 to L4; default: L1,
//	                             # and L2 where the plain runs of base and head take
//	                             # no more than a tenth of the budget
//	  reruns: 5                  # of fail-to-pass tests on each side, and of failures
//	  mutants: 40                # at most so many
//	  budget: 20m                # of all test runs together
//	  tests: ["spec/**"]         # more files that belong to the tests
//	  unstable: ["TestFlaky*"]   # tests that may fail and pass
//	integrity:                   # fail, warn or ignore
//	  removed: fail              # see [IntegrityConfig] for all keys
//	shallow: refuse              # or empty: in a clone that ends before the base,
//	                             # compare with the empty tree
//	receipts:                    # of other tools, which each run has to be given
//	  - name: agent              # see [ReceiptEntry] for all keys
//	    adapter: pipelock
//	    keys: ["d75a…511a"]
//	gate:                        # see [ParseGate]: checked here, and no part of the
//	                             # configuration
//
// Every key is optional but name and run, and name, adapter and keys of a receipt. Of YAML, only what two readers cannot
// understand differently is accepted: one document in UTF-8 of at most 64 KiB
// and 16 levels, no directives, anchors, aliases, merge keys or tags, no key
// twice, integers in plain decimal, true and false. Where a string is asked for,
// what YAML reads as something else must be quoted.
func ParseConfig(file []byte) (Config, error) {
	c, err := parseConfig(file)
	if err != nil {
		return Config{}, err
	}
	return c, nil
}

func parseConfig(file []byte) (Config, error) {
	root, err := parseYAML(ConfigFile, file)
	if err != nil {
		return Config{}, err
	}
	d := configDecoder{lines: make(map[string]int)}
	c := DefaultConfig()
	if root != nil {
		d.config(yamlValue{root, ""}, &c)
	}
	err = d.err
	if err == nil {
		err = c.check()
	}
	var field *fieldError
	if errors.As(err, &field) {
		return Config{}, fmt.Errorf("%s:%d: %w", ConfigFile, d.line(field.field), err)
	}
	return c, err
}

// parseYAML returns the root of the only document of a file, nil if there is none.
func parseYAML(name string, file []byte) (*yaml.Node, error) {
	fail := func(line int, why string) (*yaml.Node, error) {
		return nil, fmt.Errorf("%s:%d: %s", name, line, why)
	}
	if len(file) > maxYAML {
		return fail(1, fmt.Sprintf("%d bytes: the limit is %d", len(file), maxYAML))
	}
	for i, line := range bytes.Split(file, []byte("\n")) {
		switch {
		case !utf8.Valid(line) || bytes.HasPrefix(line, []byte("\ufeff")) || bytes.IndexByte(line, 0) >= 0:
			return fail(i+1, "not UTF-8 without a byte order mark")
		case bytes.HasPrefix(line, []byte("%")):
			return fail(i+1, "directives are not supported")
		}
	}
	var documents []yaml.Node
	if err := yaml.Load(file, &documents, yaml.WithAllDocuments()); err != nil {
		var load *yaml.LoadError
		if errors.As(err, &load) {
			return fail(max(load.Mark.Line, 1), load.Message)
		}
		return fail(1, err.Error())
	}
	if len(documents) == 0 {
		return nil, nil
	}
	if len(documents) > 1 {
		return fail(documents[1].Line, "a second document")
	}
	root := &documents[0]
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	if err := checkYAML(root, 1); err != nil {
		return nil, fmt.Errorf("%s:%w", name, err)
	}
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" && root.Value == "" {
		return nil, nil // comments only
	}
	return root, nil
}

// checkYAML refuses everything in which YAML readers differ.
func checkYAML(n *yaml.Node, depth int) error {
	switch {
	case depth > maxYAMLDepth:
		return fmt.Errorf("%d: more than %d levels", n.Line, maxYAMLDepth)
	case n.Anchor != "" || n.Kind == yaml.AliasNode:
		return fmt.Errorf("%d: anchors and aliases are not supported", n.Line)
	case n.Style&yaml.TaggedStyle != 0:
		return fmt.Errorf("%d: tags are not supported", n.Line)
	}
	switch n.Kind {
	case yaml.ScalarNode:
		if n.ShortTag() == "!!int" && !isDecimal(n.Value) {
			return fmt.Errorf("%d: %s: integers are plain decimal; quote it if it is text", n.Line, n.Value)
		}
	case yaml.SequenceNode, yaml.MappingNode:
	default:
		return fmt.Errorf("%d: not a value", n.Line)
	}
	if n.Kind == yaml.MappingNode {
		seen := make(map[string]bool)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			switch {
			case key.ShortTag() == "!!merge":
				return fmt.Errorf("%d: merge keys are not supported", key.Line)
			case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
				return fmt.Errorf("%d: a key that is not a string", key.Line)
			case seen[key.Value]:
				return fmt.Errorf("%d: %s: there twice", key.Line, key.Value)
			}
			seen[key.Value] = true
		}
	}
	for _, child := range n.Content {
		if err := checkYAML(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// isDecimal reports whether s is an integer in its shortest decimal form.
func isDecimal(s string) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	return err == nil && strconv.FormatInt(n, 10) == s
}

// A yamlValue is a node and the name of its field.
type yamlValue struct {
	node  *yaml.Node
	field string
}

// configDecoder fills a Config. It keeps the first error, and the line of every
// field for errors that are found later.
type configDecoder struct {
	lines map[string]int
	err   error
}

// line returns the line of a field, or that of the nearest one around it.
func (d *configDecoder) line(field string) int {
	for {
		if line, ok := d.lines[field]; ok {
			return line
		}
		i := strings.LastIndexAny(field, ".[")
		if i < 0 {
			return max(d.lines[""], 1)
		}
		field = field[:i]
	}
}

func (d *configDecoder) fail(v yamlValue, format string, args ...any) {
	if d.err == nil {
		d.lines[v.field] = v.node.Line
		d.err = fieldErrorf(v.field, format, args...)
	}
}

func (d *configDecoder) config(v yamlValue, c *Config) {
	d.mapping(v, map[string]func(yamlValue){
		"test": func(v yamlValue) {
			for _, item := range d.list(v) {
				c.Test = append(c.Test, d.entry(item))
			}
		},
		"prepare": func(v yamlValue) {
			d.mapping(v, map[string]func(yamlValue){
				"run": func(v yamlValue) {
					for _, item := range d.list(v) {
						c.Prepare.Run = append(c.Prepare.Run, d.strings(item))
					}
				},
				"secrets": func(v yamlValue) {
					c.Prepare.Secrets = d.strings(v)
					slices.Sort(c.Prepare.Secrets)
				},
				"vcs": func(v yamlValue) {
					c.Prepare.VCS = d.strings(v)
					slices.Sort(c.Prepare.VCS)
				},
				"network": func(v yamlValue) { c.Prepare.Network = d.bool(v) },
			})
		},
		"isolation": func(v yamlValue) {
			d.mapping(v, map[string]func(yamlValue){
				"level": func(v yamlValue) { c.Isolation.Level = int(d.integer(v)) },
				"image": func(v yamlValue) {
					if c.Isolation.Image = d.string(v); c.Isolation.Image == "" {
						d.fail(v, "empty: leave it out")
					}
				},
			})
		},
		"limits": func(v yamlValue) {
			d.mapping(v, map[string]func(yamlValue){
				"pids":   func(v yamlValue) { c.Limits.Pids = d.positive(v, d.integer(v)) },
				"memory": func(v yamlValue) { c.Limits.Memory = d.positive(v, d.size(v)) },
				"cpu":    func(v yamlValue) { c.Limits.CPU = d.positive(v, d.processors(v)) },
				"disk":   func(v yamlValue) { c.Limits.Disk = d.positive(v, d.size(v)) },
				"output": func(v yamlValue) { c.Limits.Output = d.positive(v, d.size(v)) },
			})
		},
		"evidence": func(v yamlValue) {
			e := &c.Evidence
			d.mapping(v, map[string]func(yamlValue){
				"level":    func(v yamlValue) { e.Level, e.Auto = d.level(v), false },
				"reruns":   func(v yamlValue) { e.Reruns = int(d.integer(v)) },
				"mutants":  func(v yamlValue) { e.Mutants = int(d.integer(v)) },
				"budget":   func(v yamlValue) { e.Budget = d.seconds(v) },
				"tests":    func(v yamlValue) { e.Tests = d.strings(v) },
				"unstable": func(v yamlValue) { e.Unstable = d.strings(v) },
			})
		},
		"integrity": func(v yamlValue) {
			keys := map[string]func(yamlValue){}
			for name, field := range c.Integrity.fields() {
				keys[name] = func(v yamlValue) { *field = d.string(v) }
			}
			d.mapping(v, keys)
		},
		"gate": func(v yamlValue) { d.gate(v, new(GatePolicy)) },
		"receipts": func(v yamlValue) {
			for _, item := range d.list(v) {
				c.Receipts = append(c.Receipts, d.receipt(item))
			}
		},
		"shallow": func(v yamlValue) {
			if c.Shallow = d.string(v); c.Shallow == "refuse" {
				c.Shallow = ShallowRefuse
			}
		},
	})
}

func (d *configDecoder) entry(v yamlValue) TestEntry {
	e := TestEntry{Dir: ".", Timeout: DefaultTimeout}
	d.mapping(v, map[string]func(yamlValue){
		"name":   func(v yamlValue) { e.Name = d.string(v) },
		"run":    func(v yamlValue) { e.Run = d.strings(v) },
		"dir":    func(v yamlValue) { e.Dir = d.string(v) },
		"format": func(v yamlValue) { e.Format = d.string(v) },
		"report": func(v yamlValue) { e.Report = d.string(v) },
		"coverage": func(v yamlValue) {
			if e.Coverage = d.string(v); e.Coverage == "" {
				d.fail(v, "empty: leave it out")
			}
		},
		"timeout": func(v yamlValue) { e.Timeout = d.seconds(v) },
		"env":     func(v yamlValue) { e.Env = d.env(v) },
		"paths":   func(v yamlValue) { e.Paths = d.strings(v) },
		"connect": func(v yamlValue) {
			e.Connect = d.strings(v)
			slices.Sort(e.Connect)
		},
		"network": func(v yamlValue) {
			switch e.Network = d.string(v); e.Network {
			case NetworkNone:
				e.Network = ""
			case "":
				d.fail(v, "%q is not none or host", "")
			}
		},
	})
	if e.Format == "" {
		e.Format = DefaultFormat(e.Run)
	}
	switch {
	case e.Report != "":
	case e.Format == FormatJUnit:
		e.Report = defaultReport
	case e.Format == FormatCTRF:
		e.Report = defaultReportCTRF
	}
	return e
}

func (d *configDecoder) receipt(v yamlValue) (e ReceiptEntry) {
	text := func(to *string) func(yamlValue) {
		return func(v yamlValue) {
			if *to = d.string(v); *to == "" {
				d.fail(v, "empty: leave it out")
			}
		}
	}
	list := func(to *[]string) func(yamlValue) { return func(v yamlValue) { *to = d.strings(v) } }
	flag := func(to *bool) func(yamlValue) { return func(v yamlValue) { *to = d.bool(v) } }
	d.mapping(v, map[string]func(yamlValue){
		"name": text(&e.Name), "adapter": text(&e.Adapter), "keys": list(&e.Keys),
		"tool": text(&e.Tool), "arg-hash": text(&e.ArgHash), "target": text(&e.Target),
		"allowed": flag(&e.Allowed), "chain": flag(&e.Chain), "allow-prefix": flag(&e.Prefix),
		"alg": list(&e.Algorithms), "issuer": text(&e.Issuer), "audience": text(&e.Audience), "allow-no-expiry": flag(&e.NoExpiry),
		"type":      list(&e.Types),
		"threshold": func(v yamlValue) { e.Threshold = int(d.positive(v, d.integer(v))) },
		"max-age": func(v yamlValue) {
			t, err := time.ParseDuration(d.string(v))
			if err != nil || t%time.Second != 0 || t < time.Second || t > maxUpstreamAge*time.Second {
				d.fail(v, "not a duration of whole seconds, such as 24h, from 1s to 8784h")
				return
			}
			e.MaxAge = int(t / time.Second)
		},
	})
	return e
}

// DefaultFormat returns the format of a test command that names none.
func DefaultFormat(argv []string) string {
	if len(argv) >= 2 && argv[0] == "go" && argv[1] == "test" {
		return FormatGo
	}
	return FormatExit
}

// mapping calls the function of each key with its value, in the order of the
// file.
func (d *configDecoder) mapping(v yamlValue, keys map[string]func(yamlValue)) {
	if v.node.Kind != yaml.MappingNode {
		d.fail(v, "not a mapping")
		return
	}
	d.lines[v.field] = v.node.Line
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.node.Content[i]
		child := yamlValue{v.node.Content[i+1], key.Value}
		if v.field != "" {
			child.field = v.field + "." + key.Value
		}
		d.lines[child.field] = child.node.Line
		if decode := keys[key.Value]; decode != nil {
			decode(child)
			continue
		}
		d.fail(yamlValue{key, child.field}, "unknown key; the nearest known one is %q", nearest(key.Value, keys))
	}
}

// list returns the items of a list that is not empty.
func (d *configDecoder) list(v yamlValue) []yamlValue {
	if v.node.Kind != yaml.SequenceNode || len(v.node.Content) == 0 {
		d.fail(v, "not a list with at least one item")
		return nil
	}
	items := make([]yamlValue, len(v.node.Content))
	for i, child := range v.node.Content {
		items[i] = yamlValue{child, fmt.Sprintf("%s[%d]", v.field, i)}
		d.lines[items[i].field] = child.Line
	}
	return items
}

func (d *configDecoder) strings(v yamlValue) []string {
	var list []string
	for _, item := range d.list(v) {
		list = append(list, d.string(item))
	}
	return list
}

func (d *configDecoder) string(v yamlValue) string {
	switch {
	case v.node.Kind != yaml.ScalarNode:
		d.fail(v, "not a string")
	case v.node.ShortTag() != "!!str":
		d.fail(v, "not a string; quote it: %q", v.node.Value)
	}
	return v.node.Value
}

func (d *configDecoder) bool(v yamlValue) bool {
	if v.node.Kind != yaml.ScalarNode || v.node.Style != 0 || v.node.Value != "true" && v.node.Value != "false" {
		d.fail(v, "not true or false")
	}
	return v.node.Value == "true"
}

// level reads a level of evidence, L0 to L4.
func (d *configDecoder) level(v yamlValue) int {
	text := d.string(v)
	if len(text) != 2 || text[0] != 'L' || text[1] < '0' || text[1] > '0'+LevelMutants {
		d.fail(v, "%q is not one of L0 to L4", text)
		return 0
	}
	return int(text[1] - '0')
}

func (d *configDecoder) integer(v yamlValue) int64 {
	n, err := strconv.ParseInt(v.node.Value, 10, 32)
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!int" || err != nil {
		d.fail(v, "not an integer")
	}
	return n
}

// positive refuses what is given as zero, because zero stands for the default.
func (d *configDecoder) positive(v yamlValue, n int64) int64 {
	if n < 1 {
		d.fail(v, "not above 0")
	}
	return n
}

// size reads a number of bytes: an integer, or a string with a unit.
func (d *configDecoder) size(v yamlValue) int64 {
	text, shift := v.node.Value, 0
	if v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!str" {
		for _, unit := range []struct {
			name  string
			shift int
		}{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"B", 0}} {
			if number, ok := strings.CutSuffix(text, unit.name); ok {
				text, shift = number, unit.shift
				break
			}
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if v.node.Kind != yaml.ScalarNode || err != nil || !isDecimal(text) || n < 0 || n > math.MaxInt64>>shift {
		d.fail(v, "not a size, such as 512MiB or 4GiB")
		return 0
	}
	return n << shift
}

// processors reads a number of processors, in thousandths: an integer, or a
// string with at most three decimals.
func (d *configDecoder) processors(v yamlValue) int64 {
	tag := v.node.ShortTag()
	whole, decimals, point := strings.Cut(v.node.Value, ".")
	valid := tag == "!!int" || tag == "!!str"
	if point {
		valid = tag == "!!str" && len(decimals) >= 1 && len(decimals) <= 3 && strings.Trim(decimals, "0123456789") == ""
	}
	n, err := strconv.ParseInt(whole, 10, 32)
	if v.node.Kind != yaml.ScalarNode || !valid || err != nil || !isDecimal(whole) || n < 0 {
		d.fail(v, "not a number of processors, such as 2 or \"1.5\" in quotes")
		return 0
	}
	milli, _ := strconv.ParseInt((decimals + "000")[:3], 10, 64) // digits alone
	return n*1000 + milli
}

func (d *configDecoder) seconds(v yamlValue) int {
	t, err := time.ParseDuration(v.node.Value)
	switch {
	case v.node.Kind != yaml.ScalarNode || err != nil:
		d.fail(v, "not a duration, such as 90s or 10m")
	case t%time.Second != 0:
		d.fail(v, "not a number of whole seconds")
	case t < time.Second || t > maxTimeout*time.Second:
		d.fail(v, "not between 1s and 6h")
	}
	return int(t / time.Second)
}

func (d *configDecoder) env(v yamlValue) []string {
	if v.node.Kind != yaml.MappingNode {
		d.fail(v, "not a mapping of names to values")
		return nil
	}
	var env []string
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		name := v.node.Content[i].Value
		value := yamlValue{v.node.Content[i+1], v.field + "." + name}
		if err := checkVariable(name); err != nil {
			d.fail(yamlValue{v.node.Content[i], v.field}, "%v", err)
		}
		env = append(env, name+"="+d.string(value))
	}
	// By name: that of one may be the start of another's.
	slices.SortFunc(env, func(a, b string) int {
		nameA, _, _ := strings.Cut(a, "=")
		nameB, _, _ := strings.Cut(b, "=")
		return strings.Compare(nameA, nameB)
	})
	return env
}

// nearest returns the key that takes the fewest edits to become from given.
func nearest(given string, keys map[string]func(yamlValue)) string {
	best, distance := "", math.MaxInt
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if n := edits(given, key); n < distance {
			best, distance = key, n
		}
	}
	return best
}

// edits returns the least number of single-byte insertions, deletions and
// replacements that turn a into b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
