package forge

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Commenting says how a report is commented. The zero value updates one comment
// with each report.
type Commenting struct {
	// Mode is update (""), which edits the comment that is there; recreate, which
	// replaces it by one at the end of the conversation when what it says has
	// changed; minimise, which is update and folds the comment when all is
	// verified; or off.
	Mode string
	// On is always (""); failure: a green report makes no comment, but updates one
	// that is there, which would stay red otherwise; change: a report that says for
	// the same head what the comment says already is not posted.
	On string
}

// Values of [Commenting].
const (
	CommentUpdate   = "update"
	CommentRecreate = "recreate"
	CommentMinimise = "minimise"
	CommentOff      = "off"

	OnAlways  = "always"
	OnFailure = "failure"
	OnChange  = "change"
)

// An Outcome says what became of a comment.
type Outcome string

// The outcomes of [Client.PostComment].
const (
	CommentNone       Outcome = ""           // an error
	CommentCreated    Outcome = "created"    // there was none
	CommentUpdated    Outcome = "updated"    // there was one
	CommentSkipped    Outcome = "skipped"    // asked for: off, failure, change
	CommentStale      Outcome = "stale"      // the pull request has another head; with an address: since it was posted
	CommentSuperseded Outcome = "superseded" // a later run, or attempt, has reported on this head
)

const unsaidBackoff = 2 * time.Second

// PostComment shows a report on a pull request, in one comment for each key: the
// first line is the mark, the rest is what body returns. Body is told what the
// comment that is there says, nil if there is none, and it may be called more than
// once. The nonce of the mark is set here.
//
// The forge has no way to change a comment only if nobody else has. So: a report on
// another head than the pull request's, or by an earlier run than the comment's, is
// not posted; after a comment was created, the comments are listed again, and of
// several the oldest stays with the latest report; the others, if they are the
// token's own, are deleted.
func (c *Client) PostComment(ctx context.Context, pull Pull, m Mark, body func(previous *Mark) string, how Commenting) (url string, _ Outcome, _ error) {
	if err := how.check(); err != nil {
		return "", CommentNone, err
	}
	if how.Mode == CommentOff {
		return "", CommentSkipped, nil
	}
	n, err := c.token()
	if err != nil {
		return "", CommentNone, err
	}
	m.Nonce = n
	if err := m.check(); err != nil {
		return "", CommentNone, err
	}
	ctx, done := c.bound(ctx)
	defer done()
	p := posting{Client: c, ctx: ctx, pull: pull, mark: m, body: body, how: how}
	k, outcome, err := p.post()
	if err != nil {
		return "", CommentNone, fmt.Errorf("comment on pull request %d: %w", pull.Number, c.explain(err, pull.Fork))
	}
	return k.url, outcome, nil
}

func (h *Commenting) check() error {
	if h.Mode == "" {
		h.Mode = CommentUpdate
	}
	if h.On == "" {
		h.On = OnAlways
	}
	switch h.Mode {
	case CommentUpdate, CommentRecreate, CommentMinimise, CommentOff:
	default:
		return fmt.Errorf("comment: mode %s", quote(h.Mode))
	}
	switch h.On {
	case OnAlways, OnFailure, OnChange:
	default:
		return fmt.Errorf("comment: on %s", quote(h.On))
	}
	return nil
}

// token returns 128 random bits.
func (c *Client) token() (string, error) { return randomHex(c.o.Random) }

