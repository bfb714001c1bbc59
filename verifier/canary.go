package verifier

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier/source"
)

// A canary is a test that truegreen lays over a package with the go command's
// -overlay, so that no file of the tree is touched. One passes and must be seen to
// pass, in the run itself; another one fails and must turn a run red. Code that
// prints results in place of the tests', ends the process early, or chooses what
// is run, does not know their names: they follow from 32 random bytes of the plan,
// which no tested code sees. Code that looks for them, in its own binary or in the
// folder of the overlay, can find them. They raise the price of a lie.

// overlayFile is the name of the go command's description of an overlay.
const overlayFile = "overlay.json"

// canaryName returns the name of a canary of a package. The failing ones all have
// the same, of no package.
func canaryName(secret receipts.Digest, kind, pkg string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "truegreen/v1 canary\x00%s\x00%s\x00%s", secret, kind, pkg))
	return "Test" + strings.ToUpper(hex.EncodeToString(sum[:1])) + hex.EncodeToString(sum[1:9])
}

const (
	canaryPass = "pass"
	canaryFail = "fail"
)

// canaryFile returns a test file with the canaries of a package.
func canaryFile(secret receipts.Digest, p *source.GoPackage, failing bool) []byte {
	var b strings.Builder
	// The package may have something of its own called testing.
	alias := "t" + strings.ToLower(canaryName(secret, "import", p.ImportPath))
	fmt.Fprintf(&b, "package %s\n\nimport %s \"testing\"\n\nfunc %s(*%s.T) {}\n", p.Name, alias, canaryName(secret, canaryPass, p.ImportPath), alias)
	if failing {
		fmt.Fprintf(&b, "\nfunc %s(t *%s.T) { t.Error(\"this test has to fail\") }\n", canaryName(secret, canaryFail, ""), alias)
	}
	return []byte(b.String())
}

// An overlay lays files over a tree.
type overlay struct {
	dir     string            // that the go command is run in
	replace map[string]string // path in the tree to a name in [OverlayDir], "" to take it away
	inputs  []Input
}

func newOverlay(dir string) *overlay { return &overlay{dir: dir, replace: map[string]string{}} }

// add lays content over a path of the tree.
func (o *overlay) add(p string, content []byte) {
	name := fmt.Sprintf("%d%s", len(o.inputs)+1, path.Ext(p))
	o.replace[p] = name
	o.inputs = append(o.inputs, newInput(OverlayDir+"/"+name, content))
}

// remove takes a file away.
func (o *overlay) remove(p string) { o.replace[p] = "" }

// files returns the files of the overlay, the description first.
func (o *overlay) files() []Input {
	up := fromDir(o.dir)
	replace := map[string]string{}
	for p, name := range o.replace {
		if name != "" {
			name = up + OverlayDir + "/" + name
		}
		replace[strings.TrimPrefix(up+"/"+p, "../")] = name
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil { // strings alone
		return nil
	}
	return append([]Input{newInput(OverlayDir+"/"+overlayFile, text)}, o.inputs...)
}

func newInput(name string, content []byte) Input {
	return Input{Name: name, Content: content, Digest: receipts.Sum(content), Size: int64(len(content))}
}

// addCanary lays the canaries of a package over it.
func (o *overlay) addCanary(secret receipts.Digest, p *source.GoPackage, failing bool) {
	o.add(path.Join(p.Dir, strings.ToLower(canaryName(secret, "file", p.ImportPath))+"_test.go"), canaryFile(secret, p, failing))
}

// controls reports whether the plain command of an entry runs with canaries on the
// tree of a side.
func (t *Trees) controls(e *TestEntry, side string) bool {
	c := parseGoTest(e)
	return c != nil && len(c.filters) == 0 && len(t.covered(e, c, side)) > 0
}

// covered returns the packages with tests that a command of the entry can come to:
// those of the module that its folder belongs to.
func (t *Trees) covered(e *TestEntry, c *goCommand, side string) []source.GoPackage {
	if c == nil {
		return nil
	}
	all := t.goPackages(side, c)
	if len(all) > maxCanaries {
		return nil
	}
	var list []source.GoPackage
	for _, p := range all {
		if within(p.Dir, e.Dir) && within(e.Dir, p.Module) {
			list = append(list, p)
		}
	}
	return list
}

// maxCanaries is how many packages can have canaries in one run.
const maxCanaries = 4096

// within reports whether a folder is dir or lies below it.
func within(folder, dir string) bool {
	return dir == "" || dir == "." || folder == dir || strings.HasPrefix(folder, dir+"/")
}
