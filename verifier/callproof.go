package verifier

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
)

// A CallProof shows one call to someone who does not have the bundle: the frame
// with its receipt, the args and the result document, and where the frame is
// under the seal. Its text is a C2SP tlog-proof whose extra data is a document:
//
//	{"v":1,"frame":B,"args":B,"result":B}
//
// B is a string with the bytes, {"b64":"…"} for the frame.
type CallProof struct {
	Seal    bundle.Seal
	Text    []byte // of the seal
	Note    []byte // the checkpoint as it stands in the proof, with signature lines if any
	Frame   receipts.Frame
	Receipt receipts.Receipt
	Args    receipts.Args
	Result  receipts.Result
}

type callExtra struct {
	V      int            `json:"v"`
	Frame  receipts.Bytes `json:"frame"`
	Args   receipts.Bytes `json:"args"`
	Result receipts.Bytes `json:"result"`
}

// ProveCall returns the proof text of a call of a bundle that verification found
// sound. note is the seal's text, or a signed note of it.
func ProveCall(r io.ReaderAt, size int64, call uint64, note []byte, l bundle.Limits) ([]byte, error) {
	b, err := bundle.Open(r, size, l)
	if err != nil {
		return nil, err
	}
	var run *receipts.Run
	if err := b.Walk(func(e bundle.Entry, body io.Reader) (err error) {
		if e.Name == memberLog {
			run, err = receipts.ReadRun(body, nil)
		}
		return err
	}); err != nil {
		return nil, err
	}
	if call == 0 || call > uint64(len(run.Calls)) || run.Calls[call-1].Receipt < 0 {
		return nil, fmt.Errorf("call %d: the run has no such completed call", call)
	}
	receipt := &run.Receipts[run.Calls[call-1].Receipt]
	log, err := b.Log()
	if err != nil {
		return nil, err
	}
	defer log.Close()
	proof, frame, err := receipts.Prove(log, receipt.EventSeq)
	if err != nil {
		return nil, err
	}
	extra := callExtra{V: receipts.DocumentVersion, Frame: receipts.Bytes(frame)}
	blobs := newBlobStore(b, run)
	for _, doc := range []struct {
		to *receipts.Bytes
		d  receipts.Digest
	}{{&extra.Args, receipt.Args}, {&extra.Result, receipt.Result}} {
		raw, err := blobs.Document(doc.d)
		if err != nil {
			return nil, err
		}
		*doc.to = receipts.Bytes(raw)
	}
	if proof.Extra, err = receipts.Encode(&extra); err != nil {
		return nil, err
	}
	proof.Checkpoint = note
	return proof.Append(nil)
}

var errCallProof = errors.New("call proof: its parts do not belong together")

// CheckCall reads a proof and checks that its parts belong together and that the
// frame is under the seal. It does not say who sealed: verify the seal's text in
// Text, or open Note.
func CheckCall(text []byte) (CallProof, error) {
	p, err := receipts.ParseProof(text)
	if err != nil {
		return CallProof{}, err
	}
	var extra callExtra
	if err := receipts.Decode(p.Extra, &extra); err != nil {
		return CallProof{}, fmt.Errorf("call proof: %w", err)
	}
	if extra.V != receipts.DocumentVersion {
		return CallProof{}, fmt.Errorf("call proof: unknown version %d", extra.V)
	}
	c := CallProof{Text: p.Text(), Note: p.Checkpoint}
	if c.Seal, err = bundle.ParseSeal(c.Text); err != nil {
		return CallProof{}, err
	}
	raw := []byte(extra.Frame)
	if err := p.Check(raw, c.Seal.Root, c.Seal.Frames); err != nil {
		return CallProof{}, err
	}
	frame, n, reason := receipts.DecodeFrame(raw)
	if reason != "" || n != len(raw) || frame.Kind != receipts.ToolCallCompleted || frame.Task != c.Seal.Task || frame.Job != c.Seal.Job {
		return CallProof{}, fmt.Errorf("%w: frame", errCallProof)
	}
	frame.Payload = bytes.Clone(frame.Payload)
	c.Frame = frame
	if c.Receipt, err = receipts.ParseRecord(frame.Payload); err != nil {
		return CallProof{}, err
	}
	if c.Receipt.Task != frame.Task || c.Receipt.Job != frame.Job {
		return CallProof{}, fmt.Errorf("%w: receipt", errCallProof)
	}
	if c.Receipt.Args != receipts.Sum([]byte(extra.Args)) || c.Receipt.Result != receipts.Sum([]byte(extra.Result)) || c.Receipt.EventSeq != frame.Seq {
		return CallProof{}, fmt.Errorf("%w: documents", errCallProof)
	}
	if c.Args, err = receipts.ParseArgs([]byte(extra.Args)); err != nil {
		return CallProof{}, err
	}
	if c.Result, err = receipts.ParseResult([]byte(extra.Result)); err != nil {
		return CallProof{}, err
	}
	if c.Receipt.ToolName != receipts.Sum([]byte(c.Args.Tool)) {
		return CallProof{}, fmt.Errorf("%w: tool", errCallProof)
	}
	if (frame.Redaction == receipts.Redacted) != (c.Result.Redacted > 0) {
		return CallProof{}, fmt.Errorf("%w: redactions", errCallProof)
	}
	if !slices.Equal(c.Receipt.Artifacts, c.Result.Artifacts()) {
		return CallProof{}, fmt.Errorf("%w: artifacts", errCallProof)
	}
	return c, nil
}
