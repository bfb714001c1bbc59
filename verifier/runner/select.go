package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/truegreen-dev/truegreen/verifier"
)

// A Selection is a patch in a repository and how it is to be tested.
type Selection struct {
	Head       Commit // its tree is the tested one: with Options.Merge, the merge's
	Merge      string // commit id, "" for none
	Base       Base
	Config     verifier.Config
	Source     string   // of the configuration: see [verifier.Plan]
	NotCovered []string // what detection left out
	Dirty      string   // a path with uncommitted changes, "" if none was found

	repo       *Repository
	configFile string
}

// A SelectError says why there is nothing to run.
type SelectError struct {
	Code verifier.Code
	Err  error
}

func (e *SelectError) Error() string { return e.Err.Error() }
func (e *SelectError) Unwrap() error { return e.Err }

// Select resolves base, head and configuration. Close the selection after use.
func Select(ctx context.Context, o Options) (*Selection, error) {
	repo, err := OpenRepository(ctx, o.Repo)
	if err != nil {
		return nil, err
	}
	if o.Name != "" {
		repo.name = o.Name
	}
	s := &Selection{repo: repo, configFile: cmp.Or(o.Config, verifier.ConfigFile)}
	if err := s.resolve(ctx, o); err != nil {
		repo.Close()
		return nil, err
	}
	return s, nil
}

// Close releases the repository.
func (s *Selection) Close() error { return s.repo.Close() }

// Repository returns the name of the repository in the patch document.
func (s *Selection) Repository() string { return s.repo.Name() }

