package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/sandbox/conformance"
	"github.com/truegreen-dev/truegreen/store/oci"
	"github.com/truegreen-dev/truegreen/verifier/expression"
)

// The test binary is also the program: the scripts find it on their PATH, and
// its sandbox executes it again.
func TestMain(m *testing.M) {
	sandbox.Child()
	conformance.Child()
	testscript.Main(m, programs)
}

// What scripts find on their PATH, and commands of theirs that one system alone
// has.
var (
	programs = map[string]func(){
		"truegreen":     main,
		"truegreen-oci": func() { os.Exit(oci.Serve(context.Background(), os.Stdin, os.Stdout, nil)) },
		"truegreen-cel": func() { os.Exit(expression.Serve(os.Stdin, os.Stdout)) },
	}
	commands = map[string]func(*testscript.TestScript, bool, []string){}
)

// TestScript runs testdata/script, one behaviour each. Beside the commands of
// testscript a script has
//
//	calc DIR             make the small repository of the demo: a base and a head
//	commit DIR FOLDER    put FOLDER's files over DIR and commit them
//	base DIR FOLDER      make the base a commit with FOLDER's files, and the head one without
//	bundle green|red     put a run that was made before at evidence.tar.zst, with
//	                     its repository in repo, its key in state, and the SSH key
//	                     that signed it in id, id.pub and id.signers
//	hooked MODE          bundle green, with its run in the state folder, in a repository
//	                     that has the remote origin, remote.git, which has the base, and
//	                     the pre-push hook
//	sshkey NAME          make an SSH key NAME, NAME.pub, and NAME.signers
//	exits N COMMAND…     run a command that ends with this exit code
//	agent KEY [stuck]    serve an SSH agent that has KEY; a stuck one never answers
//	                     when it is to sign
//	serve NAME           listen on 127.0.0.1, at the port NAME, and answer the first
//	                     line of each connection with "ready"
//	served NAME PATTERN… fail unless lines that match came, in this order, no line
//	                     twice, and no others
//	start NAME COMMAND…  run one in the background
//	signal NAME SIGNAL   send it a signal
//	finish NAME N        wait for its exit code; output is in NAME.stdout, NAME.stderr
//	await NAME TEXT      wait until its standard error has this text
//	sparse FILE SIZE     make a file of zeros that takes no space
//	flip FILE OFFSET     change a bit
//	unhex FROM TO        make bytes of hexadecimal digits
//	newer BUNDLE         make it one of a later format
//	statement FILE PUB   check a signed statement and print it
//	issuer NAME HOW KID… serve an OIDC issuer that publishes these keys, at the URL NAME;
//	                     or have a served one publish others; see serveIssuer for HOW
//	token FILE BUNDLE CLAIM=VALUE…
//	                     make a token over a bundle's seal, of an honest run but for
//	                     these claims; kid and line are no claims
//	release N FILE       make a repository to release from; see makeRelease
//	evidence NAME I HOW [SIGNER]
//	                     make a bundle of its commit I; see makeEvidence
//	registry             serve an OCI registry whose repository goes into the variable
//	                     REGISTRY, and the digest of its image into IMAGE
//	github release TAG FOLDER
//	github artifact RUN FOLDER
//	github expired RUN   serve a GitHub that has FOLDER's files at the release of a tag,
//	                     or each bundle as an artifact of a run, or one that has expired
//	cosign ENVELOPE PUB BUNDLE KEY
//	                     write an envelope and the key that signed it as cosign reads them
//	image NAME           build the image of the Dockerfile, whose name goes into the
//	                     variable NAME
//	engine NAME PROGRAM  make a container image with a Go toolchain, whose name
//	                     goes into the variable NAME, and a truegreen that can be
//	                     its first process
//
// Scripts that test Go code begin with warm, which gives their state folder a compiled standard
// library. The variable GOSTATE names a state folder that scripts may share, so that not each
// of them compiles a standard library.
//
// The condition [cosign] is that TRUEGREEN_COSIGN names one, which is then $COSIGN.
//
// On Linux there are the program deny CALLS COMMAND, which runs one without some
// system calls, and the conditions [sandbox], that this host can isolate, [engine], that
// root has docker and a static busybox, and [root].
func TestScript(t *testing.T) {
	runs := &madeRuns{dir: t.TempDir(), made: map[string]*madeRun{}}
	cmds := maps.Clone(commands)
	maps.Copy(cmds, map[string]func(*testscript.TestScript, bool, []string){
		"calc": calc, "commit": commit, "base": commitBase, "bundle": runs.use, "warm": runs.warm, "hooked": runs.hooked, "sshkey": sshKey,
		"agent": serveAgent, "serve": serve, "served": served,
		"exits": exits, "start": start, "signal": sendSignal, "finish": finish,
		"await": await, "sparse": sparse, "flip": flip, "unhex": unhex, "newer": newer, "statement": checkStatement,
		"registry": func(ts *testscript.TestScript, neg bool, args []string) { serveRegistry(t, ts, neg, args) },
		"github":   func(ts *testscript.TestScript, neg bool, args []string) { serveGitHub(t, ts, neg, args) },
		"cosign":   forCosign, "issuer": serveIssuer, "token": makeToken, "release": makeRelease, "evidence": makeEvidence,
	})
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GOSTATE", filepath.Join(runs.dir, "go"))
			env.Setenv("COSIGN", os.Getenv("TRUEGREEN_COSIGN"))
			return setUp(env)
		},
		Condition: condition,
		Cmds:      cmds,
	})
}

