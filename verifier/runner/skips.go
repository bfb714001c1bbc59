package runner

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/truegreen-dev/truegreen/internal/prepush"
	"github.com/truegreen-dev/truegreen/receipts"
)

// skipsFile, in the state folder, has a line for each push for which someone said that it
// is to go without evidence. It is a record and nothing else: no verification reads it.
const skipsFile = "skips.jsonl"

// Bounds of a line.
const (
	maxSkipReason = 1024 // bytes
	maxSkipRefs   = 256
)

// A Skip is a push without evidence, with the reason that was given.
type Skip struct {
	V          int            `json:"v"`
	Time       string         `json:"time"` // RFC 3339, UTC
	Repository string         `json:"repository"`
	Remote     receipts.Bytes `json:"remote"` // its name; "" for a push by URL, which could hold a password
	Reason     receipts.Bytes `json:"reason"`
	Refs       []SkippedRef   `json:"refs"` // at most 256
	Count      int            `json:"count"`
}

// A SkippedRef is a reference of the remote and the commit that it becomes.
type SkippedRef struct {
	Ref    receipts.Bytes `json:"ref"`
	Commit string         `json:"commit"` // or what there is in its place
}

// NewSkip returns the record of a push.
func NewSkip(now time.Time, repository, remote, reason string, updates []prepush.Update) Skip {
	s := Skip{
		V: receipts.DocumentVersion, Time: now.UTC().Format(time.RFC3339), Repository: repository,
		Remote: receipts.Bytes(remote), Reason: receipts.Bytes(reason[:min(len(reason), maxSkipReason)]), Refs: []SkippedRef{},
	}
	for _, u := range updates {
		if u.Deletes() {
			continue
		}
		if s.Count++; s.Count <= maxSkipRefs {
			s.Refs = append(s.Refs, SkippedRef{receipts.Bytes(u.Remote), u.LocalID})
		}
	}
	return s
}

// RecordSkip appends a record to those in a state folder.
func RecordSkip(state string, s Skip) error {
	line, err := receipts.Encode(&s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(state, skipsFile), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	var last [1]byte
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		if _, err := f.ReadAt(last[:], info.Size()-1); err == nil && last[0] != '\n' {
			line = append([]byte{'\n'}, line...) // what was cut off does not spoil this one
		}
	}
	_, err = f.Write(line) // at once, so that two of them do not mix
	if err == io.EOF {
		err = nil
	}
	return errors.Join(err, f.Close())
}
