package forge

import (
	"strings"
	"time"
)

// A Job is the job of a workflow that this process is a step of, as its
// environment tells.
type Job struct {
	Server, API, GraphQL string // addresses, without a slash at the end; GraphQL is "" where there is none
	Repository           string // owner/name
	RepositoryID         int64
	Event                string // name of the event
	RunID                int64
	Attempt              int
	Workflow             string // name of the workflow, for people
	SHA, Ref             string // what the platform checks out for the event
	Protected            bool   // the ref has branch protection or rules
	Actor                string // who, or which bot, set the event off
}

// Gitea reports whether the forge is Gitea or Forgejo: statuses and comments, but
// no check runs, and nothing of a comment but its text.
func (j Job) Gitea() bool { return strings.HasSuffix(j.API, "/api/v1") }

// A Pull is a pull request, as the event or the API tells.
type Pull struct {
	Number           int
	Head, HeadBranch string // commit, branch
	HeadRepository   string // owner/name, "" for a fork that is gone
	HeadRepositoryID int64
	Base, BaseBranch string // the commit that the event names, branch
	Fork             bool   // the head is in another repository
	Stale            bool   // it has another head by now
}

// A Target says what a bundle has to be about, and where its report goes. It
// follows from the event and the API, never from the bundle.
type Target struct {
	Pulls  []Pull // that show the report in a comment; none: there is no comment
	Commit string // that gets the status
	Base   string // commit that the patch starts from; "": the empty tree, or not known, see BaseKnown
	Head   string // commit that the patch ends with
	Tested string // commit whose tree is tested: Head, or a merge of base and head
	Tree   string // Git's id of that tree
	Policy string // commit that configuration and anchors are read from: of the protected branch
	Branch string // name of that branch
	Tip    string // commit of that branch now: Policy, or a descendant
	// BaseKnown says that Base is the one that the bundle must have.
	BaseKnown bool
	// Run is the run whose artifact holds the bundle, and RunAttempt which attempt of
	// it: those that a workflow_run event is about; 0: the job's own.
	Run        int64
	RunAttempt int
	// Unattested says that the tests ran by a workflow that the patch can change,
	// without a platform's word: the best report on them is unproven.
	Unattested bool
	// Notes are for people: what was found out on the way, such as that the head
	// has moved since.
	Notes []string
}

// A Link is a page that a report points to.
type Link struct {
	Text, URL string
	Expires   time.Time // zero: never
}
