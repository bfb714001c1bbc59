package pipelock

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

const (
	legacyGenesis = "genesis"
	boundGenesis  = "g1:"
	genesisLabel  = "pipelock.receipt.session_open.v1"
)

// genesis returns the hash that binds a chain's first receipt to its session_open, the
// one that d has read: each part has its length before it, so that no two sets of parts
// are the same bytes.
func (d *Decoder) genesis() string {
	h := sha256.New()
	frame := func(b []byte) {
		_ = binary.Write(h, binary.BigEndian, uint64(len(b))) // a hash takes all
		h.Write(b)
	}
	frame([]byte(genesisLabel))
	for _, at := range [...]slot{sControlRun, sControlNonce, sOpenSession, sOpenPolicy, sOpenEpoch} {
		frame([]byte(d.optional(at)))
	}
	frame(binary.BigEndian.AppendUint64(nil, uint64(max(0, d.number[sOpenHeartbeat]))))
	for _, at := range [...]slot{sOpenAnchorHead, sOpenAnchorLog, sOpenPosture, sOpenContainment, sOpenUID} {
		frame([]byte(d.optional(at)))
	}
	return boundGenesis + hex.EncodeToString(h.Sum(nil))
}
