package verifier

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/truegreen-dev/truegreen/receipts"
)

// ConfigFile is the path of the configuration in a repository.
const ConfigFile = ".truegreen.yaml"

// The formats of what a test command puts out.
const (
	FormatGo    = "go"    // the stream of go test -json on standard output
	FormatJUnit = "junit" // a JUnit XML report in a file
	FormatTAP   = "tap"   // a TAP stream on standard output
	FormatCTRF  = "ctrf"  // a CTRF JSON report in a file
	FormatExit  = "exit"  // nothing but an exit code
)

// Limits of a configuration.
const (
	maxEntries = 64      // test commands
	maxArgs    = 256     // arguments of one command
	maxArg     = 4 << 10 // bytes of one argument, value or glob
	maxList    = 64      // globs, variables, secrets, hosts, prepare commands
	maxTimeout = 6 * 60 * 60
	maxSize    = 1 << 50
	maxConnect = 16 // ports of one test command
	minPids    = 16
	maxPids    = 1 << 22
	maxCPU     = 1024 * 1000 // thousandths of a processor

	maxImage = 256 // bytes

	defaultReport     = "report.xml"
	defaultReportCTRF = "report.json"
	defaultLevel      = 3
	maxLevel          = 4
)

// The networks of a test command.
const (
	NetworkNone = "none" // a loopback interface of its own
	NetworkHost = "host" // the host's, which leaves isolation level 1 at most
)

const maxLevelHost = 1

// DefaultTimeout is that of a test command, in seconds.
const DefaultTimeout = 10 * 60

// What to compare a patch with in a shallow clone that ends before the base.
const (
	ShallowRefuse = ""      // nothing: say what to fetch
	ShallowEmpty  = "empty" // the empty tree
)

// Config is the configuration document. In a repository it is written as YAML;
// see [ParseConfig]. Defaults are filled in, so the document means the same to
// every later version.
type Config struct {
	V         int             `json:"v"`
	Test      []TestEntry     `json:"test,omitempty"` // none: detected
	Prepare   PrepareConfig   `json:"prepare"`
	Isolation IsolationConfig `json:"isolation"`
	Limits    LimitsConfig    `json:"limits"`
	Evidence  EvidenceConfig  `json:"evidence"`
	Integrity IntegrityConfig `json:"integrity"`
	Shallow   string          `json:"shallow,omitempty"` // "" or "empty"
	Receipts  []ReceiptEntry  `json:"receipts,omitempty"`
}

// A TestEntry is one test command.
type TestEntry struct {
	Name   string   `json:"name"`             // [a-z0-9][a-z0-9-]{0,31}, unique
	Run    []string `json:"run"`              // the arguments, without a shell
	Dir    string   `json:"dir"`              // where, relative to the tree's root
	Format string   `json:"format"`           // go, junit, tap, ctrf or exit
	Report string   `json:"report,omitempty"` // junit, ctrf: the report's file name
	// Coverage is, for junit, tap and ctrf, the file name of a report of executed
	// lines, in the form of Cobertura or LCOV.
	Coverage string   `json:"coverage,omitempty"`
	Timeout  int      `json:"timeout_s"`
	Env      []string `json:"env,omitempty"`     // NAME=value, sorted by name
	Paths    []string `json:"paths,omitempty"`   // run only if a changed path matches; see [MatchPath]
	Connect  []string `json:"connect,omitempty"` // loopback addresses and ports of the host that are in reach, sorted
	Network  string   `json:"network,omitempty"` // "" is none; "host", with isolation level 1 at most
}

// PrepareConfig says how dependencies are fetched.
type PrepareConfig struct {
	Run     [][]string `json:"run,omitempty"`     // instead of the detected fetchers
	Secrets []string   `json:"secrets,omitempty"` // environment variables for the go command's downloads only, sorted
	VCS     []string   `json:"vcs,omitempty"`     // hosts whose modules the go command fetches with git, sorted
	Network bool       `json:"network"`
}

// IsolationConfig says how much isolation is asked for.
type IsolationConfig struct {
	Level int    `json:"level"`           // the least that is accepted, 0 to 4
	Image string `json:"image,omitempty"` // what a container is made of, where level is 2 or less and the host has no stronger walls
}

// LimitsConfig bounds each command. Zero is the sandbox's default.
type LimitsConfig struct {
	Pids   int64 `json:"pids,omitempty"`
	Memory int64 `json:"memory_bytes,omitempty"`
	CPU    int64 `json:"cpu_milli,omitempty"` // thousandths of a processor, all processes together
	Disk   int64 `json:"disk_bytes,omitempty"`
	Output int64 `json:"output_bytes,omitempty"` // of each stream
}

