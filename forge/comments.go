package forge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"
)

// maxComments is how many comments a pull request can have, and pages that many.
const (
	maxComments = 2500
	perPage     = 100
)

// A comment is one of the token's own that starts with our mark and key.
type comment struct {
	id     int64
	node   string // "" without GraphQL
	url    string
	body   string
	hidden bool
	mark   *Mark // nil: unreadable, which is as old as can be
}

// A thread is what is needed to know of a pull request to comment on it.
type thread struct {
	head string
	own  []comment // oldest first
}

// thread finds the token's own comments with the key. Who wrote a comment is asked
// of GraphQL, which knows it for each kind of token, where asking who the token
// belongs to is refused to a job's own. Without GraphQL the author's login decides.
func (c *Client) thread(ctx context.Context, number int, key string) (thread, error) {
	var t thread
	err := errNoGraphQL
	if c.job.GraphQL != "" {
		t, err = c.threadGraphQL(ctx, number, key)
	}
	if err != nil && ctx.Err() == nil {
		t, err = c.threadREST(ctx, number, key)
	}
	if err != nil {
		return thread{}, err
	}
	slices.SortFunc(t.own, func(a, b comment) int { return cmp.Compare(a.id, b.id) })
	return t, nil
}

var errNoGraphQL = errors.New("this forge has no graphql")

// take adds a comment if it has the key in its mark.
func (t *thread) take(k comment, key string) {
	if !strings.HasPrefix(k.body, markPrefix+key+" ") {
		return
	}
	if m, err := ParseMark(k.body); err == nil {
		k.mark = &m
	}
	t.own = append(t.own, k)
}

const threadQuery = `query($owner:String!,$name:String!,$number:Int!,$cursor:String){
repository(owner:$owner,name:$name){pullRequest(number:$number){headRefOid comments(first:100,after:$cursor){
pageInfo{hasNextPage endCursor} nodes{id databaseId url body isMinimized viewerDidAuthor}}}}}`

func (c *Client) threadGraphQL(ctx context.Context, number int, key string) (thread, error) {
	var t thread
	variables := map[string]any{"owner": c.owner, "name": c.name, "number": number, "cursor": nil}
	for range maxComments / perPage {
		var data struct {
			Repository *struct {
				PullRequest *struct {
					HeadRefOid string `json:"headRefOid"`
					Comments   struct {
						PageInfo struct {
							HasNextPage bool   `json:"hasNextPage"`
							EndCursor   string `json:"endCursor"`
						} `json:"pageInfo"`
						Nodes []struct {
							ID              string `json:"id"`
							DatabaseID      int64  `json:"databaseId"`
							URL             string `json:"url"`
							Body            string `json:"body"`
							IsMinimized     bool   `json:"isMinimized"`
							ViewerDidAuthor bool   `json:"viewerDidAuthor"`
						} `json:"nodes"`
					} `json:"comments"`
				} `json:"pullRequest"`
			} `json:"repository"`
		}
		if err := c.graphql(ctx, reading, "list comments", threadQuery, variables, &data); err != nil {
			return thread{}, err
		}
		if data.Repository == nil || data.Repository.PullRequest == nil {
			return thread{}, errors.New("list comments: the answer is not about the pull request")
		}
		p := data.Repository.PullRequest
		if t.head = p.HeadRefOid; !isCommit(t.head) {
			return thread{}, fmt.Errorf("list comments: %w", notCommit("headRefOid", t.head))
		}
		for _, n := range p.Comments.Nodes {
			if n.ViewerDidAuthor && n.DatabaseID > 0 {
				t.take(comment{id: n.DatabaseID, node: n.ID, url: n.URL, body: n.Body, hidden: n.IsMinimized}, key)
			}
		}
		if !p.Comments.PageInfo.HasNextPage {
			break
		}
		variables["cursor"] = p.Comments.PageInfo.EndCursor
	}
	return t, nil
}

func (c *Client) threadREST(ctx context.Context, number int, key string) (thread, error) {
	var t thread
	p, err := c.pull(ctx, number)
	if err != nil {
		return thread{}, err
	}
	t.head = p.Head
	o := &github.IssueListCommentsOptions{ListOptions: github.ListOptions{PerPage: perPage}}
	for range maxComments / perPage {
		var page []*github.IssueComment
		var resp *github.Response
		err := c.do(ctx, reading, "list comments", needPulls, func(ctx context.Context) (err error) {
			page, resp, err = c.gh.Issues.ListComments(ctx, c.owner, c.name, number, o)
			return err
		})
		if err != nil {
			return thread{}, err
		}
		for _, k := range page {
			if c.wrote(k.GetUser()) && k.GetID() > 0 {
				t.take(comment{id: k.GetID(), url: k.GetHTMLURL(), body: k.GetBody()}, key)
			}
		}
		// An unpaged answer has no next page, however long it is.
		if resp.NextPage == 0 {
			break
		}
		o.Page = resp.NextPage
	}
	return t, nil
}