func randomHex(random io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("random: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// A posting is one report on its way to one pull request.
type posting struct {
	*Client
	ctx  context.Context
	pull Pull
	mark Mark
	body func(*Mark) string
	how  Commenting
}

func (p *posting) post() (comment, Outcome, error) {
	t, err := p.thread(p.ctx, p.pull.Number, p.mark.Key)
	if err != nil {
		return comment{}, CommentNone, err
	}
	if t.head != p.mark.Head {
		return comment{}, CommentStale, nil
	}
	if len(t.own) == 0 {
		if p.how.On == OnFailure && p.green() {
			return comment{}, CommentSkipped, nil
		}
		return p.first()
	}
	current := latest(t.own)
	if p.older(current) {
		return current, CommentSuperseded, nil
	}
	if p.how.On == OnChange && current.mark != nil && current.mark.Head == p.mark.Head && current.mark.same(p.mark) {
		return current, CommentSkipped, nil
	}
	var k comment
	if p.how.Mode == CommentRecreate && (current.mark == nil || !current.mark.same(p.mark)) {
		// The new one first: if it cannot be made, the old one is still there.
		if k, err = p.add(p.ctx, p.pull.Number, p.mark, p.text(current.mark)); err != nil {
			return comment{}, CommentNone, err
		}
		return p.replaced(k)
	}
	if k, err = p.edit(p.ctx, t.own[0], p.text(current.mark)); hasStatus(err, http.StatusNotFound) {
		return p.first() // somebody deleted it a moment ago
	}
	if err != nil {
		return comment{}, CommentNone, err
	}
	p.removeAll(t.own[1:])
	return p.finish(k, CommentUpdated)
}

func (p *posting) green() bool { return p.mark.Verdict == "verified" }

// older reports whether the comment is by a later run than this report. Only a
// comment on the same head can be: this report is on the one that the pull request
// has now.
func (p *posting) older(k comment) bool {
	return k.mark != nil && k.mark.Head == p.mark.Head && k.mark.after(p.mark)
}

// latest returns the comment with the latest report.
func latest(own []comment) (k comment) {
	for _, o := range own {
		if o.mark != nil && (k.mark == nil || o.mark.after(*k.mark)) {
			k = o
		}
	}
	return k
}

func (p *posting) text(previous *Mark) string {
	return p.mark.String() + "\n" + strings.ReplaceAll(p.body(previous), "\r", "")
}

// first creates the comment, and settles with jobs that do so at the same time.
func (p *posting) first() (comment, Outcome, error) {
	mine, err := p.add(p.ctx, p.pull.Number, p.mark, p.text(nil))
	if err != nil {
		return comment{}, CommentNone, err
	}
	t, err := p.thread(p.ctx, p.pull.Number, p.mark.Key)
	if err != nil || len(t.own) == 0 {
		// It is posted. Any second one is for the next run to remove.
		return p.finish(mine, CommentCreated)
	}
	oldest := t.own[0]
	if oldest.id == mine.id {
		for _, k := range t.own[1:] {
			// A later report is moved here by the job that made it.
			if !p.older(k) {
				p.removeAll([]comment{k})
			}
		}
		mine.node = oldest.node
		return p.finish(mine, CommentCreated)
	}
	kept, outcome := latest(t.own), CommentSuperseded
	if !p.older(kept) {
		outcome = CommentUpdated
		if kept, err = p.edit(p.ctx, oldest, p.text(oldest.mark)); hasStatus(err, http.StatusNotFound) {
			return p.finish(mine, CommentCreated)
		}
		if err != nil {
			return comment{}, CommentNone, err
		}
	}
	p.removeAll([]comment{mine})
	return p.finish(kept, outcome)
}

// replaced removes the comments that a new one replaces, unless one of them is by
// a later run that replaced at the same time.
func (p *posting) replaced(mine comment) (comment, Outcome, error) {
	t, err := p.thread(p.ctx, p.pull.Number, p.mark.Key)
	if err != nil {
		return p.finish(mine, CommentCreated)
	}
	if last := latest(t.own); len(t.own) > 0 && p.older(last) {
		p.removeAll([]comment{mine})
		return last, CommentSuperseded, nil
	}
	for _, k := range t.own {
		if k.id != mine.id {
			p.removeAll([]comment{k})
		} else {
			mine.node = k.node
		}
	}
	return p.finish(mine, CommentCreated)
}

// removeAll deletes duplicates. One that cannot be deleted is found by the next
// run, and the report is shown whether it can or not.
func (p *posting) removeAll(own []comment) {
	for _, k := range own {
		if err := p.remove(p.ctx, k); err != nil {
			return
		}
	}
}

// finish folds or unfolds the comment, and looks whether the head has moved under
// it. A comment that somebody hid by hand is shown again when it turns red. What
// folds is for the eye alone, so it may go wrong.
func (p *posting) finish(k comment, outcome Outcome) (comment, Outcome, error) {
	if outcome == CommentSuperseded {
		return k, outcome, nil
	}
	switch {
	case !p.green():
		_ = p.hide(p.ctx, k, false)
	case p.how.Mode == CommentMinimise:
		_ = p.hide(p.ctx, k, true)
	}
	if now, err := p.Client.pull(p.ctx, p.pull.Number); err == nil && now.Head != p.mark.Head {
		return k, CommentStale, nil
	}
	return k, outcome, nil
}