// DefaultConfig returns the configuration of a repository that has none.
func DefaultConfig() Config {
	return Config{
		V:         receipts.DocumentVersion,
		Prepare:   PrepareConfig{Network: true},
		Isolation: IsolationConfig{Level: defaultLevel},
		Evidence:  defaultEvidence,
		Integrity: defaultIntegrity,
	}
}

// Document returns the canonical encoding of c.
func (c Config) Document() ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return receipts.Encode(&c)
}

// ParseConfigDocument reads what [Config.Document] wrote.
func ParseConfigDocument(doc []byte) (Config, error) {
	var c Config
	if err := receipts.Decode(doc, &c); err != nil {
		return Config{}, fmt.Errorf("configuration %w", err)
	}
	if err := c.check(); err != nil {
		return Config{}, fmt.Errorf("configuration document: %w", err)
	}
	return c, nil
}

// fieldError is an error about one field, such as test[0].timeout.
type fieldError struct{ field, why string }

func (e *fieldError) Error() string {
	if e.field == "" {
		return e.why
	}
	// Both may quote the file.
	return cut(e.field, 256) + ": " + cut(e.why, 512)
}

func fieldErrorf(field, format string, args ...any) error {
	return &fieldError{field, fmt.Sprintf(format, args...)}
}

// check reports the first field of c that is not as documented.
func (c *Config) check() error {
	if c.V != receipts.DocumentVersion {
		return fieldErrorf("v", "version %d is unknown", c.V)
	}
	if len(c.Test) > maxEntries {
		return fieldErrorf("test", "more than %d entries", maxEntries)
	}
	names := make(map[string]bool)
	for i := range c.Test {
		at := fmt.Sprintf("test[%d]", i)
		if err := c.Test[i].check(at); err != nil {
			return err
		}
		if names[c.Test[i].Name] {
			return fieldErrorf(at+".name", "another entry is named %q", c.Test[i].Name)
		}
		names[c.Test[i].Name] = true
		if c.Test[i].Network == NetworkHost && c.Isolation.Level > maxLevelHost {
			return fieldErrorf(at+".network", "with the host's network a test has isolation level %d at most, and isolation.level asks for %d", maxLevelHost, c.Isolation.Level)
		}
	}
	if err := c.Prepare.check(); err != nil {
		return err
	}
	if err := c.Evidence.check(); err != nil {
		return err
	}
	if err := c.Integrity.check(); err != nil {
		return err
	}
	if err := checkReceipts(c.Receipts); err != nil {
		return err
	}
	if c.Shallow != ShallowRefuse && c.Shallow != ShallowEmpty {
		return fieldErrorf("shallow", "%q is not refuse or empty", c.Shallow)
	}
	if c.Limits.Pids != 0 && c.Limits.Pids < minPids {
		return fieldErrorf("limits.pids", "%d is below %d, with which no command starts", c.Limits.Pids, minPids)
	}
	if cpu := c.Limits.CPU; cpu < 0 || cpu > maxCPU {
		return fieldErrorf("limits.cpu", "%d thousandths of a processor are not 1 to %d", cpu, maxCPU)
	}
	if c.Isolation.Level < 0 || c.Isolation.Level > maxLevel {
		return fieldErrorf("isolation.level", "%d is not one of 0 to %d", c.Isolation.Level, maxLevel)
	}
	if image := c.Isolation.Image; len(image) > maxImage || strings.HasPrefix(image, "-") ||
		strings.ContainsFunc(image, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fieldErrorf("isolation.image", "%q is not the name of an image: at most %d bytes of printable ASCII without spaces, and no - at the start", image, maxImage)
	}
	for _, l := range []struct {
		field     string
		value, to int64
	}{
		{"pids", c.Limits.Pids, maxPids},
		{"memory", c.Limits.Memory, maxSize},
		{"disk", c.Limits.Disk, maxSize},
		{"output", c.Limits.Output, maxSize},
	} {
		if l.value < 0 || l.value > l.to {
			return fieldErrorf("limits."+l.field, "%d is not one of 1 to %d", l.value, l.to)
		}
	}
	return nil
}

