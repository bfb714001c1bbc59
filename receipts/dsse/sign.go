package dsse

import (
	"errors"
	"fmt"
	"strconv"
)

// A Signer signs with one key.
type Signer interface {
	KeyID() string
	Sign(pae []byte) ([]byte, error)
}

// A Verifier checks signatures of one key.
type Verifier interface {
	KeyID() string
	Verify(pae, sig []byte) error
}

// PAE returns what a signature covers.
func PAE(payloadType string, payload []byte) []byte {
	b := make([]byte, 0, len("DSSEv1")+2*21+len(payloadType)+len(payload))
	b = append(b, "DSSEv1 "...)
	b = append(strconv.AppendInt(b, int64(len(payloadType)), 10), ' ')
	b = append(append(b, payloadType...), ' ')
	b = append(strconv.AppendInt(b, int64(len(payload)), 10), ' ')
	return append(b, payload...)
}

// Sign returns an envelope of payload, signed by each of the signers in turn.
func Sign(payloadType string, payload []byte, signers ...Signer) (*Envelope, error) {
	e := &Envelope{payloadType: payloadType, payload: payload}
	pae := PAE(payloadType, payload)
	for i, s := range signers {
		sig, err := s.Sign(pae)
		if err != nil {
			return nil, fmt.Errorf("dsse: signer %d: %w", i, err)
		}
		e.signatures = append(e.signatures, signature{s.KeyID(), sig})
	}
	if err := e.valid(); err != nil {
		return nil, err
	}
	return e, nil
}

// Verify returns the payload of e if it is of the wanted type and at least
// threshold of the verifiers accept a signature, together with the key ids of all
// those that do, in the verifiers' order. The verifiers must hold different keys
// under different key ids, and threshold is at least 1. A signature counts once;
// one that names a key id is shown to the verifier with that id and to those
// without an id only.
func (e *Envelope) Verify(payloadType string, threshold int, verifiers ...Verifier) (payload []byte, keyIDs []string, err error) {
	if threshold < 1 || threshold > len(verifiers) {
		return nil, nil, fmt.Errorf("dsse: threshold %d of %d verifiers", threshold, len(verifiers))
	}
	known := make(map[string]bool, len(verifiers))
	for _, v := range verifiers {
		if known[v.KeyID()] {
			return nil, nil, fmt.Errorf("dsse: two verifiers with the key id %q", v.KeyID())
		}
		known[v.KeyID()] = true
	}
	if e.payloadType != payloadType {
		return nil, nil, fmt.Errorf("dsse: payload type %q: want %q", e.payloadType, payloadType)
	}
	pae := PAE(e.payloadType, e.payload)
	used := make([]bool, len(e.signatures))
	for _, v := range verifiers {
		for i, s := range e.signatures {
			if used[i] || s.keyID != "" && v.KeyID() != "" && s.keyID != v.KeyID() {
				continue
			}
			if v.Verify(pae, s.sig) == nil {
				used[i] = true
				keyIDs = append(keyIDs, v.KeyID())
				break
			}
		}
	}
	if len(keyIDs) < threshold {
		return nil, nil, fmt.Errorf("%w: %d of %d", ErrSignatures, len(keyIDs), threshold)
	}
	return e.payload, keyIDs, nil
}

// ErrSignatures means that an envelope is well-formed and of the wanted type, but
// too few of its signatures are good.
var ErrSignatures = errors.New("dsse: too few good signatures")