// wrote reports whether the account is the one that comments are made under. No
// person can have a bot's login; the type is looked at all the same.
func (c *Client) wrote(u *github.User) bool {
	return u.GetLogin() == c.o.CommentAuthor && (!strings.HasSuffix(u.GetLogin(), "[bot]") || u.GetType() == "Bot")
}

// graphql sends a query. An answer with errors in it has status 200.
func (c *Client) graphql(ctx context.Context, k kind, doing, query string, variables map[string]any, data any) error {
	return c.do(ctx, k, doing, needComment, func(ctx context.Context) error {
		req, err := c.gh.NewRequest(http.MethodPost, c.job.GraphQL, map[string]any{"query": query, "variables": variables})
		if err != nil {
			return err
		}
		var got struct {
			Data   json.RawMessage `json:"data"`
			Errors []struct {
				Type    string `json:"type"`
				Message string `json:"message"`
			} `json:"errors"`
		}
		if _, err := c.gh.Do(ctx, req, &got); err != nil {
			return err
		}
		if len(got.Errors) > 0 {
			// Make it what the same answer of the other API is.
			a := ctx.Value(answerKey{}).(*answer)
			a.message = got.Errors[0].Message
			switch got.Errors[0].Type {
			case "FORBIDDEN", "INSUFFICIENT_SCOPES":
				a.status = http.StatusForbidden
			case "RATE_LIMITED", "RATE_LIMIT":
				a.status = http.StatusTooManyRequests
			case "NOT_FOUND":
				a.status = http.StatusNotFound
			default:
				a.status = http.StatusUnprocessableEntity
			}
			return errors.New("graphql")
		}
		return json.Unmarshal(got.Data, data)
	})
}

// hide shows a comment as resolved, folded to a line, or in full again.
func (c *Client) hide(ctx context.Context, k comment, hidden bool) error {
	if k.node == "" || k.hidden == hidden {
		return nil
	}
	query, doing := `mutation($id:ID!){minimizeComment(input:{subjectId:$id,classifier:RESOLVED}){clientMutationId}}`, "minimise comment"
	if !hidden {
		query, doing = `mutation($id:ID!){unminimizeComment(input:{subjectId:$id}){clientMutationId}}`, "show comment"
	}
	var data struct{}
	return c.graphql(ctx, writing, doing, query, map[string]any{"id": k.node}, &data)
}

func (c *Client) edit(ctx context.Context, k comment, body string) (comment, error) {
	var got *github.IssueComment
	err := c.do(ctx, writing, "update comment", needComment, func(ctx context.Context) (err error) {
		got, _, err = c.gh.Issues.EditComment(ctx, c.owner, c.name, k.id, &github.IssueComment{Body: &body})
		return err
	})
	if err != nil {
		return comment{}, tooLong(err, body)
	}
	k.body, k.url = body, got.GetHTMLURL()
	return k, nil
}

// add creates a comment. If no answer says whether that worked, it looks for the
// nonce before it tries again.
func (c *Client) add(ctx context.Context, number int, m Mark, body string) (comment, error) {
	for n := 1; ; n++ {
		var got *github.IssueComment
		err := c.do(ctx, creating, "create comment", needComment, func(ctx context.Context) (err error) {
			got, _, err = c.gh.Issues.CreateComment(ctx, c.owner, c.name, number, &github.IssueComment{Body: &body})
			return err
		})
		if err == nil {
			return comment{id: got.GetID(), node: got.GetNodeID(), url: got.GetHTMLURL(), body: body, mark: &m}, nil
		}
		if !errors.Is(err, errUncertain) {
			return comment{}, tooLong(err, body)
		}
		t, lookup := c.thread(ctx, number, m.Key)
		if lookup != nil {
			return comment{}, fmt.Errorf("%w; and whether it is there: %w", err, lookup)
		}
		for _, k := range t.own {
			if k.mark != nil && k.mark.Nonce == m.Nonce {
				return k, nil
			}
		}
		if n == attempts {
			return comment{}, err
		}
		if wait := c.await(ctx, unsaidBackoff<<(n-1)); wait != nil {
			return comment{}, fmt.Errorf("%w: %w", err, wait)
		}
	}
}

func (c *Client) remove(ctx context.Context, k comment) error {
	err := c.do(ctx, writing, "delete comment", needComment, func(ctx context.Context) error {
		_, err := c.gh.Issues.DeleteComment(ctx, c.owner, c.name, k.id)
		return err
	})
	if hasStatus(err, http.StatusNotFound) {
		return nil // by the other job
	}
	return err
}

// ErrTooLong says that the forge takes no comment of that length.
var ErrTooLong = errors.New("the comment is too long")

func tooLong(err error, body string) error {
	var e *statusError
	if errors.As(err, &e) && e.Status == http.StatusUnprocessableEntity && strings.Contains(strings.ToLower(e.Message), "too long") {
		return fmt.Errorf("%w, at %d characters: %w", ErrTooLong, len([]rune(body)), err)
	}
	return err
}
