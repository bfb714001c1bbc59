package forge

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/go-github/v60/github"
)

// Limits of a check run.
const (
	maxCheckText    = 65535 // bytes of the summary, and of the text
	annotationChunk = 50    // in one request
)

// A Check is a check run: a status with a page, and with notes at lines of files.
// Its conclusion follows from the verdict, so that nothing but verified can look
// green: success for verified, failure for failed and broken, and action_required
// for everything else, unproven included. Neutral, which would be the word for a
// report that proves nothing, is never used, because branch protection takes it for
// success.
type Check struct {
	Commit      string
	Name        string // "": StatusContext
	Verdict     string // as in a Mark; "none" is no verdict
	Title       string
	Summary     string // cut at 65,535 bytes, as Text is
	Text        string
	URL         string
	Annotations []Annotation // those without a path are left out
}

func conclusion(verdict string) string {
	switch verdict {
	case "verified":
		return "success"
	case "failed", "broken":
		return "failure"
	}
	return "action_required"
}

// ErrNoChecks says that the forge has no check runs.
var ErrNoChecks = errors.New("this forge has no check runs")

// PostCheck makes a check run: it is in progress while its annotations are added,
// fifty at a time, and has its conclusion last, so that one that is cut off is
// never green. The token has to be an app's, as a job's own is.
func (c *Client) PostCheck(ctx context.Context, fork bool, k Check) (url string, _ error) {
	if c.job.Gitea() {
		return "", ErrNoChecks
	}
	if !isCommit(k.Commit) {
		return "", fmt.Errorf("check: %s is not a commit id", quote(k.Commit))
	}
	if k.Name == "" {
		k.Name = StatusContext
	}
	ctx, done := c.bound(ctx)
	defer done()
	run, err := c.startCheck(ctx, k)
	if err == nil {
		err = c.fillCheck(ctx, run.GetID(), k)
	}
	if err != nil {
		return "", c.explain(err, fork)
	}
	return run.GetHTMLURL(), nil
}

// startCheck creates the run, and finds it again if no answer says whether that
// worked: each has an id of its own from us.
func (c *Client) startCheck(ctx context.Context, k Check) (*github.CheckRun, error) {
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	id := fmt.Sprintf("%d/%d/%s", c.job.RunID, c.job.Attempt, token)
	o := github.CreateCheckRunOptions{Name: k.Name, HeadSHA: k.Commit, ExternalID: &id, Status: github.String("in_progress")}
	if k.URL != "" {
		o.DetailsURL = &k.URL
	}
	for n := 1; ; n++ {
		var run *github.CheckRun
		err := c.do(ctx, creating, "create check run", needCheck, func(ctx context.Context) (err error) {
			run, _, err = c.gh.Checks.CreateCheckRun(ctx, c.owner, c.name, o)
			return err
		})
		if !errors.Is(err, errUncertain) || n == attempts {
			return run, err
		}
		var there *github.ListCheckRunsResults
		lookup := c.do(ctx, reading, "list check runs", needCheck, func(ctx context.Context) (err error) {
			there, _, err = c.gh.Checks.ListCheckRunsForRef(ctx, c.owner, c.name, k.Commit, &github.ListCheckRunsOptions{
				CheckName: &k.Name, Filter: github.String("all"), ListOptions: github.ListOptions{PerPage: perPage},
			})
			return err
		})
		if lookup != nil {
			return nil, fmt.Errorf("%w; and whether it is there: %w", err, lookup)
		}
		for _, r := range there.CheckRuns {
			if r.GetExternalID() == id {
				return r, nil
			}
		}
		if wait := c.await(ctx, unsaidBackoff<<(n-1)); wait != nil {
			return nil, fmt.Errorf("%w: %w", err, wait)
		}
	}
}

// checkLevels are what the levels of annotations are called in a check run.
var checkLevels = map[string]string{"error": "failure", "warning": "warning", "notice": "notice"}

func (c *Client) fillCheck(ctx context.Context, id int64, k Check) error {
	if k.Title == "" {
		k.Title = k.Name
	}
	summary, text := shorten(k.Summary, maxCheckText), shorten(k.Text, maxCheckText)
	output := github.CheckRunOutput{Title: &k.Title, Summary: &summary}
	if text != "" {
		output.Text = &text
	}
	placed := slices.DeleteFunc(slices.Clone(k.Annotations), func(a Annotation) bool { return a.Path == "" })
	for rest := placed; ; rest = rest[annotationChunk:] {
		last := len(rest) <= annotationChunk
		o := github.UpdateCheckRunOptions{Name: k.Name, Status: github.String("in_progress")}
		if last {
			o.Status, o.Conclusion = github.String("completed"), github.String(conclusion(k.Verdict))
		}
		part := output
		for _, a := range rest[:min(len(rest), annotationChunk)] {
			level, line := checkLevels[a.Level], max(a.Line, 1)
			part.Annotations = append(part.Annotations, &github.CheckRunAnnotation{
				Path: &a.Path, StartLine: &line, EndLine: &line, AnnotationLevel: &level, Title: &a.Title, Message: &a.Message,
			})
		}
		o.Output = &part
		// A repeated request would add its annotations again, which is better than
		// none: the conclusion has to get there.
		err := c.do(ctx, writing, "update check run", needCheck, func(ctx context.Context) error {
			_, _, err := c.gh.Checks.UpdateCheckRun(ctx, c.owner, c.name, id, o)
			return err
		})
		if err != nil || last {
			return err
		}
	}
}