func (e *TestEntry) check(at string) error {
	if !isEntryName(e.Name) {
		return fieldErrorf(at+".name", "%q is not 1 to 32 of a-z, 0-9 and -, beginning with a letter or digit", e.Name)
	}
	if err := checkCommand(at+".run", e.Run); err != nil {
		return err
	}
	if err := checkDir(e.Dir); err != nil {
		return fieldErrorf(at+".dir", "%q %v", e.Dir, err)
	}
	switch e.Format {
	case FormatJUnit, FormatCTRF:
		if !isFileName(e.Report) {
			return fieldErrorf(at+".report", "%q is not a file name of letters, digits and . _ -", e.Report)
		}
	case FormatGo, FormatTAP, FormatExit:
		if e.Report != "" {
			return fieldErrorf(at+".report", "only formats junit and ctrf have one")
		}
	default:
		return fieldErrorf(at+".format", "%q is not go, junit, tap, ctrf or exit", e.Format)
	}
	switch {
	case e.Coverage == "":
	case e.Format != FormatJUnit && e.Format != FormatTAP && e.Format != FormatCTRF:
		return fieldErrorf(at+".coverage", "only formats junit, tap and ctrf have one")
	case !isFileName(e.Coverage):
		return fieldErrorf(at+".coverage", "%q is not a file name of letters, digits and . _ -", e.Coverage)
	case e.Coverage == e.Report:
		return fieldErrorf(at+".coverage", "%q is the report of the tests", e.Coverage)
	}
	if e.Timeout < 1 || e.Timeout > maxTimeout {
		return fieldErrorf(at+".timeout", "not between 1s and 6h")
	}
	if err := checkEnv(at+".env", e.Env); err != nil {
		return err
	}
	if err := checkConnect(at+".connect", e.Connect); err != nil {
		return err
	}
	switch {
	case e.Network != "" && e.Network != NetworkHost:
		return fieldErrorf(at+".network", "%q is not none or host", e.Network)
	case e.Network == NetworkHost && len(e.Connect) > 0:
		return fieldErrorf(at+".connect", "not with network host, which has every port")
	}
	if len(e.Paths) > maxList {
		return fieldErrorf(at+".paths", "more than %d globs", maxList)
	}
	for i, glob := range e.Paths {
		if err := checkGlob(glob); err != nil {
			return fieldErrorf(fmt.Sprintf("%s.paths[%d]", at, i), "%q: %v", glob, err)
		}
	}
	return nil
}

// OnlyDownloads reports whether a command is one that runs nothing of the tree
// that it is run in, and takes no address from there to send a secret to.
func OnlyDownloads(argv []string) bool {
	return len(argv) >= 3 && argv[0] == "go" && argv[1] == "mod" && (argv[2] == "download" || argv[2] == "verify")
}

func (p *PrepareConfig) check() error {
	if len(p.Run) > maxList {
		return fieldErrorf("prepare.run", "more than %d commands", maxList)
	}
	for i, argv := range p.Run {
		if err := checkCommand(fmt.Sprintf("prepare.run[%d]", i), argv); err != nil {
			return err
		}
	}
	for i, argv := range p.Run {
		// What runs code of the patch, or reads where to send a secret from the
		// patch's files, would give the secrets away.
		if len(p.Secrets) > 0 && !OnlyDownloads(argv) {
			return fieldErrorf(fmt.Sprintf("prepare.run[%d]", i), "beside prepare.secrets only go mod download and go mod verify can be run: the patch's own files would see the secrets")
		}
	}
	if len(p.Secrets) > maxList {
		return fieldErrorf("prepare.secrets", "more than %d names", maxList)
	}
	for i, name := range p.Secrets {
		at := fmt.Sprintf("prepare.secrets[%d]", i)
		if err := checkVariable(name); err != nil {
			return fieldErrorf(at, "%v", err)
		}
		if i > 0 && p.Secrets[i-1] >= name {
			return fieldErrorf(at, "%s: not sorted, or there twice", name)
		}
	}
	if len(p.VCS) > maxList {
		return fieldErrorf("prepare.vcs", "more than %d hosts", maxList)
	}
	for i, host := range p.VCS {
		at := fmt.Sprintf("prepare.vcs[%d]", i)
		if !isModuleHost(host) {
			return fieldErrorf(at, "%q is not a host such as git.example.com: small letters, digits, - and at least one dot; no scheme, port, path or glob", host)
		}
		if i > 0 && p.VCS[i-1] >= host {
			return fieldErrorf(at, "%s: not sorted, or there twice", host)
		}
	}
	return nil
}

// isModuleHost reports whether s can be the first element of a module path. Such
// a name is a pattern of the go command that matches itself alone: neither a
// glob, nor a list, nor one of the words that stand for all public modules, or for
// all private ones.
func isModuleHost(s string) bool {
	labels := strings.Split(s, ".")
	if len(s) > 253 || len(labels) < 2 {
		return false
	}
	for _, label := range labels {
		if len(label) < 1 || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if !isLower(c) && !isDigit(c) && c != '-' {
				return false
			}
		}
	}
	return true
}

