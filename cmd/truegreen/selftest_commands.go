package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

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
		verifier.OIDCBeside: func(dir string) (observed, error) {
			if runtime.GOOS != "linux" {
				return observed{}, skip("tests run on Linux")
			}
			r, err := makeRepository(dir, patch(configured(config+"isolation:\n  level: 1\n"), changed))
			if err != nil {
				return observed{}, err
			}
			return again(dir, []string{"ACTIONS_ID_TOKEN_REQUEST_URL=https://127.0.0.1/", "ACTIONS_ID_TOKEN_REQUEST_TOKEN=x"}, "run", "--json", "--repo", r)
		},
		verifier.ForgeFailed: onNoForge,
		verifier.PlanDiffers: func(dir string) (observed, error) {
			return reproduceFixture(dir, "test: [{name: unit, run: [make, test]}]\n")
		},
		verifier.NotReproduced: func(dir string) (observed, error) {
			first, second := fixture.New(), fixture.New()
			first.Output = fixture.OnHead(fixture.Output{Stdout: fixture.GoTest(fixture.Package, "TestAdd", "TestSum", "TestMore")})
			return compareFixtures(dir, first, second)
		},
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
		r, err := makeRepository(dir, fill)
		if err != nil {
			return observed{}, err
		}
		return again(dir, nil, append([]string{"run", "--json", "--repo", r}, args...)...)
	}
}

func makeRepository(dir string, fill func(*fixture.Repository)) (string, error) {
	if err := needGit(); err != nil {
		return "", err
	}
	r := fixture.NewRepository(filepath.Join(dir, "repository"))
	fill(r)
	return r.Dir, r.Err
}

// onNoForge is a step of a job whose forge knows nothing.
func onNoForge(dir string) (observed, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return observed{}, err
	}
	server := &http.Server{Handler: http.NotFoundHandler()}
	go server.Serve(l)
	defer server.Close()
	event := filepath.Join(dir, "event.json")
	const payload = `{"repository":{"id":1,"full_name":"octo/project","default_branch":"main"}}`
	if err := os.WriteFile(event, []byte(payload), 0o600); err != nil {
		return observed{}, err
	}
	at := "http://" + l.Addr().String()
	return again(dir, []string{
		"GITHUB_SERVER_URL=" + at, "GITHUB_API_URL=" + at, "GITHUB_REPOSITORY=octo/project", "GITHUB_REPOSITORY_ID=1", "GITHUB_EVENT_NAME=schedule",
		"GITHUB_SHA=00112233445566778899aabbccddeeff00112233", "GITHUB_RUN_ID=1", "GITHUB_EVENT_PATH=" + event,
		"INPUT_MODE=" + modeVerify, "INPUT_BUNDLE=none",
	}, "ci", "--json")
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
