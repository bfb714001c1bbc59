package runner

import (
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/receipts"
)

func integrity(archive string) string {
	sum := sha512.Sum512([]byte(archive))
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

// servePackage puts a package into a registry and returns its integrity.
func (r *registry) servePackage(t testing.TB, name, version string, files ...string) string {
	archive := tarball(t, files...)
	file := fmt.Sprintf("/%s/-/%s-%s.tgz", name, name, version)
	r.serve(file, archive)
	r.serve("/"+name, fmt.Sprintf(`{"name":%q,"dist-tags":{"latest":%q},"versions":{%q:{"name":%[1]q,"version":%[2]q,"dist":{"tarball":%[4]q,"integrity":%[5]q}}}}`,
		name, version, version, r.URL+file, integrity(archive)))
	return integrity(archive)
}

// An npm project whose test needs a package, with a script that must not run and
// settings in the tree that must not be followed.
func TestNPM(t *testing.T) {
	t.Parallel()
	if _, err := (npm{}).find(nil); err != nil {
		t.Skip(err)
	}
	r, elsewhere := newRegistry(t), newRegistry(t)
	hash := r.servePackage(t, "answer", "1.2.3",
		"package/package.json", `{"name":"answer","version":"1.2.3","bin":"say.js","dependencies":{"inner":"1.0.0"},"bundleDependencies":["inner"],"scripts":{"install":"touch ran","postinstall":"touch ran"}}`,
		"package/index.js", "module.exports = require('inner')\n",
		"package/node_modules/inner/package.json", `{"name":"inner","version":"1.0.0"}`,
		"package/node_modules/inner/index.js", "module.exports = 42\n",
		"package/say.js", "#!/usr/bin/env node\nconsole.log(42)\n")
	// A package that says that it holds another, and does not.
	hollow := r.servePackage(t, "hollow", "1.0.0", "package/package.json",
		`{"name":"hollow","version":"1.0.0","dependencies":{"inner":"1.0.0"},"bundleDependencies":["inner"]}`)
	r.servePackage(t, "inner", "1.0.0", "package/package.json", `{"name":"inner","version":"1.0.0"}`)
	p := newPatchRun(t, map[string]string{"npm_config_registry": r.URL + "/"})
	p.write(".npmrc", "registry="+elsewhere.URL+"/\nignore-scripts=false\n")
	p.write(".truegreen.yaml", "test: [{name: npm, run: [npm, test]}]\n")
	p.commit("base")
	p.write("package.json", `{"name":"x","version":"1.0.0","scripts":{"test":"answer && node test.js","preinstall":"touch ran"},"dependencies":{"answer":"^1.0.0","hollow":"1"}}`)
	lock := `{"name":"x","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{
"":{"name":"x","version":"1.0.0","dependencies":{"answer":"^1.0.0","hollow":"1"}},
"node_modules/answer":{"version":"1.2.3","resolved":"` + elsewhere.URL + `/answer.tgz","integrity":"` + hash + `","bin":{"answer":"say.js"},
	"dependencies":{"inner":"1.0.0"},"bundleDependencies":["inner"],"hasInstallScript":true},
"node_modules/answer/node_modules/inner":{"version":"1.0.0","inBundle":true},
"node_modules/hollow":{"version":"1.0.0","integrity":"` + hollow + `","dependencies":{"inner":"1.0.0"},"bundleDependencies":["inner"]},
"node_modules/hollow/node_modules/inner":{"version":"1.0.0","inBundle":true}}}`
	p.write("package-lock.json", lock)
	p.write("test.js", `
const fs = require("fs")
if (require("answer") !== 42 || fs.existsSync("ran") || fs.existsSync("node_modules/answer/ran") || fs.existsSync("node_modules/answer/new")) process.exit(1)
fs.mkdirSync("node_modules/.cache") // as tools do
for (const f of ["node_modules/answer/index.js", "node_modules/answer/new"]) {
	try { fs.writeFileSync(f, "module.exports = 0") } catch {} // nobody else sees it, in any run
}
`)
	report, steps, modules := p.run()
	lines := []string{"answer 1.2.3 " + hash, "hollow 1.0.0 " + hollow}
	if len(steps) != 1 || !slices.Equal(modules, lines) {
		t.Fatalf("%d steps, modules %q, %v", len(steps), modules, report.Reasons())
	}
	if s := steps[0]; s.Args.Name != "npm" || s.Args.Sandbox.Network != "host" || s.Result.State != receipts.StateExited || s.Result.Exit != 0 {
		t.Errorf("%+v, %+v", s.Args, s.Result)
	}
	green(t, report)
	if asked := r.requests(); !slices.Contains(asked, "/answer") || slices.Contains(asked, "/inner") {
		t.Errorf("asked for %q", asked)
	}

	// The same lock file is fetched once, and its receipt says what it stands for.
	p.write("other.js", "\n")
	report, steps, modules = p.run()
	if asked := r.requests(); asked != nil || !slices.Equal(modules, slices.Concat(lines, lines)) {
		t.Errorf("asked for %q, modules %q", asked, modules)
	}
	for _, s := range steps {
		if s.Result.State != receipts.StateNotRun || string(s.Result.Why) != "nothing is missing" {
			t.Errorf("%+v", s.Result)
		}
	}
	green(t, report)

	// Another hash is another lock file, and the registry has nothing that it fits.
	p.write("package-lock.json", strings.Replace(lock, hash, integrity("other"), 1))
	report, steps, _ = p.run()
	if s := steps[len(steps)-1]; s.Result.State != receipts.StateExited || s.Result.Exit == 0 {
		t.Errorf("fetched with a wrong hash: %+v", s.Result)
	}
	if report.Verdict().Exit() == 0 {
		t.Error("green without what it needs")
	}
	if caches, _ := filepath.Glob(p.state + "/cache/deps/npm-*"); len(caches) != 1 {
		t.Errorf("%q: what failed is kept", caches)
	}
	r.requests()
	p.git("reset", "-q", "--hard", "HEAD~1")

	// Without a lock file nothing is fetched.
	p.git("rm", "-q", "package-lock.json")
	_, steps, modules = p.run()
	last := steps[len(steps)-1]
	if asked := r.requests(); asked != nil || len(modules) != len(lines) || last.Args.Side != "head" || len(last.Result.Files) != 0 ||
		string(last.Result.Why) != ".: nothing is fetched: there is no package-lock.json" {
		t.Errorf("asked for %q, modules %q, %+v", asked, modules, last.Result)
	}
	if asked := elsewhere.requests(); asked != nil {
		t.Errorf("the place that the tree names was asked for %q", asked)
	}
}

func TestPackageLock(t *testing.T) {
	t.Parallel()
	hash := integrity("")
	good := `"node_modules/a":{"version":"1.0.0","integrity":"` + hash + `"}`
	lock := func(packages string) map[string]string {
		return map[string]string{"package.json": `{"dependencies":{"a":"1"}}`, "package-lock.json": `{"lockfileVersion":3,"packages":{` + packages + `}}`}
	}
	with := func(files map[string]string, more ...string) map[string]string {
		for i := 0; i < len(more); i += 2 {
			files[more[i]] = more[i+1]
		}
		return files
	}
	for _, test := range []struct {
		files map[string]string
		want  string // lines, or why there are none
	}{
		{nil, ""},
		{map[string]string{"package.json": `{"scripts":{"test":"x"}}`}, ""},
		{map[string]string{"package.json": `[]`}, "package.json: not a JSON object"},
		{map[string]string{"package.json": `{"devDependencies":{"a":"1"}}`}, "there is no package-lock.json"},
		{lock(good), "a 1.0.0 " + hash},
		{lock(`"":{"dependencies":{"a":"npm:@s/b@^1"}},"node_modules/a":{"name":"@s/b","version":"1.0.0","integrity":"` + hash + `"}`), "@s/b 1.0.0 " + hash},
		{lock(good + `,"node_modules/a/node_modules/b":{"version":"2.0.0","inBundle":true}`), "a 1.0.0 " + hash},
		{with(lock(`"x":1`), "npm-shrinkwrap.json", `{"lockfileVersion":2,"packages":{`+good+`}}`), "a 1.0.0 " + hash},
		{with(lock(good), "node_modules/a/index.js", ""), "node_modules is part of the tree"},
		{with(lock(good), "package.json", `{"dependencies":{"a":"git+https://example.com/a"}}`), `package.json: "git+https://example.com/a": not from a registry`},
		{with(lock(good), "package.json", `{"dependencies":{"a":"user/repo"}}`), `package.json: "user/repo": not from a registry`},
		{with(lock(good), "package.json", `{"overrides":{"a":{"b":"file:../b"}}}`), `package.json: "file:../b": not from a registry`},
		{with(lock(good), "package.json", `{"dependencies":{"a":["1"]}}`), "package.json: a requirement that is no string"},
		{map[string]string{"package.json": `{}`, "package-lock.json": `{"lockfileVersion":1,"dependencies":{}}`}, "package-lock.json: lockfileVersion 1: neither 2 nor 3"},
		{lock(`"node_modules/a":{"version":"1.0.0","integrity":"sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="}`), `package-lock.json: "node_modules/a": no sha512 integrity`},
		{lock(`"node_modules/a":{"version":"1.0.0","inBundle":true}`), `package-lock.json: "node_modules/a": no sha512 integrity`},
		{lock(`"node_modules/a":{"version":"1.0.0\nb","integrity":"` + hash + `"}`), `package-lock.json: "node_modules/a": version "1.0.0\nb"`},
		{lock(`"node_modules/a":{"version":"1.0.0","resolved":"git+ssh://git@example.com/a.git#1","integrity":"` + hash + `"}`), `package-lock.json: "node_modules/a": not from a registry`},
		{lock(`"node_modules/a":{"resolved":"lib/a","link":true}`), `package-lock.json: "node_modules/a": workspaces and linked folders are not fetched`},
		{lock(`"lib/a":{"version":"1.0.0"}`), `package-lock.json: "lib/a": workspaces and linked folders are not fetched`},
		{lock(`"node_modules/../a":{"version":"1.0.0","integrity":"` + hash + `"}`), `package-lock.json: "node_modules/../a": not the name of a package`},
		{lock(`"node_modules/a/":{"version":"1.0.0","integrity":"` + hash + `"}`), `package-lock.json: "node_modules/a/": not the name of a package`},
		{lock(`"node_modules/a":{"version":"1.0.0","integrity":"` + hash + `","dependencies":{"b":"http://example.com/b.tgz"}}`), `package-lock.json: "node_modules/a": "http://example.com/b.tgz": not from a registry`},
		{lock(`"node_modules/a":null`), `package-lock.json: "node_modules/a": version ""`},
	} {
		want, err := (npm{}).lock(folderOf(test.files), nil)
		var no *unlockedError
		got := ""
		switch {
		case errors.As(err, &no):
			got = no.why
		case err != nil:
			t.Errorf("%v: %v", test.files, err)
		case want != nil:
			got = strings.Join(want.modules, "\n")
			if strings.Contains(string(want.files["package-lock.json"]), "resolved") {
				t.Errorf("%v: the lock file still says where from", test.files)
			}
		}
		if got != test.want {
			t.Errorf("%v:\ngot  %s\nwant %s", test.files, got, test.want)
		}
	}
}

// Of a tree's .npmrc the fetcher gets one setting, which says nothing of places.
func TestLegacyPeerDeps(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{
		"legacy-peer-deps=true\n":                                "legacy-peer-deps=true\n",
		"registry=https://example.com/\nlegacy-peer-deps = true": "legacy-peer-deps=true\n",
		"legacy-peer-deps=false\nregistry=https://example.com/":  "",
		"# legacy-peer-deps=true":                                "",
	} {
		lock, err := (npm{}).lock(folderOf(map[string]string{
			".npmrc": settings, "package.json": `{}`,
			"package-lock.json": `{"lockfileVersion":3,"packages":{"node_modules/a":{"version":"1.0.0","integrity":"` + integrity("") + `"}}}`,
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(lock.files[".npmrc"]); got != want {
			t.Errorf("%q: %q, want %q", settings, got, want)
		}
	}
}

// Without the network nothing is asked for, and the receipt says what is missing.
func TestLockedOffline(t *testing.T) {
	t.Parallel()
	if _, err := (npm{}).find(nil); err != nil {
		t.Skip(err)
	}
	r := newRegistry(t)
	p := newPatchRun(t, map[string]string{"npm_config_registry": r.URL + "/"})
	p.write(".truegreen.yaml", "test: [{name: node, run: [node, -e, '']}]\nprepare: {network: false}\n")
	p.commit("base")
	p.write("package.json", `{"name":"x","dependencies":{"a":"1"}}`)
	p.write("package-lock.json", `{"lockfileVersion":3,"packages":{"":{"name":"x","dependencies":{"a":"1"}},"node_modules/a":{"version":"1.0.0","integrity":"`+integrity("")+`"}}}`)
	report, steps, modules := p.run()
	if len(steps) != 1 || modules != nil || steps[0].Result.State != receipts.StateNotRun ||
		string(steps[0].Result.Why) != ".: nothing is fetched: prepare.network is false, and it was not fetched before" {
		t.Errorf("%d steps, modules %q, %v", len(steps), modules, report.Reasons())
	}
	if asked := r.requests(); asked != nil {
		t.Errorf("asked for %q", asked)
	}
	green(t, report)
}