func checkCommand(at string, argv []string) error {
	if len(argv) == 0 || argv[0] == "" {
		return fieldErrorf(at, "no command")
	}
	if len(argv) > maxArgs {
		return fieldErrorf(at, "more than %d arguments", maxArgs)
	}
	for i, arg := range argv {
		if err := checkText(arg); err != nil {
			return fieldErrorf(fmt.Sprintf("%s[%d]", at, i), "%v", err)
		}
	}
	return nil
}

// checkText refuses what cannot be an argument or a value.
func checkText(s string) error {
	switch {
	case len(s) > maxArg:
		return fmt.Errorf("longer than %d bytes", maxArg)
	case !utf8.ValidString(s):
		return errors.New("not UTF-8")
	case strings.IndexByte(s, 0) >= 0:
		return errors.New("holds a NUL")
	}
	return nil
}

func checkDir(dir string) error {
	switch {
	case checkText(dir) != nil:
		return checkText(dir)
	case path.IsAbs(dir) || path.Clean(dir) != dir || strings.ContainsRune(dir, '\\'):
		return errors.New("is not a clean relative path, such as sub/dir")
	case dir == ".." || strings.HasPrefix(dir, "../"):
		return errors.New("leaves the tree")
	}
	return nil
}

func checkEnv(at string, env []string) error {
	if len(env) > maxList {
		return fieldErrorf(at, "more than %d variables", maxList)
	}
	previous := ""
	for _, kv := range env {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			return fieldErrorf(at, "%q is not NAME=value", kv)
		}
		if err := checkVariable(name); err != nil {
			return fieldErrorf(at, "%v", err)
		}
		if err := checkText(value); err != nil {
			return fieldErrorf(at+"."+name, "%v", err)
		}
		if name <= previous {
			return fieldErrorf(at, "%s: not sorted, or there twice", name)
		}
		previous = name
	}
	return nil
}

// checkConnect refuses what is not a list of loopback addresses with ports, each
// in the one way to write it.
func checkConnect(at string, list []string) error {
	if len(list) > maxConnect {
		return fieldErrorf(at, "more than %d ports", maxConnect)
	}
	for i, s := range list {
		at := fmt.Sprintf("%s[%d]", at, i)
		a, err := netip.ParseAddrPort(s)
		if err != nil || !a.Addr().IsLoopback() || a.Addr().Is4In6() || a.Addr().Zone() != "" || a.Port() == 0 || a.String() != s {
			return fieldErrorf(at, "%q is not a loopback address and a port, such as 127.0.0.1:5432 or [::1]:5432", s)
		}
		if i > 0 && list[i-1] >= s {
			return fieldErrorf(at, "%s: not sorted, or there twice", s)
		}
	}
	return nil
}

// checkVariable refuses names that are none, and those that decide what is
// loaded or where truegreen's own settings go.
func checkVariable(name string) error {
	if !isIdentifier(name) || len(name) > 128 {
		return fmt.Errorf("%q is not the name of a variable", name)
	}
	reserved := []string{
		"PATH", "HOME", "PWD", "TMPDIR", "SHELL", "USER", "LOGNAME", "IFS", "ENV", "BASH_ENV",
		"GOCACHE", "GOENV", "GOFLAGS", "GOMODCACHE", "GOPATH", "GOPROXY", "GOROOT", "GOTOOLCHAIN", "GOVCS",
	}
	for _, prefix := range []string{"LD_", "DYLD_", "GIT_", "TRUEGREEN_"} {
		if strings.HasPrefix(name, prefix) {
			return fmt.Errorf("%s is reserved, as all names with %s are", name, prefix)
		}
	}
	if slices.Contains(reserved, name) {
		return fmt.Errorf("%s is reserved: truegreen sets it", name)
	}
	return nil
}

func isEntryName(s string) bool {
	if len(s) < 1 || len(s) > 32 || s[0] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if !isLower(c) && !isDigit(c) && c != '-' {
			return false
		}
	}
	return true
}

func isFileName(s string) bool {
	if len(s) < 1 || len(s) > 64 || s[0] == '.' || s[0] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if !isLower(c|0x20) && !isDigit(c) && strings.IndexByte("._-", c) < 0 {
			return false
		}
	}
	return true
}

func isIdentifier(s string) bool {
	for i, c := range []byte(s) {
		if !isLower(c|0x20) && c != '_' && (i == 0 || !isDigit(c)) {
			return false
		}
	}
	return s != ""
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
