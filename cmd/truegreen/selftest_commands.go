package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/verifier"
)

// commandTrials returns, for every code that a command without a verdict can
// have, a situation in which this program, started again, has it.
func commandTrials() map[verifier.Code]trial {
	plain := fixture.Files{"README": "a project\n"}
	configured := func(config string) fixture.Files {
		return fixture.Files{"README": "a project\n", verifier.ConfigFile: config}
	}
	const config = "test:\n  - name: unit\n    run: [\"true\"]\n"
	changed := fixture.Files{"README": "another project\n", verifier.ConfigFile: config}
	return map[verifier.Code]trial{
		verifier.Usage: func(dir string) (observed, error) { return again(dir, nil, "verify", "--json") },
		verifier.Unreadable: func(dir string) (observed, error) {
			return again(dir, nil, "verify", "--json", filepath.Join(dir, "missing.tar.zst"))
		},
		verifier.NotARepository: func(dir string) (observed, error) {
			if err := needGit(); err != nil {
				return observed{}, err
			}
			// An empty folder may lie inside of somebody's repository.
			if err := os.WriteFile(filepath.Join(dir, ".git"), []byte("nothing\n"), 0o600); err != nil {
				return observed{}, err
			}
			return again(dir, nil, "run", "--json", "--dry-run", "--repo", dir)
		},
		verifier.GitMissing: func(dir string) (observed, error) {
			return again(dir, []string{"PATH="}, "run", "--json", "--dry-run", "--repo", dir)
		},
		verifier.UnknownRevision: inRepository(patch(configured(config), changed), "--dry-run", "--base", "nowhere"),
		verifier.ShallowClone: inRepository(func(r *fixture.Repository) {
			elsewhere := fixture.New() // its commit is not here
			head := r.Commit(r.Tree(changed), elsewhere.HeadCommit())
			r.Head(head)
			r.Shallow(head)
		}, "--dry-run"),
		verifier.EmptyDiff:    inRepository(patch(changed, changed), "--dry-run"),
		verifier.NothingToRun: inRepository(patch(plain, fixture.Files{"README": "another project\n"}), "--dry-run"),
		verifier.BadConfig:    inRepository(patch(configured("test: everything\n"), changed), "--dry-run"),
		verifier.HostileTree: inRepository(patch(configured(config), fixture.Files{
			"README": "a project\n", ".git/config": "[core]\n\tfsmonitor = echo\n",
		}), "--dry-run"),
		verifier.CorruptObject: inRepository(func(r *fixture.Repository) {
			patch(configured(config), changed)(r)
			r.Lie("another project\n", 3, "bad")
		}, "--dry-run"),
		verifier.TreeTooLarge: inRepository(func(r *fixture.Repository) {
			patch(configured(config), changed)(r)
			r.Lie("another project\n", 3<<30, "")
		}, "--dry-run"),
		verifier.IsolationRefused: inRepository(patch(configured(config), changed), "--isolation", "4"),
		verifier.KeyUnsafe: func(dir string) (observed, error) {
			path := filepath.Join(dir, "key")
			if err := os.WriteFile(path, []byte("secret"), 0o644); err != nil {
				return observed{}, err
			}
			return again(dir, nil, "verify", "--json", "--key", path, filepath.Join(dir, "any.tar.zst"))
		},
		verifier.DiskFull: onFullDisk,
		verifier.Internal: func(dir string) (observed, error) { return again(dir, nil, "selftest", "--json", "--panic") },
	}
}

// patch makes a repository with two commits.
func patch(base, head fixture.Files) func(*fixture.Repository) {
	return func(r *fixture.Repository) {
		r.Head(r.Commit(r.Tree(head), r.Commit(r.Tree(base))))
	}
}

// inRepository runs "truegreen run" in a repository that fill has filled.
func inRepository(fill func(*fixture.Repository), args ...string) trial {
	return func(dir string) (observed, error) {
		if err := needGit(); err != nil {
			return observed{}, err
		}
		r := fixture.NewRepository(filepath.Join(dir, "repository"))
		if fill(r); r.Err != nil {
			return observed{}, r.Err
		}
		return again(dir, nil, append([]string{"run", "--json", "--repo", r.Dir}, args...)...)
	}
}

func needGit() error {
	if _, err := exec.LookPath("git"); err != nil {
		return skip("there is no git")
	}
	return nil
}

// onFullDisk has a statement written where there is no space.
func onFullDisk(dir string) (observed, error) {
	const full = "/dev/full"
	if info, err := os.Stat(full); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return observed{}, skip("there is no " + full)
	}
	r := fixture.New()
	file, err := r.Bundle(dir)
	if err != nil {
		return observed{}, err
	}
	signer, err := fixture.SignerFile("statement")
	if err != nil {
		return observed{}, err
	}
	path := map[string]string{}
	for name, content := range map[string][]byte{"bundle": file, "key": r.Secret, "signer": signer} {
		path[name] = filepath.Join(dir, name+".file")
		if err := os.WriteFile(path[name], content, 0o600); err != nil {
			return observed{}, err
		}
	}
	return again(dir, nil, "verify", "--json", "--key", path["key"], "--statement", full, "--sign", path["signer"], path["bundle"])
}

// again starts this program with an environment that has nothing of the caller's
// but the PATH, and env.
func again(dir string, env []string, args ...string) (observed, error) {
	self, err := os.Executable()
	if err != nil {
		return observed{}, err
	}
	cmd := exec.Command(self, args...)
	cmd.Args[0] = "truegreen"
	cmd.Dir = dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "TEMP=" + dir, "SystemRoot=" + os.Getenv("SystemRoot"),
		"HOME=" + dir, "TRUEGREEN_STATE=" + filepath.Join(dir, "state"),
	}, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return observed{}, err
	}
	o, err := observeJSON(stdout.Bytes(), cmd.ProcessState.ExitCode())
	if err != nil {
		return observed{}, fmt.Errorf("%w: %s", err, stderr.Bytes())
	}
	return o, nil
}
