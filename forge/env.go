package forge

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/truegreen-dev/truegreen/internal/lazy"
)

// ReadJob reads the job from the environment of one of its steps. What is missing
// or malformed is an error that names the variable: nothing is guessed, because the
// address of the API decides who gets the token.
func ReadJob(getenv func(string) string) (Job, error) {
	e := environment{get: getenv}
	j := Job{
		Server:     e.address("GITHUB_SERVER_URL"),
		API:        e.address("GITHUB_API_URL"),
		Repository: e.matches("GITHUB_REPOSITORY", repositoryName(), "owner/name"),
		Event:      e.matches("GITHUB_EVENT_NAME", eventName(), "the name of an event"),
		RunID:      e.number("GITHUB_RUN_ID"),
		SHA:        e.matches("GITHUB_SHA", commitID(), "a commit id"),
		Ref:        getenv("GITHUB_REF"),
		Protected:  getenv("GITHUB_REF_PROTECTED") == "true",
		Actor:      getenv("GITHUB_ACTOR"),
		Workflow:   getenv("GITHUB_WORKFLOW"),
	}
	// A platform that does not count attempts has made the first one.
	if getenv("GITHUB_RUN_ATTEMPT") == "" {
		j.Attempt = 1
	} else {
		j.Attempt = int(e.number("GITHUB_RUN_ATTEMPT"))
	}
	if getenv("GITHUB_REPOSITORY_ID") != "" { // see Complete
		j.RepositoryID = e.number("GITHUB_REPOSITORY_ID")
	}
	if !j.Gitea() && getenv("GITHUB_GRAPHQL_URL") != "" {
		j.GraphQL = e.address("GITHUB_GRAPHQL_URL")
	}
	// Older ones of Gitea know the repository by its name alone, and so do we there.
	if !j.Gitea() || getenv("GITHUB_REPOSITORY_ID") != "" {
		j.RepositoryID = e.number("GITHUB_REPOSITORY_ID")
	}
	if e.err != nil {
		return Job{}, fmt.Errorf("environment: %w", e.err)
	}
	return j, nil
}

var (
	repositoryName = lazy.Regexp(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}/[A-Za-z0-9_.-]{1,100}$`)
	eventName      = lazy.Regexp(`^[a-z][a-z_]{0,63}$`)
	commitID       = lazy.Regexp(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)
	zeroID         = lazy.Regexp(`^0+$`)
)

// isCommit reports whether s is the full id of a commit, in either object format.
func isCommit(s string) bool { return commitID().MatchString(s) && !zeroID().MatchString(s) }

// isRepository reports whether s is owner/name, and safe as a part of a path.
func isRepository(s string) bool {
	return repositoryName().MatchString(s) && !strings.HasSuffix(s, "/.") && !strings.HasSuffix(s, "/..")
}

// An environment keeps the first error, so that reading it is a list.
type environment struct {
	get func(string) string
	err error
}

func (e *environment) fail(name string, err error) {
	if e.err == nil {
		e.err = fmt.Errorf("%s: %w", name, err)
	}
}

func (e *environment) matches(name string, pattern *regexp.Regexp, what string) string {
	v := e.get(name)
	switch {
	case v == "":
		e.fail(name, errMissing)
	case !pattern.MatchString(v), name == "GITHUB_REPOSITORY" && !isRepository(v):
		e.fail(name, fmt.Errorf("%s is not %s", quote(v), what))
	}
	return v
}

func (e *environment) number(name string) int64 {
	v := e.get(name)
	if v == "" {
		e.fail(name, errMissing)
		return 0
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n <= 0 || n > maxInteger || strconv.FormatInt(n, 10) != v {
		e.fail(name, fmt.Errorf("%s is not a positive number", quote(v)))
	}
	return n
}

func (e *environment) address(name string) string {
	v := strings.TrimSuffix(e.get(name), "/")
	if v == "" {
		e.fail(name, errMissing)
		return ""
	}
	if _, err := parseAddress(v); err != nil {
		e.fail(name, err)
	}
	return v
}

var errMissing = errors.New("missing")

// maxInteger is the largest integer that JSON readers agree on.
const maxInteger = 1<<53 - 1

// parseAddress accepts addresses that a token may be sent to: of TLS, or of this
// machine. Plain HTTP on a network would show the token to everybody on the way;
// instances that have no TLS are told so.
func parseAddress(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("%s is not an address", quote(s))
	}
	switch {
	case u.Host == "" || u.Opaque != "":
		return nil, fmt.Errorf("%s is not an address", quote(s))
	case u.User != nil:
		return nil, errors.New("an address with credentials in it")
	case u.Fragment != "":
		return nil, fmt.Errorf("%s has a fragment", quote(s))
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Hostname()):
		return u, nil
	}
	return nil, fmt.Errorf("%s is not https", quote(s))
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// quote shows untrusted text in an error: one line, printable, not long.
func quote(s string) string {
	const most = 100
	if len(s) > most {
		return strconv.QuoteToASCII(strings.ToValidUTF8(s[:most], "")) + "…"
	}
	return strconv.QuoteToASCII(s)
}
