package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts"
)

const (
	blockLen   = 512          // unit of a tar: a header, and what content is padded to
	trailerLen = 2 * blockLen // zero bytes that end the tar
	maxNameLen = 100          // of the name field
	maxTarSize = 1<<33 - 1    // eleven octal digits

	blobPrefix = "blobs/sha256/"
)

// A kind is what a member is; members come in the order of their kinds.
type kind int

const (
	kindSeal kind = iota
	kindMAC
	kindSig
	kindLog
	kindBlob
)

// kindOf reads a member name; d is the digest that a blob's name states.
func kindOf(name string) (k kind, d receipts.Digest, ok bool) {
	switch name {
	case "seal":
		return kindSeal, d, true
	case "seal.mac":
		return kindMAC, d, true
	case "seal.sig":
		return kindSig, d, true
	case "log":
		return kindLog, d, true
	}
	if hex, found := strings.CutPrefix(name, blobPrefix); found {
		d, err := receipts.ParseDigest(hex)
		return kindBlob, d, err == nil
	}
	return 0, d, false
}

func blobName(d receipts.Digest) string { return blobPrefix + d.String() }

// limit returns how many bytes a member of kind k may have.
func (k kind) limit(l Limits) int64 {
	switch k {
	case kindSeal:
		return maxSeal
	case kindMAC:
		return maxMAC
	case kindSig:
		return maxSig
	case kindLog:
		return min(l.Log, maxTarSize)
	default:
		return min(l.Blob, maxTarSize)
	}
}

// padLen returns the number of zero bytes that follow n bytes of content.
func padLen(n int64) int64 { return -n & (blockLen - 1) }

// header returns the one USTAR header of a member: a regular file, mode 0444,
// owner, group and time zero. Nothing but name and size varies.
func header(name string, size int64) (h [blockLen]byte, err error) {
	if name == "" || len(name) > maxNameLen {
		return [blockLen]byte{}, fmt.Errorf("name of %d bytes, want 1 to %d", len(name), maxNameLen)
	}
	if size < 0 || size > maxTarSize {
		return [blockLen]byte{}, fmt.Errorf("size %d, want 0 to %d", size, int64(maxTarSize))
	}
	copy(h[0:], name)
	copy(h[100:], "0000444\x00")                       // mode
	copy(h[108:], "0000000\x00")                       // uid
	copy(h[116:], "0000000\x00")                       // gid
	copy(h[124:], fmt.Appendf(nil, "%011o\x00", size)) // size
	copy(h[136:], "00000000000\x00")                   // mtime
	copy(h[148:], "        ")                          // checksum, counted as spaces
	h[156] = '0'                                       // a regular file
	copy(h[257:], "ustar\x0000")                       // magic and version
	copy(h[329:], "0000000\x00")                       // device major
	copy(h[337:], "0000000\x00")                       // device minor
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	copy(h[148:], fmt.Appendf(nil, "%06o\x00 ", sum))
	return h, nil
}

var errHeader = errors.New("header is not the canonical one of its name and size")

// parseHeader reads a header and refuses every one that [header] would not
// have made. Extended headers, links, sparse maps and other tar dialects are
// therefore never interpreted: they are unequal bytes.
func parseHeader(h *[blockLen]byte) (name string, size int64, err error) {
	raw, _, _ := bytes.Cut(h[:maxNameLen], []byte{0})
	for _, c := range h[124:135] {
		size = size<<3 | int64(c&7) // of a digit; of anything else, never equal
	}
	want, err := header(string(raw), size)
	if err != nil {
		return "", 0, err
	}
	if *h != want {
		return "", 0, errHeader
	}
	return string(raw), size, nil
}
