//go:build amd64 || arm64

package conformance

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// supervisorMain carries an order out and writes the answer.
func supervisorMain(config string) int {
	var o order
	err := json.Unmarshal([]byte(config), &o)
	var a answer
	if err == nil {
		a.Ends, err = carryOut(context.Background(), o)
	}
	var no *sandbox.RefusedError
	switch {
	case errors.As(err, &no):
		a.Refused = no
	case err != nil:
		a.Error = err.Error()
	}
	b, err := json.Marshal(a)
	if err != nil {
		return 1
	}
	say(string(b))
	return 0
}

// A supervisor has planted the targets and knows what the mode is worth.
type supervisor struct {
	targets *targets
	in      Inside
	mounts  []sandbox.Mount
	image   string
}

func carryOut(ctx context.Context, o order) ([]end, error) {
	t, err := plant(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("plant targets: %w", err)
	}
	defer t.remove()
	s := &supervisor{targets: t, in: Inside{Outside: t.Outside, Mode: o.Mode}, image: o.Image}
	if err := s.measure(ctx); err != nil {
		return nil, err
	}
	var failed []error
	ends, rows := make([]end, len(o.IDs)), make([]Row, len(o.IDs))
	var shared []string
	for i, id := range o.IDs {
		row, ok := find(id)
		if !ok {
			return nil, fmt.Errorf("row %s: there is none", id)
		}
		rows[i] = row
		out := &ends[i]
		out.Level = s.in.Level
		if row.Host && o.Mode == sandbox.ModeContainer {
			out.Status, out.Why = NotExercised, "uses programs of the host, which a container has not"
			continue
		}
		if row.Needs != nil {
			out.Why = row.Needs()
		}
		if out.Why == "" && row.Control != nil {
			got := onThread(rowTimeout, func() string { return row.Control(&s.in.Outside) })
			var refused bool
			switch out.Why, refused = strings.CutPrefix(got, hostRefuses); {
			case got == "ok":
				out.Why = ""
			case !refused:
				out.Why = "control: " + got
				failed = append(failed, fmt.Errorf("row %s, %s: control: %s", id, row.Name, got))
			}
		}
		switch {
		case out.Why != "":
			out.Status = NotExercised
		case row.Own && out.Level < row.Level:
			out.Status, out.Got = NotPromised, "not tried" // nothing would keep it from the host
		case !row.Own:
			shared = append(shared, id)
		}
	}
	got, err := launch(s.start).batch(ctx, shared)
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		out := &ends[i]
		if out.Status != "" {
			continue
		}
		if row.Own {
			if out.Got, err = s.own(ctx, row); err != nil {
				return nil, fmt.Errorf("row %s: %w", row.ID, err)
			}
		} else {
			out.Got = got[row.ID]
		}
		if row.After != nil {
			if after := row.After(&s.in.Outside); after != "ok" {
				out.Got += "; " + after
			}
		}
		out.Status = row.judge(out.Level, out.Got)
	}
	if !t.victimLives() {
		failed = append(failed, errors.New("the victim did not live to the end"))
	}
	return ends, errors.Join(failed...)
}

// measure enters the mode once and takes its level down. What no overlay can
// be put over is mounted as it is.
func (s *supervisor) measure(ctx context.Context) error {
	dir := filepath.Dir(s.in.Program)
	var err error
	for _, kind := range []sandbox.MountKind{sandbox.Overlay, sandbox.Writable} {
		s.mounts = []sandbox.Mount{
			{Source: dir, Target: dir, Kind: sandbox.ReadOnly},
			{Source: s.in.Work, Target: s.in.Work, Kind: kind},
		}
		var r sandbox.Result
		if r, err = sandbox.Run(ctx, s.spec(nil)); err == nil {
			s.in.Level = r.Isolation.Level
			if r.State != sandbox.StateExited || r.Exit != 0 {
				err = fmt.Errorf("the program does not run inside: %s, exit code %d %s", r.State, r.Exit, r.Why)
			}
			return err
		}
		var no *sandbox.RefusedError
		if !errors.As(err, &no) {
			return err
		}
	}
	return err
}

// batchLimit bounds a sandbox with many rows.
const batchLimit = 4 * time.Minute

func (s *supervisor) spec(ids []string) sandbox.Spec {
	return sandbox.Spec{
		Argv: append([]string{nameInside, s.in.argument()}, ids...),
		// Where these are inside is the mode's affair.
		Env: []string{
			"PATH=" + filepath.Dir(s.in.Program) + ":/usr/bin:/bin", "HOME=/home/sandbox", "TMPDIR=/tmp", workName + "=" + s.in.Work,
		},
		Mounts:   s.mounts,
		MinLevel: s.in.Level,
		Modes:    []sandbox.Mode{s.in.Mode},
		Image:    s.image,
		Limits:   sandbox.Limits{Wall: batchLimit},
	}
}

// argument returns in as one argument. No path can be read in it: some modes
// rewrite paths, and the targets are those of the host.
func (in *Inside) argument() string {
	b, err := json.Marshal(in)
	if err != nil {
		panic(err) // strings and numbers
	}
	return hex.EncodeToString(b)
}

func (s *supervisor) start(ctx context.Context, ids []string) (string, error) {
	spec := s.spec(ids)
	var out bytes.Buffer
	spec.Stdout = &out
	if _, err := sandbox.Run(ctx, spec); err != nil {
		return "", err
	}
	return out.String(), nil
}

// own makes the attempt of one row in a sandbox for it alone.
func (s *supervisor) own(ctx context.Context, row Row) (string, error) {
	spec := s.spec([]string{row.ID})
	spec.Limits = row.Limits
	if spec.Limits.Wall == 0 {
		spec.Limits.Wall = 2 * rowTimeout
	}
	if row.Spec != nil {
		row.Spec(&s.in.Outside, &spec)
	}
	var out bytes.Buffer
	if spec.Stdout == nil {
		spec.Stdout = &out
	}
	r, err := sandbox.Run(ctx, spec)
	if err != nil {
		return "", err
	}
	if row.Check != nil {
		return row.Check(&r), nil
	}
	got := map[string]string{}
	read(out.String(), []string{row.ID}, got)
	if answer, ok := got[row.ID]; ok {
		return answer, nil
	}
	return strings.TrimSpace("died " + r.Signal), nil
}
