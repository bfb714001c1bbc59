package verifier

import "fmt"

// A Verdict is what a report comes to.
type Verdict string

// The verdicts, and the exit codes of the commands that print them.
const (
	Verified Verdict = "verified" // 0
	Failed   Verdict = "failed"   // 1
	Unproven Verdict = "unproven" // 3
	Broken   Verdict = "broken"   // 4
)

// Exit returns the exit code of v. Exit code 2 is that of a command which could
// not give a verdict.
func (v Verdict) Exit() int {
	switch v {
	case Verified:
		return 0
	case Failed:
		return 1
	case Broken:
		return 4
	}
	return 3
}

// worse reports whether v takes precedence over w.
func (v Verdict) worse(w Verdict) bool {
	rank := map[Verdict]int{Verified: 0, Failed: 1, Unproven: 2, Broken: 3}
	return rank[v] > rank[w]
}

// A Code names a reason, in kebab-case. Codes are stable: scripts match them.
type Code string

// A Reason is one answer to the question why a report is not verified.
type Reason struct {
	Code   Code
	Member string // of the bundle, where the reason lies in one
	Detail string
}

func (r Reason) String() string {
	s := string(r.Code)
	if r.Member != "" {
		s += " in " + r.Member
	}
	if r.Detail != "" {
		s += ": " + r.Detail
	}
	return s
}

// A Cause is the documentation of a code.
type Cause struct {
	Code    Code
	Verdict Verdict // "" where there is none: exit code 2
	Cause   string  // what happened
	Remedy  string  // what to do
}

// The codes.
const (
	// Broken: the bytes contradict themselves.
	NotABundle      Code = "not-a-bundle"
	Truncated       Code = "truncated"
	LimitExceeded   Code = "limit-exceeded"
	MalformedMember Code = "malformed-member"
	BlobMismatch    Code = "blob-mismatch"
	MalformedSeal   Code = "malformed-seal"
	SealMembers     Code = "seal-members"
	LogBroken       Code = "log-broken"
	ReceiptsBroken  Code = "receipts-broken"
	JoinBroken      Code = "join-broken"
	SealMismatch    Code = "seal-mismatch"
	BlobMissing     Code = "blob-missing"
	BlobUnnamed     Code = "blob-unnamed"
	PatchMismatch   Code = "patch-mismatch"
	PlanMismatch    Code = "plan-mismatch"
	CallsMismatch   Code = "calls-mismatch"
	EvidenceBroken  Code = "judgement-differs"
	ImportBroken    Code = "import-broken"
	UnsafeArchive   Code = "unsafe-archive"
	// Broken: the bytes contradict an anchor or what the caller expects.
	MACMismatch      Code = "mac-mismatch"
	SignatureInvalid Code = "signature-invalid"
	WrongPatch       Code = "wrong-patch"
	WrongBase        Code = "wrong-base"
	WrongConfig      Code = "wrong-config"
	WrongBundle      Code = "wrong-bundle"
	WrongTag         Code = "wrong-tag"
	// Unproven.
	NoEvidence      Code = "no-evidence"
	EvidenceExpired Code = "evidence-expired"
	PlanDiffers     Code = "plan-differs"
	NoReproduction  Code = "no-reproduction"
	NotReproduced   Code = "not-reproduced"
	NewerVersion    Code = "newer-version"
	NoTrustedSeal   Code = "no-trusted-seal"
	StaleKeys       Code = "jwks-stale"
	Unattested      Code = "unattested-fork-run"
	NoEnd           Code = "no-end"
	Interrupted     Code = "interrupted"
	RunFailed       Code = "run-failed"
	NoTests         Code = "no-tests"
	CommandNotFound Code = "command-not-found"
	ToolchainTooOld Code = "toolchain-too-old"
	PlanByHand      Code = "plan-not-from-base"
	Stale           Code = "stale"
	LowIsolation    Code = "isolation-too-low"

	RedactedEvidence Code = "redacted-evidence"
	ReceiptMissing   Code = "receipt-missing"
	ReceiptUnproven  Code = "receipt-unproven"
	// Unproven, of a release.
	EvidenceTooLow   Code = "evidence-too-low"
	TooFewSigners    Code = "too-few-signers"
	TagNotSigned     Code = "tag-not-signed"
	TagElsewhere     Code = "tag-not-on-branch"
	HistoryRewritten Code = "history-rewritten"
	// Failed.
	TestsFailed      Code = "tests-failed"
	BuildBroken      Code = "build-failed"
	TimedOut         Code = "timed-out"
	CommandFailed    Code = "command-failed"
	NeedsNested      Code = "needs-nested-namespaces"
	UntrustedReport  Code = "report-contradicts-itself"
	OutputIncomplete Code = "output-incomplete"
	TestsRemoved     Code = "tests-removed"
	TestsSkipped     Code = "tests-skipped"
	CanaryFailed     Code = "canary-failed"
	ReceiptUntrusted Code = "receipt-untrusted"
	PolicyFinding    Code = "policy-finding"
	NotMet           Code = "requirement-not-met"
	// No verdict.
	Usage            Code = "usage"
	Unreadable       Code = "unreadable"
	NotARepository   Code = "not-a-repository"
	UnknownRevision  Code = "unknown-revision"
	ShallowClone     Code = "shallow-clone"
	EmptyDiff        Code = "empty-diff"
	NothingToRun     Code = "nothing-to-run"
	BadConfig        Code = "bad-config"
	IsolationRefused Code = "isolation-refused"
	OIDCBeside       Code = "oidc-beside-tests"
	ForgeFailed      Code = "forge-unavailable"
	KeyUnsafe        Code = "key-unsafe"
	DiskFull         Code = "disk-full"
	HostileTree      Code = "hostile-tree"
	CorruptObject    Code = "corrupt-object"
	TreeTooLarge     Code = "tree-too-large"
	GitMissing       Code = "git-missing"
	Internal         Code = "internal-error"
)

