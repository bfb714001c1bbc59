package conformance

// An Elsewhere is an attempt of the list, or a part of one, that the sandbox
// neither can nor should stop: it is for whoever reads the output, or prepares
// the command. Test says where it is made: a package's test function, or a
// script of cmd/truegreen.
type Elsewhere struct {
	ID, Name, Test string
}

// ElsewhereRows returns them, in order.
func ElsewhereRows() []Elsewhere {
	return []Elsewhere{
		{"92", "terminal commands in names and messages that are shown", "cmd/truegreen output_hostile"},
		{"93", "forge events of go test", "verifier.TestGoTestLies"},
		{"93", "forge events in an impossible order", "verifier.TestGoTestStreams"},
		{"93", "forge a JUnit report", "verifier.TestReadJUnitMalformed"},
		{"94", "exit with 0 before any test; kill the go command", "verifier.TestGoTestLies"},
		{"94", "report no tests at all", "cmd/truegreen run_no_tests"},
		{"95", "forge a package's summary line", "verifier.TestGoTestLies"},
		{"96", "delete and add tests for a later command", "cmd/truegreen run_each_command_clean"},
		{"97", "write to the evidence's path and to .git", "cmd/truegreen run_each_command_clean"},
		{"98", "long lines and names", "verifier.TestReadGoTestLines"},
		{"98", "more tests, suites and names than there may be", "verifier.TestReadGoTestLimits"},
		{"98", "names that could meet", "verifier.TestNamesDoNotMeet"},
		{"98", "fifty megabytes of events", "verifier.TestReadGoTestMemory"},
		{"98", "a report without bounds", "verifier.TestReadJUnitBounds"},
		{"99", "keep what was written to the build cache", "verifier/runner.TestCacheMounts"},
		{"100", "write to the module cache", "verifier/runner.TestCacheMounts"},
		{"101", "leave npm's and cargo's settings for a later command", "cmd/truegreen run_each_command_clean"},
		{"102", "leave the go command's settings for a later command", "cmd/truegreen run_go_settings"},
		{"103", "pass GOFLAGS and the like on from the caller", "cmd/truegreen run_caller_environment"},
		{"104", "name a toolchain that is not there in go.mod", "cmd/truegreen run_go_settings"},
		{"105", "leave the tree by a replacement, a workspace or a vendor folder", "cmd/truegreen run_outside_modules"},
		{"107", "pass variables that load code on from the caller", "cmd/truegreen run_caller_environment"},
		{"107", "set variables that load code in the configuration", "verifier.TestParseConfigErrors"},
		{"109", "have the repository's configuration run programs", "verifier/runner.TestNothingOfTheRepositoryRuns"},
		{"110", "change, add or hide files by attributes", "verifier/runner.TestAttributes"},
		{"111", "names and links that lead out of the tree", "verifier/runner.TestHostileTrees"},
		{"111", "submodules that are not there", "verifier/runner.TestSubmodules"},
		{"111", "follow a symbolic link of the tree", "verifier/runner.TestSymbolicLinks"},
		{"112", "replace objects", "verifier/runner.TestReplacements"},
		{"112", "borrow objects", "verifier/runner.TestAlternates"},
		{"113", "give one id two contents", "verifier/runner.TestCollision"},
		{"114", "leave objects out of a partial clone", "verifier/runner.TestPartialClone"},
		{"114", "have objects fetched", "verifier/runner.TestNothingIsFetched"},
	}
}
