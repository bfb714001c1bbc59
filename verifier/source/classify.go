package source

import (
	"path"
	"strings"
	"sync"
)

// A Class says what a file is there for, as far as its path tells.
type Class string

// The classes.
const (
	Code    Class = "code"    // everything else
	Test    Class = "test"    // tests and what only tests use
	Golden  Class = "golden"  // what tests read or compare with
	Harness Class = "harness" // what configures a test runner, or runs inside of it
	CI      Class = "ci"      // what decides what is run and who must agree
	Build   Class = "build"   // what decides what is built, and with what
	Tooling Class = "tooling" // what decides how coverage and mutants are counted
)

// Classify returns the class of a path of a tree. extra, if not nil, holds for
// further paths that belong to the tests; of these, paths that would be code,
// build or tooling are tests. What steers CI stays CI.
//
// The first rule of the list in this file that matches decides, case counts,
// and what no rule matches is code. A path cannot tell everything: a TestMain is
// in a file like any other test, and files below testdata may be embedded by
// code. Go files are tests by their suffix alone, since the go command lets code
// import all others, whatever their folder is called, but for testdata.
func Classify(name string, extra func(path string) bool) Class {
	class := Code
	elements := strings.Split(name, "/")
	for _, r := range rules() {
		if matchRule(r.glob, elements) {
			class = r.class
			break
		}
	}
	switch class {
	case Code, Build, Tooling:
		if extra != nil && extra(name) {
			return Test
		}
	}
	return class
}

// TestSide reports whether a file belongs to the tests, so that it is exchanged
// with them when the tests of one side run on the code of the other: its class
// is test, golden or harness.
func TestSide(name string, extra func(path string) bool) bool {
	switch Classify(name, extra) {
	case Test, Golden, Harness:
		return true
	}
	return false
}

// A rule gives paths a class. In a glob, ** as a whole element is any number
// of elements, also none, the other elements are those of [path.Match], and
// {a,b} stands for two rules.
type rule struct {
	class Class
	glob  []element
}

// An element is one of a glob, with what makes the common ones quick.
type element struct {
	text    string // of a suffix, without the star
	suffix  bool   // a star and no more of them
	pattern bool   // anything else that is special
}

var deep = element{text: "**", pattern: true}

// The rules in their order. CI and golden files come first: a go.mod below
// testdata builds nothing. Whatever else lies in a folder of tests is the
// tests', but for what has a meaning of its own wherever it lies.
var rules = sync.OnceValue(func() []rule { return compile(ruleTable) })