// Causes documents every code, in the order of docs/reasons.md.
func Causes() []Cause {
	return []Cause{
		{NotABundle, Broken, "The file is not a truegreen bundle: it is empty, text, or another kind of archive.", "Check the path. If a tool unpacked or recompressed the bundle on the way, pass on the original file."},
		{Truncated, Broken, "The file ends before the bundle does.", "Download or copy it again and compare sizes."},
		{LimitExceeded, Broken, "The file, or what it unpacks to, is larger than the verifier's limits.", "A bundle that truegreen wrote stays within them. Treat the file as hostile."},
		{MalformedMember, Broken, "A member's name, order, header or padding, or the compressed framing, is not the one encoding that a bundle has.", "The file was changed or made by something else. Get the original."},
		{BlobMismatch, Broken, "A blob is not what its name, its SHA-256, says.", "The evidence was changed or damaged. Get the original."},
		{MalformedSeal, Broken, "The seal does not parse.", "The file was changed or made by something else. Get the original."},
		{SealMembers, Broken, "The bundle holds other signature members than its seal lists.", "A signature was added or removed. Later signatures belong in sidecar files; get the original."},
		{LogBroken, Broken, "The event log's hash chain breaks, or the log is not that of a run.", "The log was changed. Get the original."},
		{ReceiptsBroken, Broken, "The chain of receipts breaks, or a receipt's MAC is not the key's.", "A receipt was changed, removed or made without the key. Do not trust the bundle."},
		{JoinBroken, Broken, "A receipt and the frame, documents or blobs that it names do not agree.", "The evidence was pieced together. Do not trust the bundle."},
		{SealMismatch, Broken, "The log is not the one that the seal states: frames, root, receipts, digest or times differ.", "Log and seal are of different runs, or one was changed. Do not trust the bundle."},
		{BlobMissing, Broken, "A blob that the log names is not in the bundle and not declared withheld.", "A member was removed. Get the original."},
		{BlobUnnamed, Broken, "The bundle holds a blob that the log does not name.", "A member was added. Get the original."},
		{PatchMismatch, Broken, "The patch document does not follow from the tree listings and the diff in the bundle, or the task's id not from the document.", "The evidence was pieced together. Do not trust the bundle."},
		{PlanMismatch, Broken, "The plan does not follow from the configuration, the patch and the trees.", "The evidence was made by something else than truegreen. Do not trust the bundle."},
		{CallsMismatch, Broken, "The calls in the log are not the planned ones.", "A test was left out, repeated or exchanged. Do not trust the bundle."},
		{EvidenceBroken, Broken, "The evidence document is not what the captured output gives when it is read again.", "A summary was changed, or another version of truegreen reads reports differently: verify with the version that made the bundle."},
		{ImportBroken, Broken, "The bundle says that the run on the base is taken from an earlier run, and the earlier run's bundle, which is part of it, is not sound, or is about another repository, tree, command or environment.", "The evidence was pieced together. Do not trust the bundle; truegreen run --fresh takes nothing from earlier runs."},
		{UnsafeArchive, Broken, "The artifact that should hold the bundle is one that no honest upload is: several bundles, other files, links, paths that lead elsewhere, or more than the limits.", "Treat it, and the run that left it, as hostile."},
		{MACMismatch, Broken, "The seal's MAC is not the one that the given key makes.", "The seal was changed, or the key is another one. Pass the key that sealed the bundle."},
		{SignatureInvalid, Broken, "A signature does not verify over the seal.", "The seal or the signature was changed. Get both again from their origin."},
		{WrongPatch, Broken, "The bundle is about another repository, head or tree than the one asked for.", "Verify the bundle that was made for this patch."},
		{WrongBase, Broken, "The bundle compares the patch with another base than the one asked for.", "Run again: the base may have moved."},
		{WrongConfig, Broken, "The run used another configuration than the protected base has.", "Run again with the configuration at the base."},
		{WrongBundle, Broken, "The bundle is of another run than the one asked for: its seal has another digest.", "Get the bundle that the run itself named. Another one in its place may be an older one, or that of another patch."},
		{WrongTag, Broken, "The tag names another commit than the one that was asked for, or its object is that of another tag.", "The tag was moved, or a tag was put under another name. Find out who did it before you release anything."},

		{NoEvidence, Unproven, "There is no verified bundle to report on.", "Run truegreen run, or pass a bundle to truegreen verify."},
		{EvidenceExpired, Unproven, "The artifact that held the bundle has expired, or was deleted: the forge keeps it for 90 days at most.", "Run again. Keep bundles as release assets, or in a registry beside the image: these do not expire."},
		{NewerVersion, Unproven, "The bundle has a format that this version does not know.", "Verify it with a newer truegreen."},
		{NoTrustedSeal, Unproven, "The evidence is intact, but no signature on its seal is one that you trust.", "Pass --key with the receipt key, --signers with an allowed_signers file, --sig with a sidecar signature, or --oidc, --trust and --jwks for a GitHub token. The detail says which signatures there are, and what speaks against each."},
		{StaleKeys, Unproven, "The bundle has an OIDC token that names a key which is not among the pinned ones, or was retired before the token was made.", "Run truegreen trust update, see that it adds the key, and commit the file. If it does not, the token is not the issuer's."},
		{Unattested, Unproven, "The run was made by a workflow that the patch could change, as with pull requests from forks: whatever was signed there, the patch could have had signed.", "Nothing is wrong with the bundle, and nobody but the patch's own run vouches for it. Run again where the workflow is yours, after a look at the patch."},
		{NoEnd, Unproven, "The log has no end: what came after its last frame is not known.", "Run again."},
		{Interrupted, Unproven, "The run was interrupted before it had made every call.", "Run again and let it finish."},
		{RunFailed, Unproven, "A call that the tests need could not be made, such as fetching dependencies.", "See the call's output with truegreen inspect, mend it, and run again."},
		{NoTests, Unproven, "Not one test was seen to pass on the head.", "Check the test command and its format: truegreen run --dry-run shows both."},
		{CommandNotFound, Unproven, "The test command does not exist in the sandbox, or cannot be executed there.", "Install it below a system directory such as /usr, or change the command."},
		{ToolchainTooOld, Unproven, "The tree asks for a newer toolchain than the installed one.", "Install the toolchain that go.mod names: the tests have no network to fetch it."},
		{PlanByHand, Unproven, "The tested command was given by hand and does not come from the base.", "Put the command into .truegreen.yaml at the base, or, where that is enough for you, verify without --no-command."},
		{Stale, Unproven, "The run is older than the greatest age that was asked for.", "Run again."},
		{LowIsolation, Unproven, "A test ran with less isolation than the policy asks for.", "Run on a host that offers it: truegreen doctor says what is missing."},
		{RedactedEvidence, Unproven, "A test is named after something that looks like a secret. Secrets are covered before anything is recorded, so the evidence does not say which test that is.", "Give the test a name of its own: names of tests are public. If it is a secret, replace it where it came from."},
		{ReceiptMissing, Unproven, "The configuration asks for a receipt of another tool that the run was not given.", "Give it with truegreen run --receipt NAME=FILE, or the input receipts of the action."},
		{ReceiptUnproven, Unproven, "A receipt of another tool has nothing wrong, and lacks what would prove it, such as the end of its chain.", "Give the whole chain, with the record that ends it. If its end does not matter, say allow-prefix: true of the receipt in .truegreen.yaml at the base."},
		{EvidenceTooLow, Unproven, "The evidence for a commit proves less than the release needs, or proves it relative to something else than what the commit changes.", "Run again with evidence.level in .truegreen.yaml, and --base the commit's first parent."},
		{PlanDiffers, Unproven, "What a bundle says was run is not what this repository configures at that base, or the base is not on its default branch. Nothing was run.", "Look at what the bundle was made of. Run truegreen run to test the patch by your own configuration."},
		{NoReproduction, Unproven, "The policy asks for a run that somebody else has made again with the same outcomes, and there is none.", "Have another signer run truegreen reproduce on the bundle, sign what comes out, and pass both."},
		{TooFewSigners, Unproven, "Fewer different signers vouch for a commit's tree than the release needs.", "Have somebody else run it, or sign the seal: truegreen gate reads NAME.sig beside NAME.tar.zst."},
		{TagNotSigned, Unproven, "The policy asks for a signed tag, and this one has no SSH signature of a signer whom it allows.", "Make the tag with git tag -s and gpg.format ssh, by someone whom gate.tag-signers names and allowed_signers has for the namespace git."},
		{TagElsewhere, Unproven, "The tag's commit is not one that the protected branch has been at.", "Tag a commit of the protected branch, or name the branch that you release from with --branch."},
		{HistoryRewritten, Unproven, "The last release is not part of the history of this one.", "Name the release that this one follows with --since. If the branch was rewritten, find out why."},

		{TestsFailed, Failed, "Tests failed, or started and did not end, on the head.", "The report names them; their output is in the bundle."},
		{BuildBroken, Failed, "Code or tests did not build on the head.", "The report names the packages; their output is in the bundle."},
		{TimedOut, Failed, "A test command ran into its time limit on the head.", "Make it faster or raise timeout in .truegreen.yaml at the base."},
		{CommandFailed, Failed, "A test command on the head failed or was killed, and no test explains it.", "See its output with truegreen inspect or extract."},
		{NeedsNested, Failed, "A test command on the head failed and had asked for what nested sandboxes begin with, such as new namespaces or mounts. The sandbox refuses these calls; the reason counts them.", "Run the tests that bring a sandbox of their own (bwrap, unshare, a browser's, a container engine's) outside of truegreen, or let them do without: browsers take --no-sandbox."},
		{UntrustedReport, Failed, "What a test command put out contradicts itself, or its exit code, in a way that it does not on the base.", "Read the signals in the report: something printed results that it did not have."},
		{OutputIncomplete, Failed, "A go test command wrote more than the output limit to its standard output, which is its report; so that is not whole.", "Make the tests quieter or raise limits.output in .truegreen.yaml at the base. Of the formats junit and exit standard output is no part of the report, and may be cut."},
		{TestsRemoved, Failed, "Tests of the base are gone on the head, and none with the same content has another name.", "Bring them back. If they are meant to go, say integrity: {removed: warn} in .truegreen.yaml at the base."},
		{TestsSkipped, Failed, "Tests that passed or failed on the base are skipped on the head.", "Let them run. If they are meant to be skipped, say integrity: {newly-skipped: warn} in .truegreen.yaml at the base."},
		{CanaryFailed, Failed, "A test of truegreen's own, which has to fail, did not turn its run red: what the tests of this package say does not depend on how they end.", "Look at TestMain or conftest.py, and at what ends the test process: its exit code has to be what m.Run returns."},
		{ReceiptUntrusted, Failed, "A receipt of another tool does not say what the configuration asks for, or is not by its keys, or is no receipt of the format.", "The detail says what was found. truegreen receipt verify asks the file by itself."},
		{PolicyFinding, Failed, "The patch has a finding that the policy at the base does not allow.", "Mend what the detail names, or change integrity in .truegreen.yaml at the base."},
		{NotReproduced, Failed, "The same tests on the same trees came out otherwise than the bundle says.", "The detail and the report name them. Tests that come out now so, now otherwise have to be mended, or named in integrity.unstable; else find out which of the two machines is wrong."},
		{NotMet, Failed, "An expression in gate.require is not true of the report, or cannot be evaluated.", "The detail names the expression; truegreen policy explain shows each rule."},

		{Usage, "", "Flags, arguments or a given file make no sense.", "See --help of the command."},
		{Unreadable, "", "A file, a terminal or an address could not be read or written.", "Check the path and its permissions, and of an address what answers there."},
		{NotARepository, "", "The folder is not in a Git repository.", "Change to one or pass --repo DIR."},
		{UnknownRevision, "", "A revision does not exist in the repository, or its objects are not all there.", "Fetch it, and check the spelling."},
		{ShallowClone, "", "The clone is shallow and the base is beyond its end.", "Run the printed git fetch command, or pass --base."},
		{EmptyDiff, "", "Base and head have the same tree: there is nothing to verify.", "Commit the change, or pass --base and --head."},
		{NothingToRun, "", "No test command is configured at the base, and none was detected.", "Add .truegreen.yaml (truegreen init writes one), or give the command behind --."},
		{BadConfig, "", "The configuration at the base does not parse.", "Mend the line that the message names."},
		{IsolationRefused, "", "This host cannot isolate the tests as the policy asks.", "truegreen doctor says what would fix it."},
		{OIDCBeside, "", "Tests would run in a job that can ask for OIDC tokens, with so little isolation that they might ask as well.", "Take id-token: write from the job that runs tests and give it to one that runs no code of the project. Or ask for isolation level 3."},
		{ForgeFailed, "", "The forge did not say what the bundle has to be about, or gave another answer than its API has.", "The detail says what was asked. Where a permission is missing, it names the lines of the workflow that give it; else run the job again."},
		{KeyUnsafe, "", "A key file can be read by others, or does not hold a key.", "chmod 600 the file, or make a new key with truegreen key init."},
		{DiskFull, "", "The disk is full.", "Free space where the state directory and the output are."},
		{HostileTree, "", "A tree holds a path that cannot be written safely, such as one below .git.", "Treat the patch as hostile."},
		{CorruptObject, "", "A Git object is not what its id says.", "Run git fsck in the repository and fetch it again."},
		{TreeTooLarge, "", "A tree is larger than the limits.", "Test a smaller repository, or a part of it."},
		{GitMissing, "", "There is no git command.", "Install Git 2.20 or newer and put it on the PATH."},
		{Internal, "", "truegreen itself failed.", "Report it, with the message."},
	}
}

// CauseOf returns the documentation of a code.
func CauseOf(code Code) (Cause, error) {
	for _, c := range Causes() {
		if c.Code == code {
			return c, nil
		}
	}
	return Cause{}, fmt.Errorf("reason %q: unknown", code)
}
