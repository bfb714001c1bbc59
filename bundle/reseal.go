package bundle

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/truegreen-dev/truegreen/receipts"
)

// ErrNoRun says that a directory holds no run that could be resealed: it was
// interrupted before its first frame was whole.
var ErrNoRun = errors.New("run: nothing was recorded")

// Resume opens the run that an interrupted process left in dir. It cuts a torn
// tail off the log, checks all of it under the receipt key, and returns a
// recorder for [Recorder.Reseal], with what the log says. A log that breaks, or whose
// MACs are not the key's, stays as it is and is an error.
func Resume(dir string, keys Keys, now func() time.Time) (*Recorder, *receipts.Run, error) {
	file, err := os.OpenFile(filepath.Join(dir, logFile), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, ErrNoRun
	}
	if err != nil {
		return nil, nil, fmt.Errorf("log: %w", err)
	}
	r, run, err := resume(file, keys)
	if err == nil {
		r.spool, err = NewSpool(dir)
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	r.now, r.file = now, file
	return r, run, nil
}

// Keys returns a run's key of a purpose.
type Keys func(purpose string, salt receipts.Digest, task, job receipts.ID) (receipts.Key, error)

func resume(file *os.File, keys Keys) (*Recorder, *receipts.Run, error) {
	if _, err := receipts.CutTail(file); err != nil {
		return nil, nil, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, nil, fmt.Errorf("log: %w", err)
	}
	r := &Recorder{digest: sha256.New()}
	var receiptKey, sealKey receipts.Key
	run, err := receipts.ReadRun(io.TeeReader(file, r.digest), func(salt receipts.Digest, task, job receipts.ID) (receipts.Key, error) {
		var err error
		if sealKey, err = keys(receipts.PurposeSeal, salt, task, job); err != nil {
			return receipts.Key{}, err
		}
		receiptKey, err = keys(receipts.PurposeReceipt, salt, task, job)
		return receiptKey, err
	})
	if run != nil && run.Frames == 0 {
		return nil, nil, ErrNoRun
	}
	if err != nil {
		return nil, nil, err
	}
	r.auth = Authenticators{Receipt: receiptKey, Seal: sealKey}
	if r.chain, err = receipts.ResumeChain(r.auth.Receipt, run.Receipts); err != nil {
		return nil, nil, err
	}
	if r.log, err = receipts.OpenLog(file); err != nil {
		return nil, nil, err
	}
	r.seal = Seal{
		Task: run.Task, Job: run.Job, Patch: run.Opening.Patch, Start: run.Began, End: run.Ended,
		Resealed: true,
	}
	if run.Closing != nil {
		r.ended = outcomes[run.Outcome]
	}
	r.calls = uint64(len(run.Calls))
	return r, run, r.replay(file, run)
}

// replay builds the tree over the frames that the log has.
func (r *Recorder) replay(file *os.File, run *receipts.Run) error {
	end, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	frames := receipts.NewLogReader(io.NewSectionReader(file, 0, end), receipts.MaxPayload)
	for range run.Frames {
		if _, err := frames.Next(); err != nil {
			return err
		}
		r.tree.Append(frames.Raw())
	}
	return nil
}

// Reseal writes the bundle of a resumed run with the MAC alone. A run that had
// not ended ends as killed.
func (r *Recorder) Reseal(path string, s Statement, check func(*Reader) error) ([]byte, error) {
	s.Sign = nil
	if s.Outcome = r.ended; s.Outcome == "" {
		s.Outcome = OutcomeKilled
		return r.Seal(path, s, check)
	}
	return r.write(path, s, check)
}