var ruleTable = []struct {
	class Class
	globs string // separated by spaces
}{
	{CI, `.truegreen.yaml .truegreen/**`},
	{Tooling, `.github/{codecov.yml,codecov.yaml}`},
	{CI, `{.github,.gitea,.forgejo}/workflows/** .github/actions/** .gitlab-ci.yml .gitlab/ci/** **/Jenkinsfile .circleci/**
		azure-pipelines.{yml,yaml} .travis.yml .buildkite/** .cirrus.yml .drone.yml .woodpecker.yml .woodpecker/**
		{appveyor,.appveyor}.yml bitbucket-pipelines.yml {CODEOWNERS,.github/CODEOWNERS,.gitlab/CODEOWNERS,docs/CODEOWNERS}`},

	{Golden, `**/testdata/** **/*.golden **/*.snap **/__snapshots__/** **/tap-snapshots/**`},

	// Python, JavaScript, PHP, Ruby, Java, .NET, Rust
	{Harness, `**/conftest.py **/{pytest,.pytest}.ini **/tox.ini **/noxfile.py
		**/{jest,vitest,cypress,playwright,ava,wdio}.config.* **/karma.conf.* **/.mocharc **/.mocharc.* **/.taprc
		**/{phpunit.xml,phpunit.xml.dist,phpunit.dist.xml,behat.yml,codeception.yml}
		**/.rspec **/{spec,rails,test}_helper.rb **/junit-platform.properties
		**/*.runsettings **/xunit.runner.json .config/nextest.toml`},
	{Tooling, `**/{codecov,.codecov,.coveralls}.{yml,yaml} **/.coveragerc **/.gremlins.{yaml,yml} **/stryker.{conf,config}.*
		**/stryker-config.{json,yml,yaml} **/sonar-project.properties **/.nycrc **/.nycrc.* **/.c8rc **/.c8rc.* **/.simplecov
		**/infection.{json,json5} **/infection.json.dist **/{tarpaulin,.tarpaulin}.toml **/.cargo/mutants.toml`},

	// Go
	{Test, `**/*_test.go`},
	{Build, `**/magefile.go`},
	{Code, `**/*.go`},

	{Golden, `**/{test,tests,Tests,__tests__,spec,cypress,e2e}/**/{fixtures,__fixtures__}/**`},
	// Python and Rust, JavaScript, Java and its kin, PHP, Ruby, .NET
	{Test, `**/test_*.py **/*_test.py **/{test,tests,Tests,__tests__,__mocks__}/**
		**/*.{test,spec}.{js,jsx,ts,tsx,mjs,cjs,mts,cts,vue,svelte} **/cypress/**
		**/src/*Test/** **/*Test.php **/spec/**/*.rb **/*_{spec,test}.rb **/*.{Test,Tests,UnitTests,IntegrationTests}/**`},

	{Build, `**/go.{mod,sum,work} **/go.work.sum **/vendor/modules.txt
		**/{Makefile,GNUmakefile,makefile,*.mk,justfile,Justfile,Rakefile} **/Taskfile.{yml,yaml}
		**/{Dockerfile,Containerfile,Dockerfile.*,*.Dockerfile}
		**/package.json **/{package-lock,npm-shrinkwrap,packages.lock}.json **/pnpm-{lock,workspace}.yaml **/bun.lockb **/.npmrc **/.yarnrc.yml
		**/*.lock **/gradle.lockfile **/*.lockfile
		**/pyproject.toml **/setup.{py,cfg} **/requirements*.txt **/Pipfile
		**/Cargo.toml **/build.rs **/rust-toolchain **/rust-toolchain.toml **/.cargo/**
		**/pom.xml **/{build,settings}.gradle **/{build,settings}.gradle.kts **/gradle.properties **/gradle/wrapper/** **/{gradlew,mvnw} **/.mvn/**
		**/CMakeLists.txt **/*.cmake **/meson.build **/{BUILD,WORKSPACE,MODULE}.bazel **/{BUILD,WORKSPACE} **/.bazelrc **/*.bzl
		**/composer.json **/Gemfile **/*.gemspec
		**/*.{csproj,fsproj,vbproj,sln} **/Directory.{Build,Packages}.{props,targets} **/global.json **/[Nn]u[Gg]et.[Cc]onfig`},
}

func compile(table []struct {
	class Class
	globs string
}) []rule {
	var rules []rule
	for _, row := range table {
		for _, glob := range strings.Fields(row.globs) {
			for _, glob := range expand(glob) {
				rules = append(rules, rule{row.class, parseGlob(glob)})
			}
		}
	}
	return rules
}

func parseGlob(glob string) []element {
	var elements []element
	for text := range strings.SplitSeq(glob, "/") {
		e := element{text: text}
		if rest, ok := strings.CutPrefix(text, "*"); ok && !strings.ContainsAny(rest, "*[") {
			e = element{text: rest, suffix: true}
		} else if strings.ContainsAny(text, "*[") {
			e.pattern = true
		}
		elements = append(elements, e)
	}
	return elements
}

// expand returns the globs that one with groups stands for.
func expand(glob string) []string {
	globs := []string{""}
	for {
		before, rest, ok := strings.Cut(glob, "{")
		group, after, _ := strings.Cut(rest, "}")
		var longer []string
		for _, g := range globs {
			for one := range strings.SplitSeq(group, ",") {
				longer = append(longer, g+before+one)
			}
		}
		if globs = longer; !ok {
			return globs
		}
		glob = after
	}
}

// matchRule goes back to the last ** only, as what an earlier one could take
// more of, that one can take as well.
func matchRule(glob []element, elements []string) bool {
	if last := glob[len(glob)-1]; last != deep && !last.match(elements[len(elements)-1]) {
		return false
	}
	g, i := 0, 0
	star, from := -1, 0
	for i < len(elements) {
		switch {
		case g < len(glob) && glob[g] == deep:
			star, from = g, i
			g++
			continue
		case g < len(glob) && glob[g].match(elements[i]):
			g++
			i++
			continue
		case star < 0:
			return false
		}
		from++
		g, i = star+1, from
	}
	// A final ** is what lies below, at least one element.
	return g == len(glob)
}

func (e element) match(name string) bool {
	switch {
	case e.suffix:
		return strings.HasSuffix(name, e.text)
	case e.pattern:
		ok, err := path.Match(e.text, name)
		return ok && err == nil
	}
	return e.text == name
}
