package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/term"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/verifier"
)

// signer returns what signs a seal's text with an SSH key: a private key file,
// or "agent" or "agent:FINGERPRINT"; and the key's fingerprint.
func (a *app) signer(name string) (sign func([]byte) ([]byte, error), fingerprint string, err error) {
	key, err := a.sshKey(name)
	if err != nil {
		return nil, "", err
	}
	return func(text []byte) ([]byte, error) {
		return bundle.SignSSH(rand.Reader, key, bundle.SealNamespace, text)
	}, ssh.FingerprintSHA256(key.PublicKey()), nil
}

func (a *app) sshKey(name string) (ssh.Signer, error) {
	if name == "agent" || strings.HasPrefix(name, "agent:") {
		return a.agentSigner(name)
	}
	return a.fileSigner(name)
}

func (a *app) fileSigner(path string) (ssh.Signer, error) {
	pem, err := readSmall(path)
	if err != nil {
		return nil, err
	}
	key, err := bundle.LoadSigner(pem, func() ([]byte, error) {
		if !term.IsTerminal(int(os.Stdin.Fd())) {
			return nil, fmt.Errorf("%s is encrypted and there is no terminal to ask for its passphrase; use an agent", path)
		}
		fmt.Fprintf(a.err, "Passphrase for %s: ", oneLine(path))
		defer fmt.Fprintln(a.err)
		return term.ReadPassword(int(os.Stdin.Fd()))
	})
	if err != nil {
		return nil, usage("--sign %s: %v", path, err)
	}
	return key, nil
}

func (a *app) agentSigner(name string) (ssh.Signer, error) {
	socket := a.getenv("SSH_AUTH_SOCK")
	if socket == "" {
		return nil, usage("--sign %s: SSH_AUTH_SOCK is not set: no agent", name)
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, &codeError{verifier.Unreadable, fmt.Errorf("ssh agent: %w", err)}
	}
	keys, err := agent.NewClient(conn).Signers()
	if err != nil {
		return nil, &codeError{verifier.Unreadable, fmt.Errorf("ssh agent: %w", err)}
	}
	_, want, named := strings.Cut(name, ":")
	for _, k := range keys {
		if _, isCert := k.PublicKey().(*ssh.Certificate); isCert {
			continue
		}
		if !named || bytes.Equal([]byte(ssh.FingerprintSHA256(k.PublicKey())), []byte(want)) {
			return k, nil
		}
	}
	return nil, usage("--sign %s: the agent has no such key", name)
}
