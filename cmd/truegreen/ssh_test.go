package main

import (
	"crypto/ed25519"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/truegreen-dev/truegreen/bundle"
)

// sshKey makes an SSH key and the allowed_signers line that trusts it.
func sshKey(ts *testscript.TestScript, _ bool, args []string) {
	usageIf(ts, len(args) != 1, "sshkey NAME")
	public, private, err := ed25519.GenerateKey(nil)
	ts.Check(err)
	block, err := ssh.MarshalPrivateKey(private, "")
	ts.Check(err)
	key, err := ssh.NewPublicKey(public)
	ts.Check(err)
	name, line := ts.MkAbs(args[0]), ssh.MarshalAuthorizedKey(key)
	ts.Check(os.WriteFile(name, pem.EncodeToMemory(block), 0o600))
	ts.Check(os.WriteFile(name+".pub", line, 0o644))
	ts.Check(os.WriteFile(name+".signers", fmt.Appendf(nil, "%s@example.com namespaces=%q %s", filepath.Base(name), bundle.SealNamespace, line), 0o644))
}

// serveAgent serves an agent until the script ends and sets SSH_AUTH_SOCK. The
// socket is not in the script's folder: such paths have at most 108 bytes.
func serveAgent(ts *testscript.TestScript, _ bool, args []string) {
	usageIf(ts, len(args) != 1 && (len(args) != 2 || args[1] != "stuck"), "agent KEY [stuck]")
	key, err := ssh.ParseRawPrivateKey([]byte(ts.ReadFile(args[0])))
	ts.Check(err)
	var a agent.Agent = agent.NewKeyring()
	ts.Check(a.Add(agent.AddedKey{PrivateKey: key}))
	if len(args) == 2 {
		a = stuckAgent{a}
	}
	dir, err := os.MkdirTemp("", "agent")
	ts.Check(err)
	ts.Defer(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv("SSH_AUTH_SOCK", l.Addr().String())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go agent.ServeAgent(a, c)
		}
	}()
}

type stuckAgent struct{ agent.Agent }

func (stuckAgent) Sign(ssh.PublicKey, []byte) (*ssh.Signature, error) { select {} }
