package source

import (
	"strings"
	"testing"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for class, paths := range map[Class]string{
		CI: `.truegreen.yaml .truegreen/trust.yaml .truegreen/a/b .github/workflows/ci.yml .github/workflows/testdata/x_test.go
			.github/actions/setup/action.yml .gitea/workflows/x.yml .forgejo/workflows/x.yml .gitlab-ci.yml .gitlab/ci/x.yml Jenkinsfile sub/Jenkinsfile
			.circleci/config.yml azure-pipelines.yml .travis.yml .buildkite/pipeline.yml .cirrus.yml .drone.yml .woodpecker.yml .woodpecker/a.yml
			appveyor.yml .appveyor.yml bitbucket-pipelines.yml CODEOWNERS .github/CODEOWNERS .gitlab/CODEOWNERS docs/CODEOWNERS`,
		Golden: `testdata/x a/testdata/b/c.go testdata/go.mod testdata/conftest.py a/testdata/x_test.go testdata/.coveragerc x.golden a/b.golden a/__snapshots__/b.test.js.snap
			insta/x.snap tap-snapshots/test/a.js.test.cjs test/fixtures/a.js tests/a/fixtures/b/c.json src/__tests__/__fixtures__/x.ts spec/fixtures/x.yml cypress/fixtures/u.json
			e2e/fixtures/x Tests/fixtures/a.php`,
		Harness: `conftest.py tests/conftest.py pytest.ini .pytest.ini tox.ini noxfile.py jest.config.js a/jest.config.ts vitest.config.mts cypress.config.ts playwright.config.ts
			ava.config.js wdio.config.js karma.conf.js .mocharc .mocharc.json .taprc phpunit.xml phpunit.xml.dist phpunit.dist.xml behat.yml codeception.yml .rspec spec/spec_helper.rb
			spec/rails_helper.rb test/test_helper.rb src/test/resources/junit-platform.properties a.runsettings x/xunit.runner.json .config/nextest.toml`,
		Tooling: `.codecov.yml codecov.yml codecov.yaml .github/codecov.yml .coveralls.yml .coveragerc sub/.coveragerc .gremlins.yaml stryker.conf.js stryker.config.json stryker-config.yml
			sonar-project.properties .nycrc .nycrc.json .c8rc.json .simplecov infection.json infection.json5 infection.json.dist tarpaulin.toml .tarpaulin.toml .cargo/mutants.toml`,
		Test: `a_test.go a/b_test.go main_test.go tests/x_test.go test_a.py a/test_b.py a_test.py tests/helpers.py tests/go.mod tests/Makefile test/a.js tests/a.rs crates/x/tests/a.rs a/__tests__/b.js
			__mocks__/fs.js a.test.js a.spec.ts a/b.test.tsx a.test.mjs a.spec.cts A.test.vue cypress/e2e/a.cy.js cypress/support/x.js src/test/java/A.java core/src/test/resources/a.txt
			src/androidTest/A.kt src/commonTest/kotlin/A.kt tests/ATest.php src/ATest.php Tests/A.php spec/models/a_spec.rb spec/support/x.rb a_spec.rb a_test.rb Foo.Tests/A.cs src/Foo.UnitTests/Foo.csproj
			Foo.IntegrationTests/x.json Foo.Test/A.cs test/package.json`,
		Build: `go.mod go.sum go.work go.work.sum sub/go.mod vendor/modules.txt Makefile a/Makefile GNUmakefile makefile rules.mk justfile Justfile Rakefile Taskfile.yml Taskfile.yaml Dockerfile a/Dockerfile.dev
			a.Dockerfile Containerfile package.json a/package.json package-lock.json npm-shrinkwrap.json packages.lock.json pnpm-lock.yaml pnpm-workspace.yaml yarn.lock bun.lock bun.lockb poetry.lock uv.lock
			Gemfile.lock composer.lock Cargo.lock flake.lock Pipfile.lock Pipfile gradle.lockfile .npmrc .yarnrc.yml pyproject.toml setup.py setup.cfg requirements.txt requirements-dev.txt Cargo.toml build.rs
			rust-toolchain rust-toolchain.toml .cargo/config.toml pom.xml build.gradle settings.gradle build.gradle.kts settings.gradle.kts gradle.properties gradle/wrapper/gradle-wrapper.properties gradlew mvnw
			.mvn/extensions.xml CMakeLists.txt a/x.cmake meson.build BUILD.bazel WORKSPACE.bazel MODULE.bazel BUILD WORKSPACE .bazelrc a.bzl composer.json Gemfile a.gemspec A.csproj A.fsproj A.vbproj A.sln
			Directory.Build.props Directory.Packages.props Directory.Build.targets global.json NuGet.config nuget.config magefile.go tests/magefile.go`,
		// Near misses, among them.
		Code: `a.go test/framework.go tests/a/b.go test_a.go a_test.gox a_test.go/x testdata main.go x/testing.go atestdata/x testdata.go golden snapshots/x.js fixtures/a.json a/fixtures/x.sql
			conftest.pyc myconftest.py test.py a_tests.py testing/a.py Test_a.py latest.js contest.js a.tests.js a.test.json openapi.spec.yaml a.spec test.go spec/openapi.yaml spec/a.js lib/spec.rb
			a_spec.rbx Contest.cs FooTests/A.cs src/tester/A.java src/main/java/ATest.java Latest.php x.phpunit.xml jest.configs.js
			github/workflows/x.yml sub/.github/workflows/ci.yml sub/.truegreen.yaml .truegreen.yml .truegreen .github/dependabot.yml sub/.gitlab-ci.yml jenkinsfile a/CODEOWNERS
			go.mod.bak go.modx Makefile.txt Dockerfiles/x lock.go clock.py lock a.locks package.jsonx mypackage.json requirements.md requirements/x.txt cargo.toml build.rs.bak
			vendor/x.php vendor/a/modules.txt coveragerc nycrc README.md LICENSE docs/x.md a`,
	} {
		for path := range strings.FieldsSeq(paths) {
			if got := Classify(path, nil); got != class {
				t.Errorf("%s: %s, want %s", path, got, class)
			}
			side := class == Test || class == Golden || class == Harness
			if got := TestSide(path, nil); got != side {
				t.Errorf("%s: of the tests: %v", path, got)
			}
			// What is configured as a test is one, but for CI.
			want := class
			switch class {
			case Code, Build, Tooling:
				want = Test
			}
			if got := Classify(path, func(p string) bool { return p == path }); got != want {
				t.Errorf("%s: %s where it is configured as a test, want %s", path, got, want)
			}
			if got := Classify(path, func(string) bool { return false }); got != class {
				t.Errorf("%s: %s where others are configured", path, got)
			}
		}
	}
}