// setUp gives a script an environment that has nothing of the caller's but the
// PATH, and a state folder of its own.
func setUp(env *testscript.Env) error {
	for _, kv := range []string{
		"ESC=\x1b",
		"TRUEGREEN_STATE=" + filepath.Join(env.WorkDir, "state"),
		"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_AUTHOR_DATE=2024-01-01T00:00:00Z",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_COMMITTER_DATE=2024-01-01T00:00:00Z",
		"GOCACHE=" + cmp.Or(os.Getenv("GOCACHE"), filepath.Join(os.TempDir(), "go-build")),
	} {
		key, value, _ := strings.Cut(kv, "=")
		env.Setenv(key, value)
	}
	env.Values["jobs"] = map[string]*job{}
	env.Values["services"] = map[string]*service{}
	env.Values["released"] = &released{}
	env.Values["issuers"] = map[string]*issuer{}
	env.Defer(func() {
		for _, j := range env.Values["jobs"].(map[string]*job) {
			j.cmd.Process.Kill()
			j.cmd.Wait()
		}
	})
	return nil
}

// required is set where a host must have everything that the tests can use, so
// that nothing is skipped unseen.
func required() bool { return os.Getenv("TRUEGREEN_TOOLS") == "require" }

var isolates = sync.OnceValue(func() bool {
	self, err := os.Executable()
	if err != nil {
		return false
	}
	c := exec.Command(self, "doctor")
	c.Args[0] = "truegreen"
	return c.Run() == nil
})

