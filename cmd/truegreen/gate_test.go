package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/verifier"
)

// releasedConfig is what the fixture's runs are configured by, as a file.
const releasedConfig = "test:\n  - name: unit\n    run: [go, test, ./...]\nevidence: {level: L1}\n"

// released is the history of a repository that a release is made from.
type released struct {
	files   []fixture.Files
	commits []string
}

// makeRelease makes a repository repo whose branch main has the commits C0 to CN, with the
// policy in FILE and allowed_signers for alice and bob, whose keys are in the files of
// these names; and for each commit but C0 a bundle evidence/cI.tar.zst that alice signed.
func makeRelease(ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, neg || len(args) != 2, "release N FILE")
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	signers := fixture.SignerLine("alice", "") + fixture.SignerLine("bob", "")
	repo := fixture.NewRepository(ts.MkAbs("repo"))
	h := &released{}
	for i := range n + 1 {
		files := maps.Clone(fixture.New().Base)
		files[verifier.ConfigFile] = releasedConfig + ts.ReadFile(args[1])
		files[verifier.SignersFile] = signers
		files["n.go"] = fmt.Sprintf("package project\n\nconst N = %d\n", i)
		var parents []string
		if i > 0 {
			parents = h.commits[i-1:]
		}
		h.files = append(h.files, files)
		h.commits = append(h.commits, repo.Commit(repo.Tree(files), parents...))
		ts.Setenv(fmt.Sprintf("C%d", i), h.commits[i])
		ts.Setenv(fmt.Sprintf("T%d", i), repo.Tree(files))
	}
	repo.Head(h.commits[n])
	ts.Check(repo.Err)
	for _, name := range []string{"alice", "bob", "mallory"} {
		key, err := fixture.SignerFile(name)
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(name), key, 0o600))
		line := strings.TrimPrefix(fixture.SignerLine(name, ""), name+" ")
		ts.Check(os.WriteFile(ts.MkAbs(name+".pub"), []byte(line), 0o644))
	}
	ts.Check(os.MkdirAll(ts.MkAbs("evidence"), 0o755))
	*ts.Value("released").(*released) = *h
	for i := 1; i <= n; i++ {
		makeEvidence(ts, false, []string{fmt.Sprintf("evidence/c%d", i), strconv.Itoa(i), "green", "alice"})
	}
}

// makeEvidence makes a bundle of a commit: NAME.tar.zst, and NAME.sig. It is green, red, of other commands, of a
// fork, of a base that is not there, or with the MAC key of the state folder.
func makeEvidence(ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, neg || len(args) < 3 || len(args) > 4, "evidence NAME I green|red|commands|fork|base|mac [SIGNER]")
	h := ts.Value("released").(*released)
	i, err := strconv.Atoi(args[1])
	ts.Check(err)
	run := fixture.New()
	run.Repository, run.Base, run.Head = "local/repo", h.files[i-1], h.files[i]
	copy(run.Job[:], args[0])
	base, head := h.commits[i-1], h.commits[i]
	switch args[2] {
	case "green", "mac":
	case "red":
		run.Output = fixture.OnHead(fixture.Output{Exit: 1, Stdout: fixture.GoTest(fixture.Package, "TestAdd fail")})
	case "commands": // that nobody has configured
		run.Config.Test[0].Run = []string{"go", "test", "-run", "Good", "./..."}
	case "fork":
		run.Repository = "local/fork"
	case "base":
		base = strings.Repeat("0", 40)
	default:
		ts.Fatalf("no such evidence: %s", args[2])
	}
	run.Forge.Patch = func(p *verifier.Patch) { p.Base, p.Head = base, head }
	dir, err := os.MkdirTemp(ts.Getenv("WORK"), "run-")
	ts.Check(err)
	file, err := run.Bundle(dir)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+bundleSuffix), file, 0o644))
	if args[2] == "mac" {
		state := ts.Getenv("TRUEGREEN_STATE")
		ts.Check(os.MkdirAll(state, 0o700))
		ts.Check(os.WriteFile(filepath.Join(state, keyFile), run.Secret, 0o600))
	}
	if len(args) < 4 {
		return
	}
	a, err := fixture.Unpack(file)
	ts.Check(err)
	sig, err := fixture.Sign(args[3], a.Content(fixture.SealMember))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".sig"), sig, 0o644))
}