// TestClassRules: every rule decides about some path, so that none is hidden
// by those before it.
func TestClassRules(t *testing.T) {
	t.Parallel()
	for i, r := range rules() {
		var elements []string
		for j, part := range r.glob {
			if part == deep && j < len(r.glob)-1 {
				continue
			}
			e := part.text
			if part.suffix {
				e = "x" + e
			}
			e = strings.NewReplacer("[Nn]", "n", "[Gg]", "g", "[Cc]", "c", "**", "x", "*", "x").Replace(e)
			elements = append(elements, e)
		}
		for j, other := range rules() {
			if matchRule(other.glob, elements) {
				if j != i {
					t.Errorf("%v is hidden by %v", r.glob, other.glob)
				}
				break
			}
			if j == i {
				t.Errorf("%v does not match %s", r.glob, strings.Join(elements, "/"))
			}
		}
	}
}

func TestMatchRule(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		glob, path string
		match      bool
	}{
		{"a", "a", true}, {"a", "b/a", false}, {"a", "a/b", false},
		{"**/a", "a", true}, {"**/a", "b/c/a", true}, {"**/a", "a/b", false},
		{"a/**", "a", false}, {"a/**", "a/b", true}, {"a/**", "a/b/c", true}, {"a/**", "b/a/c", false},
		{"**/a/**", "a/b", true}, {"**/a/**", "b/a/c/d", true}, {"**/a/**", "b/a", false}, {"**/a/**", "a/a", true},
		{"**/a/**/b/**", "a/b/c", true}, {"**/a/**/b/**", "x/a/y/z/b/c", true}, {"**/a/**/b/**", "a/b", false}, {"**/a/**/b/**", "b/a/c", false},
		{"**/a/b", "a/c/a/b", true}, {"**/*.x", "a/.x", true}, {"**/*.x", "a.x/b", false}, {"**/a*c", "b/a/c", false}, {"a", "", false},
	} {
		if got := matchRule(parseGlob(test.glob), strings.Split(test.path, "/")); got != test.match {
			t.Errorf("%s, %s: %v", test.glob, test.path, got)
		}
	}
}

func BenchmarkClassify(b *testing.B) {
	for b.Loop() {
		Classify("some/folders/deep/inside/of/it/file.txt", nil)
	}
}
