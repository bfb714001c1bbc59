package verifier

// A Signal is one observation about a report that deserves attention: it
// contradicts itself, lacks what an honest report has, or has what an honest
// report lacks. Suite and Test say where, if it is about one of them; Detail
// says what was seen, in at most 512 bytes.
//
// The codes, those that disqualify any claim that the tests passed marked *:
//
//	zero-tests *                    no test was seen in the whole report
//	no-test-files                   a package without test files
//	no-tests-to-run                 a package whose binary says that it had nothing to run
//	no-test-ran                     a package or suite that ended without a test
//	suite-unfinished *              a package or suite started and did not end
//	result-without-report *         a test's result came without the test's report line:
//	                                it is the end of the process that was taken for it
//	pass-without-summary *          a package passed without the final PASS of its binary
//	failed-test-in-passing-suite *  a test failed, its package or parent did not
//	suite-failed-without-test       a package failed and none of its tests did
//	exit-contradicts-results *      exit 0 and a failure, or another code and none
//	no-exit-status *                the process did not exit by itself
//	test-unfinished *               a test started and did not end
//	cached-result *                 go test replayed an earlier run
//	impossible-order                events in an order that package testing does not produce
//	report-line-in-output           a test printed a line in the form of a test report
//	duplicate-suite                 a package was reported again
//	duplicate-test                  a test was reported again
//	data-race, timeout, vet-failed  why a test or package failed
//	flaky-test                      a test passed after it had failed
//	fewer-tests-than-declared *     a suite declares more tests than it has
//	totals-mismatch                 a suite's other totals are not what was counted
//	name-cut                        names beyond 4 KiB were shortened
//	unparsed-input                  lines that the format does not allow
//	unknown-action                  events of a kind that this version does not know
//	exit-code-only                  nothing but an exit code was there to read
//	report-missing *                there is no report, or no line of one
//	report-malformed *              a report is not well-formed, or cannot be read to its end
//	report-not-junit *              a report is something else than JUnit XML
//	limit-exceeded *                the report is beyond a limit of the reader
//	canary-missing *                a test that was laid over a package was not seen to pass
//	canary-not-failing              a test that was laid over a package and has to fail did not turn it red
//	silent-test *                   a test file has a test that was not seen, and its package came to its end
//	ghost-test *                    a test was seen that no test file has
//	does-not-build                  a test file does not build on the code of the other side
//	reads-ci                        the test process asked for a variable of a CI, as it reported itself
//	no-coverage-profile             nothing tells which lines were executed
//
// Some honest projects run tests inside of tests, with failures that are meant:
// failed-test-in-passing-suite and impossible-order must be compared with what
// the same signals say about the base.
type Signal struct {
	Code, Suite, Test, Detail string
}

const (
	sigZeroTests         = "zero-tests"
	sigNoTestFiles       = "no-test-files"
	sigNoTestsToRun      = "no-tests-to-run"
	sigNoTestRan         = "no-test-ran"
	sigSuiteUnfinished   = "suite-unfinished"
	sigResultNoReport    = "result-without-report"
	sigPassNoSummary     = "pass-without-summary"
	sigFailedInPassing   = "failed-test-in-passing-suite"
	sigSuiteFailedAlone  = "suite-failed-without-test"
	sigExitContradicts   = "exit-contradicts-results"
	sigNoExitStatus      = "no-exit-status"
	sigTestUnfinished    = "test-unfinished"
	sigCached            = "cached-result"
	sigImpossibleOrder   = "impossible-order"
	sigReportLine        = "report-line-in-output"
	sigDuplicateSuite    = "duplicate-suite"
	sigDuplicateTest     = "duplicate-test"
	sigDataRace          = "data-race"
	sigTimeout           = "timeout"
	sigVetFailed         = "vet-failed"
	sigFlaky             = "flaky-test"
	sigFewerThanDeclared = "fewer-tests-than-declared"
	sigTotals            = "totals-mismatch"
	sigNameCut           = "name-cut"
	sigUnparsed          = "unparsed-input"
	sigUnknownAction     = "unknown-action"
	sigExitOnly          = "exit-code-only"
	sigReportMissing     = "report-missing"
	sigReportMalformed   = "report-malformed"
	sigReportNotJUnit    = "report-not-junit"
	sigLimitExceeded     = "limit-exceeded"
	sigCanaryMissing     = "canary-missing"
	sigCanarySilent      = "canary-not-failing"
	sigSilentTest        = "silent-test"
	sigGhostTest         = "ghost-test"
	sigNotBuilt          = "does-not-build"
	sigReadsCI           = "reads-ci"
	sigNoProfile         = "no-coverage-profile"
)

// Disqualifies reports whether no claim that the tests passed can stand beside
// s, unless the base has the same signal.
func (s Signal) Disqualifies() bool {
	switch s.Code {
	case sigZeroTests, sigSuiteUnfinished, sigResultNoReport, sigPassNoSummary, sigFailedInPassing,
		sigExitContradicts, sigNoExitStatus, sigTestUnfinished, sigCached, sigFewerThanDeclared,
		sigReportMissing, sigReportMalformed, sigReportNotJUnit, sigLimitExceeded,
		sigCanaryMissing, sigSilentTest, sigGhostTest:
		return true
	}
	return false
}