func condition(name string) (bool, error) {
	switch name {
	case "sandbox":
		if ok := isolates(); ok || !required() {
			return ok, nil
		}
		return false, errors.New("this host cannot isolate, and TRUEGREEN_TOOLS=require")
	case "engine":
		_, err := os.Stat("/bin/busybox")
		return err == nil && runtime.GOOS == "linux" && os.Geteuid() == 0 && exec.Command("docker", "version").Run() == nil, nil
	case "cosign":
		return os.Getenv("TRUEGREEN_COSIGN") != "", nil
	case "root":
		return runtime.GOOS == "linux" && os.Geteuid() == 0, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

func usageIf(ts *testscript.TestScript, wrong bool, text string) {
	if wrong {
		ts.Fatalf("usage: %s", text)
	}
}

// environ returns what a command of the script gets.
func environ(ts *testscript.TestScript) []string {
	var env []string
	for _, k := range []string{"PATH", "HOME", "TMPDIR", "TRUEGREEN_STATE", "TRUEGREEN_KEY", "GOCACHE", "SSH_AUTH_SOCK"} {
		if v := ts.Getenv(k); v != "" {
			env = append(env, k+"="+v)
		}
	}
	return env
}

// exits runs a command in the foreground.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, neg || len(args) < 2, "exits N COMMAND…")
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	code := 0
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit code %d, want %s\nstdout:\n%s\nstderr:\n%s", code, args[0], ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// A job is a command in the background.
type job struct {
	cmd            *exec.Cmd
	stdout, stderr shared
}

// A shared buffer is read while it is written.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, neg || len(args) != 2, "await NAME TEXT")
	j := jobs(ts)[args[0]]
	for range 6000 {
		if strings.Contains(j.stderr.String(), args[1]) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s: has not said %q:\n%s", args[0], args[1], j.stderr.String())
}

func jobs(ts *testscript.TestScript) map[string]*job { return ts.Value("jobs").(map[string]*job) }

func start(ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, neg || len(args) < 2, "start NAME COMMAND…")
	j := &job{cmd: exec.Command(args[1], args[2:]...)}
	j.cmd.Dir, j.cmd.Env, j.cmd.Stdout, j.cmd.Stderr = ts.MkAbs("."), environ(ts), &j.stdout, &j.stderr
	ts.Check(j.cmd.Start())
	jobs(ts)[args[0]] = j
	ts.Setenv(args[0]+"_pid", fmt.Sprint(j.cmd.Process.Pid))
}

func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, neg || len(args) != 2, "signal NAME INT|KILL")
	s := map[string]os.Signal{"INT": os.Interrupt, "KILL": os.Kill}[args[1]]
	ts.Check(jobs(ts)[args[0]].cmd.Process.Signal(s))
}

func finish(ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, neg || len(args) != 2, "finish NAME N")
	j := jobs(ts)[args[0]]
	delete(jobs(ts), args[0])
	err := j.cmd.Wait()
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".stdout"), []byte(j.stdout.String()), 0o644))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".stderr"), []byte(j.stderr.String()), 0o644))
	code := fmt.Sprint(j.cmd.ProcessState.ExitCode())
	if s, ok := j.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		code = s.Signal().String()
	}
	if code != args[1] {
		ts.Fatalf("%s: exit code %s, want %s (%v)\nstdout:\n%s\nstderr:\n%s", args[0], code, args[1], err, j.stdout.String(), j.stderr.String())
	}
}

// TestScriptNames holds the names of the scripts to the commands that they test.
func TestScriptNames(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/*.txt")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("scripts: %v, %v", scripts, err)
	}
	topics := []string{
		"run", "verify", "inspect", "extract", "prove", "export", "reproduce", "key", "trust", "gate", "policy", "waiver", "store", "receipt", "guard", "init", "hook", "demo", "doctor", "selftest",
		"version", "help", "completion", "usage", "output",
	}
	for _, s := range scripts {
		topic, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(s), ".txt"), "_")
		if !slices.Contains(topics, topic) {
			t.Errorf("%s: want a name that begins with one of %v", s, topics)
		}
	}
}

// A panic gives no verdict.
func TestPanic(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		var out, err bytes.Buffer
		a := &app{out: &out, err: &err, json: asJSON}
		if code := a.guard(func() int { panic("all is verified") }); code != 2 {
			t.Errorf("exit code %d, want 2", code)
		}
		if asJSON {
			if !strings.HasPrefix(out.String(), `{"verdict":null,"exit_code":2,"reasons":[{"code":"internal-error","detail":"all is verified`) {
				t.Errorf("printed %s", out.String())
			}
		} else if out.Len() > 0 || !strings.Contains(err.String(), "truegreen: no verdict [internal-error]: ") {
			t.Errorf("printed %q and %q", out.String(), err.String())
		}
	}
}
