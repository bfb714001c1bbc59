// Package receipts records what a run did so that a stranger can check it: an
// event log whose frames are hash-chained, and receipts with MACs, chained too,
// one for each tool call. This text is the format; everything in it is checked by
// [ReadRun] and [Run.Join] unless it says otherwise.
//
// ‖ joins bytes, 0 is one zero byte, integers are little-endian, SHA256 and HMAC
// are SHA-256 and HMAC-SHA-256. A digest in text is 64 lower-case hexadecimal
// digits, an id 32 of them: its 16 bytes in the order of the wire.
//
// # Event log
//
// A log is a concatenation of frames with nothing before, between or behind them.
// The empty file is an intact log. Frame and log are CrustCore's, byte for byte.
// t is 16 where flag bit 0 is set and 0 otherwise, j the same for bit 1, P is the
// payload's length:
//
//	offset    length  field
//	0         4       magic         "CCEL"
//	4         2       version       1
//	6         1       flags         bit 0: has task_id, bit 1: has job_id, others 0
//	7         1       actor         0..5, see [Actor]
//	8         1       kind          0..29, see [Kind]
//	9         1       visibility    0 ModelVisible, 1 Internal
//	10        1       redaction     0 Clean, 1 Redacted
//	11        8       seq
//	19        8       timestamp     milliseconds since the Unix epoch
//	27        t       task_id
//	27+t      j       job_id
//	27+t+j    4       payload_len   P
//	31+t+j    32      payload_hash  SHA256(payload)
//	63+t+j    32      prev_hash     frame_hash of the frame before; zeros for the first
//	95+t+j    P       payload
//	95+t+j+P  32      frame_hash    SHA256(everything before it in this frame)
//
// A reader checks each frame in this order; the first failure is the log's, at
// that frame, counted from 0:
//
//  1. the fields in their order: the end of the file within a field is Truncated,
//     a wrong value BadMagic, BadVersion or BadDiscriminant, a payload_len beyond
//     the limit PayloadTooLarge, one beyond the file Truncated;
//  2. payload_hash: PayloadHashMismatch;
//  3. frame_hash: FrameHashMismatch;
//  4. prev_hash: PrevHashMismatch;
//  5. seq, which must exceed that of the frame before: NonMonotonicSeq.
//
// An intact log that does not end with the frame_hash that its reader expects is a
// HeadMismatch behind its last frame. Without such an expectation, anyone can cut
// frames off the end or write the whole log anew.
//
// A payload of a run's log has at most [MaxPayload] bytes; the format itself
// allows 2^32-1. A crash while a frame is written leaves a torn tail, which is
// Truncated; nothing is appended before [CutTail] has removed it.
//
// # Receipt
//
// A receipt binds one call to what was asked and what came back. Its body is
// CrustCore's; N is the number of artifacts:
//
//	offset    length  field
//	0         16      task_id
//	16        16      job_id
//	32        16      tool_call_id
//	48        32      tool_name_hash     SHA256(name of the tool)
//	80        32      args_hash          SHA256(args document)
//	112       32      result_hash        SHA256(result document)
//	144       4       artifact_count     N, at most 256
//	148       32·N    artifact_hashes    in the result document's order
//	148+32·N  8       event_seq          seq of the frame that holds this receipt
//	156+32·N  32      prev_receipt_hash  zeros for the first
//
// The record, which is stored, is body ‖ MAC: 220+32·N bytes, no more and no less.
//
//	MAC               = HMAC(receipt key, body)
//	chain hash        = SHA256(body)
//	prev_receipt_hash = chain hash of the receipt before
//	head              = chain hash of the last receipt, zeros if there is none
//
// A reader checks each receipt in this order: prev_receipt_hash (ChainMismatch),
// MAC (BadMac). A chain of another length or with another head than is expected is
// EndTruncated at its length. A reader without the key checks the links only, and
// anyone can make a chain that satisfies it.
//
// # Keys
//
// Every run has its own keys, derived with HKDF (RFC 5869, SHA-256) from a secret
// of 32 bytes and from the salt in the run's first frame:
//
//	receipt key = HKDF(secret, salt, "truegreen/v1 receipt" ‖ 0 ‖ task_id ‖ job_id, 32)
//	seal key    = HKDF(secret, salt, "truegreen/v1 seal"    ‖ 0 ‖ task_id ‖ job_id, 32)
//
// so a receipt of one run verifies in no other. Whoever has the secret can check
// and can forge.
//
// # Log of a run
//
// One run is one log. Every frame has the task id and the job id of the first,
// actor Kernel, visibility Internal, redaction Clean, and its index as seq: 0, 1,
// 2 and so on. The recorder never lets time run backwards; no reader relies on it.
//
//	task_id       first 16 bytes of SHA256("truegreen/v1 task" ‖ 0 ‖ patch document)
//	job_id        16 random bytes
//	tool_call_id  1 for the first call of the run, 2 for the next
//
// Ids are labels. What counts are the full digests beside them: whoever has the
// patch document compares its digest with the opening's and its task id with the
// frames'; this package does not.
//
//	frame             kind               payload
//	first             TaskCreated        Opening: the salt, not zero, and the patch
//	a call begins     ToolCallStarted    Start: call, tool, args
//	a call completes  ToolCallCompleted  the receipt's record
//	a risk is seen    RiskDetected       Risk; at most 4096 of them
//	last              TaskCompleted,     Closing: number of frames, this one included,
//	                  TaskFailed or      number and head of the receipts, blobs that are
//	                  TaskKilled         withheld
//
// No other kind occurs. Calls start in the order of their ids, complete once or
// never, in any order, and there are at most 32768. The last kind says how far the
// run came and nothing about tests: TaskCompleted, every planned call was made;
// TaskFailed, one that others need could not be made; TaskKilled, interrupted, or
// closed later by another process (resealed). A log without it is a run that was
// cut off: [Run.Closing] is nil.
//
// A log that is intact, and not a run's, is refused at a frame for one reason:
// NoOpening, ForeignFrame, MalformedRecord, CallOutOfOrder, AfterEnd or
// CountMismatch, see [RunBreak].
//
// # Documents
//
// Documents and the payloads called notes (Opening, Start, Risk, Closing) are JSON
// in UTF-8 with one encoding for each value:
//
//   - the members in the order below, "v":1 first, each once, no others;
//   - no white space, no null, no exponents or fractions, |n| < 2^53;
//   - escapes \" \\ \b \t \n \f \r, \u00xx with lower-case digits for the other
//     characters below U+0020, and no others;
//   - a member with ? is absent exactly where it is false, 0, "", an empty list or
//     not there; all others are always present;
//   - bytes are a string where they are UTF-8, and {"b64":"…"} in padded standard
//     base64 where they are not.
//
// A document has at most 1 MiB. These are the notes:
//
//	Opening   v, salt (digest), patch (digest of the patch document)
//	Start     v, call (number), tool (string), args (digest)
//	Risk      v, code (string), detail (bytes)
//	Closing   v, frames, receipts, head (digest), withheld? (list of {sha256, why
//	          (bytes)}), resealed? (bool), why? (bytes)
//
// The args document says what a call was asked to do:
//
//	v
//	tool      "materialise", "plan", "prepare", "import", "test", "judge"
//	name?     of the plan's entry
//	side?     "base" or "head": the tree
//	round?    1 for the first run of an entry on a side
//	format?   of what the command puts out
//	argv      list of bytes; empty where the tool runs no command
//	dir       bytes: working directory in the sandbox
//	env       list of bytes, NAME=value: the whole environment, without secrets
//	patch     digest of the patch document
//	tree?     tree hash in Git's SHA-256 object format
//	sandbox?  the isolation that was asked for:
//	    min_level     least level that is accepted
//	    network       "none" or "host"
//	    connect?      list of loopback ports of the host, "127.0.0.1:5432", that
//	                  are to be in reach
//	    mounts        list of bytes, "KIND TARGET", in the order of mounting
//	    wall_s        limit of wall-clock time, seconds
//	    pids          limit of processes and threads
//	    memory_bytes  limit of memory
//	    cpu_milli?    limit of processors, in thousandths, for all processes
//	                  together; without it there is none
//	    output_bytes  limit of what is kept of each output stream
//	    disk_bytes    limit of what is written
//	    inodes        limit of files written
//	    files         limit of files that are collected after the command
//	    file_bytes    limit of their size, together
//
// The result document says what it came to:
//
//	v
//	state     "exited", "signaled", "timeout", "canceled", "could-not-start",
//	          "not-run", "failed"
//	exit      exit code; 0 unless state is "exited"
//	signal?   there exactly where state is "signaled"
//	why?      bytes: the reason where a command did not run or truegreen failed
//	start_ms  milliseconds since the Unix epoch
//	end_ms    milliseconds since the Unix epoch
//	cpu_ms?   user and system time, milliseconds
//	peak_memory_bytes?
//	stdout    {sha256, bytes, kept}: bytes were written, the first kept of them are
//	          the blob sha256; zeros where kept is 0; 0 ≤ kept ≤ bytes
//	          covered?  where secrets were replaced, before anything was kept, by as
//	          many asterisks: {rules, count, spans}: the digest of the rules that
//	          looked for them, how many there were, 1 at least, and of the first 16
//	          {at, bytes, rule}: offset and length in the blob, and which rule; in
//	          their order, none within another
//	stderr    the same
//	files     list of {name (bytes), sha256, size, covered?}: blobs that the call made
//	notes?    list of {name, value (bytes)}: facts that the call found
//	isolation?  what was measured from inside:
//	    level         0 to 4
//	    mode
//	    via?          what made the walls, where another program did: "sudo", or the
//	                  name and version of an engine
//	    image?        of a container: the config digest of its image
//	    image_digest?  the image's name by repository digest, where it has one
//	    network
//	    connect?      list of loopback ports of the host that were in reach
//	    uid           of the command, on the host
//	    namespaces    list of those that differ from the caller's
//	    no_new_privs, caps_empty, seccomp  bool
//	    landlock_abi  0: none
//	    kill          what ends every process
//	    probes        list of {name, got, ok}: "ok", the name of an errno or a fact,
//	                  and whether that is what had to be got
//	    limits        list of {name, by, value, peak?, hit?}: who enforces it, the
//	                  value read back, the highest use, whether it was reached
//	    fallbacks?    list of {mode, why}: stronger modes that were tried before
//	redactions  number of outputs out of which a secret was taken, or in which one
//	          is covered. The completion frame is Redacted exactly where it is not 0
//
// The artifacts of a receipt are the digests of stdout and of stderr, each unless
// its kept is 0, then those of the files in order. More than 256 have no receipt.
//
// # Join
//
// Receipts and frames must describe the same calls. [Join] is CrustCore's and knows
// the first four rules; [JoinStrict] and [Run.Join], which truegreen uses, know
// all. For each receipt, in order:
//
//  1. a frame has its event_seq (NoFrameAtSeq); of several the first counts;
//  2. which is a ToolCallCompleted (NotAToolCompletion);
//  3. of the same task (TaskMismatch);
//  4. and the same job (JobMismatch);
//  5. and comes after the frames of the receipts before (FrameTaken);
//  6. its payload is the receipt's record (PayloadMismatch);
//  7. a ToolCallStarted frame before it has the receipt's call, a tool with its
//     tool_name_hash and its args_hash, and no receipt before has the call
//     (NotStarted);
//  8. the args document is there (ArgsMissing), is one, and names that tool
//     (ArgsMismatch);
//  9. the result document is there (ResultMissing), is one, and its artifacts are
//     the receipt's (ResultMismatch);
//  10. every artifact is there or is withheld by the terminal frame
//     (ArtifactMissing).
//
// Then every ToolCallCompleted frame must have a receipt (FrameWithoutProof).
//
// # Tree, checkpoint and proof
//
// The root of a log is the RFC 6962 tree hash over its frames, each leaf a whole
// encoded frame: leaf = SHA256(0 ‖ frame), node = SHA256(1 ‖ left ‖ right), root of
// no frames = SHA256 of nothing. A [Checkpoint] states it as the text of a C2SP
// tlog-checkpoint, a [Proof] that one frame is under it as a C2SP tlog-proof.
//
// # Example
//
// A run of one call. The patch document, the args document and the result document
// are blobs; so is the call's stdout, "ok" and a line feed.
//
//	{"v":1,"example":"patch document"}
//
//	{"v":1,"tool":"test","argv":["true"],"dir":".","env":[],"patch":"
//	1efbb7ccbf88d31a70c8d367d80d5d946a45826960d58fa93fee99862c33a5be"}
//
//	{"v":1,"state":"exited","exit":0,"start_ms":1700000000000,
//	"end_ms":1700000000500,"stdout":{"sha256":"
//	dc51b8c96c2d745df3bd5590d990230a482fd247123599548e0632fdbf97fc22",
//	"bytes":3,"kept":3},"stderr":{"sha256":"
//	0000000000000000000000000000000000000000000000000000000000000000",
//	"bytes":0,"kept":0},"files":[],"redactions":0}
//
// (Line breaks in JSON are for this page.) The secret is 32 bytes of 2a, the salt
// SHA256("example salt"):
//
//	task        c1cd7c083778632f59d931bcbd24cbe7
//	job         01000000000000000000000000000080
//	salt        e0fcab987236cb02bba4919f9ea8280d163a58209cd8960a5204d152dbdf4e2d
//	receipt key b67fea61cccdda4b169b6f3b65c2e6f46cf22a12715d94dcb6118190288ed5b8
//
// Frame 0, TaskCreated, 315 bytes at offset 0:
//
//	{"v":1,"salt":"
//	e0fcab987236cb02bba4919f9ea8280d163a58209cd8960a5204d152dbdf4e2d","patch":"
//	1efbb7ccbf88d31a70c8d367d80d5d946a45826960d58fa93fee99862c33a5be"}
//
//	4343454c01000300000100  magic, version, flags, actor, kind, visibility, redaction
//	00000000000000000068e5cf8b010000  seq, time
//	c1cd7c083778632f59d931bcbd24cbe7  task_id
//	01000000000000000000000000000080  job_id
//	9c000000  payload_len: 156
//	d91eb8d7592663edda808d4e6fa8b2ab399fc4fb972e081e5d1fc5482726741e  payload_hash
//	0000000000000000000000000000000000000000000000000000000000000000  prev_hash
//	7b2276223a312c2273616c74223a226530666361623938373233366362303262  payload
//	6261343931396639656138323830643136336135383230396364383936306135
//	323034643135326462646634653264222c227061746368223a22316566626237
//	6363626638386433316137306338643336376438306435643934366134353832
//	3639363064353866613933666565393938363263333361356265227d
//	f7bb9e186292c89da40560fd343264744c8fe3d9ccf541c37dc00617ec3d1ec5  frame_hash
//
// Frame 1, ToolCallStarted, 263 bytes at offset 315:
//
//	{"v":1,"call":1,"tool":"test","args":"
//	2c9fc20c80401f867b916d13549a62fe1efaa166af883ba008eaadba9b8648c9"}
//
//	4343454c01000300090100  magic, version, flags, actor, kind, visibility, redaction
//	0100000000000000e86be5cf8b010000  seq, time
//	c1cd7c083778632f59d931bcbd24cbe7  task_id
//	01000000000000000000000000000080  job_id
//	68000000  payload_len: 104
//	cd439523145b5429df86fbac7b9630163dc9de6f27f203caa18610bfb76bdaa2  payload_hash
//	f7bb9e186292c89da40560fd343264744c8fe3d9ccf541c37dc00617ec3d1ec5  prev_hash
//	7b2276223a312c2263616c6c223a312c22746f6f6c223a2274657374222c2261  payload
//	726773223a223263396663323063383034303166383637623931366431333534
//	3961363266653165666161313636616638383362613030386561616462613962
//	383634386339227d
//	acce43b702e0c324470f374a277a17e5e1b22778dd241a276b73b9b344adf13a  frame_hash
//
// Frame 2, ToolCallCompleted, 411 bytes at offset 578:
//
//	4343454c010003000a0100  magic, version, flags, actor, kind, visibility, redaction
//	0200000000000000d06fe5cf8b010000  seq, time
//	c1cd7c083778632f59d931bcbd24cbe7  task_id
//	01000000000000000000000000000080  job_id
//	fc000000  payload_len: 252
//	3932115318846188d5721324d5aabc59637821edc23b3d52e13553b8e16ed6c7  payload_hash
//	acce43b702e0c324470f374a277a17e5e1b22778dd241a276b73b9b344adf13a  prev_hash
//	c1cd7c083778632f59d931bcbd24cbe7  task_id
//	01000000000000000000000000000080  job_id
//	01000000000000000000000000000000  tool_call_id
//	9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  tool_name_hash
//	2c9fc20c80401f867b916d13549a62fe1efaa166af883ba008eaadba9b8648c9  args_hash
//	4606068d72c7a8f55ad171b3190f4483460db438e4c0eaab0795ab95fee3d76d  result_hash
//	01000000  artifact_count
//	dc51b8c96c2d745df3bd5590d990230a482fd247123599548e0632fdbf97fc22  artifact_hashes[0]
//	0200000000000000  event_seq
//	0000000000000000000000000000000000000000000000000000000000000000  prev_receipt_hash
//	fce4b333d4daedf9cddbf271d83af2b0a616f470d7371c9c05d8c1dfe2a17fd3  MAC
//	6c7cb8baecf73ef6da8599daa326468cc063efe7a1316cc8a62a7db388656670  frame_hash
//
// Frame 3, TaskCompleted, 264 bytes at offset 989:
//
//	{"v":1,"frames":4,"receipts":1,"head":"
//	1f3b206c8e31ce5c0ad95590f0b4ba249655df5cda431176bfe9f66724335be1"}
//
//	4343454c010003001b0100  magic, version, flags, actor, kind, visibility, redaction
//	0300000000000000b873e5cf8b010000  seq, time
//	c1cd7c083778632f59d931bcbd24cbe7  task_id
//	01000000000000000000000000000080  job_id
//	69000000  payload_len: 105
//	d75e71fd704f9f730bfb0d2b144bfe2f10a748137db0d0061d240e3f39b4e6a3  payload_hash
//	6c7cb8baecf73ef6da8599daa326468cc063efe7a1316cc8a62a7db388656670  prev_hash
//	7b2276223a312c226672616d6573223a342c227265636569707473223a312c22  payload
//	68656164223a2231663362323036633865333163653563306164393535393066
//	3062346261323439363535646635636461343331313736626665396636363732
//	34333335626531227d
//	26a3e276f8c85ad5b170bfda74295de2ce7b15e18148342830f9f5e7cad234e6  frame_hash
//
// These 1253 bytes have
//
//	log  61ba2d16010b6e979a52e6e6b073f3e3cdc5c784c3067ff2f79363652612f808
//	root f417d237a2f2a1697aeca2dcaf16753c481a621df742f9cf82d6eac1a7bf0d96
//	head 1f3b206c8e31ce5c0ad95590f0b4ba249655df5cda431176bfe9f66724335be1
//
// where log is the SHA-256 of the file.
package receipts
