//go:build amd64 || arm64

package sandbox

import (
	"context"
	"errors"
	"os"
)

// sudoPaths lists where sudo is. The caller's PATH has no say in what becomes
// root.
var sudoPaths = []string{"/usr/bin/sudo", "/run/wrappers/bin/sudo", "/usr/local/bin/sudo"}

// runSudo has a remote supervisor run the Spec as root, if sudo lets this user
// do so without a password.
func runSudo(ctx context.Context, spec Spec, mode Mode, probeOnly bool) (Result, error) {
	sudo := ""
	for _, p := range sudoPaths {
		if info, err := os.Stat(p); err == nil && info.Mode()&os.ModeSetuid != 0 {
			sudo = p
			break
		}
	}
	noRoot := &refusal{Step: "start as root", Errno: "the caller is not root, and there is no sudo"}
	if sudo == "" || threadStatus("NoNewPrivs") != "0" {
		return Result{}, noRoot
	}
	self, err := os.Executable()
	if err != nil {
		return Result{}, noRoot
	}
	p, err := startRemote(sudo, []string{"sudo", "-n", "--", self, nameRemote}, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"})
	if err != nil {
		return Result{}, &refusal{Step: "start sudo", Errno: errnoText(err)}
	}
	defer p.close()
	r, err := p.run(ctx, spec, mode, probeOnly)
	if errors.Is(err, errNoHello) {
		why := "it did not start this program"
		if text := p.complaint(); text != "" {
			why = text
		}
		return Result{}, &refusal{Step: "start as root with sudo -n", Errno: why}
	}
	r.Isolation.Via = "sudo"
	return r, err
}