// BaseFile returns the content of a file at the base, which says whom to trust: nil where
// there is none, and where the base is not protected.
func (s *Selection) BaseFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	if !s.Base.Protected {
		return nil, nil
	}
	l, err := s.repo.Names(ctx, s.Base.Tree)
	if err != nil {
		return nil, err
	}
	text, err := s.repo.ReadFile(ctx, l, path, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

func (s *Selection) resolve(ctx context.Context, o Options) error {
	head := o.Head
	if head == "" {
		head = "HEAD"
	}
	var err error
	if s.Head, err = s.repo.Resolve(ctx, head); err != nil {
		return err
	}
	if o.Merge != "" {
		if o.Base, err = s.merge(ctx, o); err != nil {
			return err
		}
	}
	headList, err := s.repo.Names(ctx, s.Head.Tree)
	if err != nil {
		return err
	}
	if s.Base, err = s.base(ctx, o, headList); err != nil {
		return err
	}
	if s.Merge != "" {
		s.Base.How = "first parent of the merge " + short(s.Merge)
	}
	if s.Base.Tree == s.Head.Tree {
		return &SelectError{verifier.EmptyDiff, fmt.Errorf("nothing to verify: base (%s) and head %s have the same tree; commit the change, or name another --base", s.Base.How, short(s.Head.ID))}
	}
	if o.Head == "" {
		s.Dirty, _ = s.repo.Dirty(headList) // a hint: what it cannot tell, it does not say
	}
	return s.configure(ctx, o, headList)
}

// merge takes the tree of a merge for the tested one, and returns what was merged
// into: the base.
func (s *Selection) merge(ctx context.Context, o Options) (string, error) {
	m, err := s.repo.Resolve(ctx, o.Merge)
	if err != nil {
		return "", err
	}
	wrong := func(format string, args ...any) error {
		what := fmt.Sprintf("%s is no merge of head %s into the base: ", short(m.ID), short(s.Head.ID)) + fmt.Sprintf(format, args...)
		return &RepositoryError{Code: verifier.UnknownRevision, What: what}
	}
	if len(m.Parents) != 2 || m.Parents[1] != s.Head.ID {
		return "", wrong("its parents are %s", m.Parents)
	}
	if o.Base != "" {
		base, err := s.repo.Resolve(ctx, o.Base)
		if err != nil {
			return "", err
		}
		if base.ID != m.Parents[0] {
			return "", wrong("it merges into %s", short(m.Parents[0]))
		}
	}
	s.Head.Tree, s.Merge = m.Tree, m.ID
	return m.Parents[0], nil
}

// base returns the base, which a repository can declare to be the empty tree
// for clones that end before it.
func (s *Selection) base(ctx context.Context, o Options, head Listing) (Base, error) {
	if o.Onto != "" {
		return s.repo.ontoBase(ctx, s.Head, o.Onto)
	}
	base, err := s.repo.Base(ctx, s.Head, o.Base)
	var repoErr *RepositoryError
	if err == nil || o.Base != "" || !errors.As(err, &repoErr) || repoErr.Code != verifier.ShallowClone {
		return base, err
	}
	c, found, cerr := s.readConfig(ctx, head)
	if cerr != nil || !found || c.Shallow != verifier.ShallowEmpty {
		return Base{}, err
	}
	return s.repo.EmptyBase("the clone ends before the base, and " + s.configFile + " says shallow: empty"), nil
}

// configure finds the test commands: given by hand, or at the base, or as the
// base shows them.
func (s *Selection) configure(ctx context.Context, o Options, head Listing) error {
	from, source := head, verifier.SourceHead
	if s.Base.ID != "" {
		var err error
		if from, err = s.repo.Names(ctx, s.Base.Tree); err != nil {
			return err
		}
		source = verifier.SourceBase
	}
	c, found, err := s.readConfig(ctx, from)
	if err != nil {
		return err
	}
	s.Config, s.Source = c, source
	for _, name := range slices.Sorted(maps.Keys(o.Receipts)) {
		if !slices.ContainsFunc(c.Receipts, func(e verifier.ReceiptEntry) bool { return e.Name == name }) {
			return &SelectError{verifier.Usage, fmt.Errorf("receipt %q: the configuration at the base asks for none of that name", name)}
		}
	}
	if !found && o.Config != "" && len(o.Command) == 0 {
		return &SelectError{verifier.NothingToRun, fmt.Errorf("nothing to run: base %s has no %s", cmp.Or(short(s.Base.ID), "(the empty tree)"), o.Config)}
	}
	if len(o.Command) > 0 {
		s.Config.Test = []verifier.TestEntry{{
			Name: "command", Run: o.Command, Dir: ".", Format: verifier.DefaultFormat(o.Command), Timeout: verifier.DefaultTimeout,
		}}
		s.Source = verifier.SourceCommand
		return s.check()
	}
	if found && len(c.Test) > 0 {
		return nil
	}
	base := from
	if s.Base.ID == "" {
		base = Listing{}
	}
	if s.Config.Test, s.NotCovered, err = s.repo.Detect(ctx, base, head); err != nil {
		return err
	}
	if s.Source == verifier.SourceBase {
		s.Source = verifier.SourceDetected
	}
	return s.check()
}

func (s *Selection) check() error {
	if len(s.Config.Test) == 0 {
		return &SelectError{verifier.NothingToRun, fmt.Errorf("nothing to run: base %s has no %s and shows no test command; write one with truegreen init, or give the command behind --", short(s.Base.ID), s.configFile)}
	}
	if _, err := s.Config.Document(); err != nil {
		return &SelectError{verifier.BadConfig, err}
	}
	return nil
}

// readConfig reads the configuration of a tree, or the default.
func (s *Selection) readConfig(ctx context.Context, l Listing) (c verifier.Config, found bool, err error) {
	text, err := s.repo.ReadFile(ctx, l, s.configFile, 64<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return verifier.DefaultConfig(), false, nil
	}
	if err != nil {
		return verifier.Config{}, false, &SelectError{verifier.BadConfig, fmt.Errorf("%s: %w", s.configFile, err)}
	}
	if c, err = verifier.ParseConfig(text); err != nil {
		return verifier.Config{}, false, &SelectError{verifier.BadConfig, err}
	}
	return c, true, nil
}

// Suggest returns the test commands that the tree at HEAD shows, and what they
// leave out.
func Suggest(ctx context.Context, dir string) ([]verifier.TestEntry, []string, error) {
	repo, err := OpenRepository(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	defer repo.Close()
	head, err := repo.Resolve(ctx, "HEAD")
	if err != nil {
		return nil, nil, err
	}
	l, err := repo.Names(ctx, head.Tree)
	if err != nil {
		return nil, nil, err
	}
	return repo.Detect(ctx, l, l)
}
