package forge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/go-github/v60/github"
)

// Options of a [Client]. A zero field is its default.
type Options struct {
	Token         string            // "": requests without one
	CommentAuthor string            // login that comments are made under where GraphQL does not say: github-actions[bot]
	Timeout       time.Duration     // of one call, and of all waiting for limits together: 2 minutes
	Transport     http.RoundTripper // http.DefaultTransport
	UserAgent     string            // truegreen
	Now           func() time.Time
	Sleep         func(context.Context, time.Duration) error
	Random        io.Reader // crypto/rand
}

// A Client speaks to the API of a job's forge, about the job's repository. It may
// be used by several goroutines.
//
// Each call is over after Options.Timeout. A call that meets a rate limit waits as
// long as the answer asks for, at least a minute where it does not say, and gives
// up at once if the client would have waited longer than Options.Timeout in all.
// Answers that will not change, such as a missing permission, are never tried again.
type Client struct {
	job         Job
	owner, name string // of the repository
	gh          *github.Client
	plain       *http.Client // sends no token
	o           Options

	mu     sync.Mutex
	write  time.Time     // when the last request that creates content was sent
	waited time.Duration // for limits, so far
}

const (
	defaultTimeout = 2 * time.Minute
	// writeSpacing keeps below the limit on content that is created in a minute.
	writeSpacing = time.Second
	// attempts of a request that may be repeated.
	attempts = 4
)

// NewClient returns a client for the job's repository.
func NewClient(job Job, o Options) (*Client, error) {
	base, err := parseAddress(job.API + "/") // go-github's own way to set it guesses a path
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	hosts := []string{base.Scheme + "://" + base.Host}
	if job.GraphQL != "" {
		u, err := parseAddress(job.GraphQL)
		if err != nil {
			return nil, fmt.Errorf("graphql: %w", err)
		}
		hosts = append(hosts, u.Scheme+"://"+u.Host)
	}
	if !isRepository(job.Repository) {
		return nil, fmt.Errorf("repository: %s is not owner/name", quote(job.Repository))
	}
	o.defaults(job)
	c := &Client{job: job, o: o}
	c.owner, c.name, _ = strings.Cut(job.Repository, "/")
	c.plain = &http.Client{Transport: o.Transport, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) >= maxRedirects {
			return errors.New("too many redirects")
		}
		_, err := parseAddress(req.URL.String())
		return err
	}}
	c.gh = github.NewClient(&http.Client{
		Transport:     &transport{base: o.Transport, token: o.Token, hosts: hosts},
		CheckRedirect: redirect,
	})
	c.gh.BaseURL = base
	c.gh.UserAgent = o.UserAgent
	return c, nil
}

func (o *Options) defaults(job Job) {
	if o.CommentAuthor == "" {
		o.CommentAuthor = "github-actions[bot]"
		if job.Gitea() {
			o.CommentAuthor = "gitea-actions"
		}
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	if o.UserAgent == "" {
		o.UserAgent = "truegreen"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// bound bounds a call of an exported method; the outermost bound is the one that
// counts.
func (c *Client) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Value(endKey{}).(time.Time); !ok {
		ctx = context.WithValue(ctx, endKey{}, c.o.Now().Add(c.o.Timeout))
	}
	return context.WithTimeout(ctx, c.o.Timeout)
}

// endKey is of when a call is over, by the client's clock.
type endKey struct{}

// A kind of request says how often it may be sent.
type kind int

const (
	reading  kind = iota
	writing       // changes something, and repeating it changes nothing more
	creating      // makes a second one when it is repeated
)

// do sends a request, and sends it again when that makes sense. The doing is what
// an error says was attempted, the need is the permission for it. What creates is not
// repeated once the server may have acted on it: that error is errUncertain.
func (c *Client) do(ctx context.Context, k kind, doing, need string, send func(context.Context) error) error {
	for n := 1; ; n++ {
		if k != reading {
			if err := c.space(ctx); err != nil {
				return fmt.Errorf("%s: %w", doing, err)
			}
		}
		var a answer
		err := send(context.WithValue(ctx, answerKey{}, &a))
		if err == nil {
			return nil
		}
		f := c.classify(&a, err, need)
		switch {
		case ctx.Err() != nil:
			if k == creating && f.maybe {
				return fmt.Errorf("%s: %w: %w", doing, errUncertain, ctx.Err())
			}
			return fmt.Errorf("%s: %w", doing, ctx.Err())
		case f.limited:
			if err := c.await(ctx, f.wait); err != nil {
				return fmt.Errorf("%s: %w: %w", doing, f.err, err)
			}
		case k == creating && f.maybe:
			return fmt.Errorf("%s: %w: %w", doing, errUncertain, f.err)
		case !f.again:
			return fmt.Errorf("%s: %w", doing, f.err)
		default:
			f.wait = time.Second<<(n-1) + c.jitter(time.Second)
			if n < attempts {
				if err := c.await(ctx, f.wait); err != nil {
					return fmt.Errorf("%s: %w: %w", doing, f.err, err)
				}
			}
		}
		if n == attempts {
			return fmt.Errorf("%s: tried %d times: %w", doing, attempts, f.err)
		}
	}
}

// errUncertain: the server may have done what it was asked for.
var errUncertain = errors.New("no answer that says whether it was done")

// space keeps requests that create content apart.
func (c *Client) space(ctx context.Context) error {
	c.mu.Lock()
	now := c.o.Now()
	next := c.write.Add(writeSpacing)
	if next.Before(now) {
		next = now
	}
	c.write = next
	c.mu.Unlock()
	if d := next.Sub(now); d > 0 {
		return c.o.Sleep(ctx, d)
	}
	return nil
}

// await waits, unless the call would be over before, or the client has waited too
// long already.
func (c *Client) await(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	total := c.waited + d
	end, ok := ctx.Value(endKey{}).(time.Time)
	if total > c.o.Timeout || ok && c.o.Now().Add(d).After(end) {
		c.mu.Unlock()
		return fmt.Errorf("would wait %s more, and the limit is %s in all", d.Round(time.Second), c.o.Timeout)
	}
	c.waited = total
	c.mu.Unlock()
	return c.o.Sleep(ctx, d)
}

// jitter returns a random part of d, so that the jobs of a matrix do not come back
// at the same moment.
func (c *Client) jitter(d time.Duration) time.Duration {
	var b [1]byte
	if _, err := io.ReadFull(c.o.Random, b[:]); err != nil {
		return d
	}
	return d * time.Duration(b[0]) / 256
}
