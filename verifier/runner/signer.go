package runner

import (
	"context"
	"os"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/sandbox"
)

// A keyHolder is the process that holds the key of a run, seen from the run.
// Where tested code could reach that process, brief is set, and it lives only
// while it signs: no command runs then.
type keyHolder struct {
	open  func() (*os.File, error)
	salt  receipts.Digest
	info  [][]byte
	brief bool
	proc  *sandbox.Signer
}

const (
	slotReceipt = iota
	slotSeal
)

func newKeyHolder(ctx context.Context, open func() (*os.File, error), run *bundle.Run, brief bool) (*keyHolder, error) {
	task := run.Task()
	k := &keyHolder{open: open, salt: run.Salt, brief: brief, info: [][]byte{
		slotReceipt: receipts.KeyInfo(receipts.PurposeReceipt, task, run.Job),
		slotSeal:    receipts.KeyInfo(receipts.PurposeSeal, task, run.Job),
	}}
	if brief {
		return k, nil
	}
	var err error
	k.proc, err = k.start(ctx)
	return k, err
}

func (k *keyHolder) start(ctx context.Context) (*sandbox.Signer, error) {
	secret, err := k.open()
	if err != nil {
		return nil, err
	}
	defer secret.Close()
	// The signer outlives an interrupt: it has the last receipts to sign.
	return sandbox.StartSigner(context.WithoutCancel(ctx), secret, k.salt, k.info)
}

func (k *keyHolder) authenticators() bundle.Authenticators {
	return bundle.Authenticators{Receipt: slot{k, slotReceipt}, Seal: slot{k, slotSeal}}
}

// Close ends the process.
func (k *keyHolder) Close() {
	if k.proc != nil {
		k.proc.Close()
	}
}

// A slot is one of the derived keys.
type slot struct {
	k *keyHolder
	n int
}

// MAC implements [receipts.Authenticator].
func (s slot) MAC(message []byte) (receipts.Digest, error) {
	proc := s.k.proc
	if s.k.brief {
		var err error
		if proc, err = s.k.start(context.Background()); err != nil {
			return receipts.Digest{}, err
		}
		defer proc.Close()
	}
	mac, err := proc.MAC(s.n, message)
	return receipts.Digest(mac), err
}
