package guard

import (
	"hash/crc32"
	"strings"
	"testing"
)

func crc(s string) uint32 { return crc32.ChecksumIEEE([]byte(s)) }

// bech32Sum returns the six characters of a checksum.
func bech32Sum(s string) string {
	const low = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
	c := bech32([]byte(s+"QQQQQQ")) ^ 1
	b := make([]byte, 6)
	for i := range b {
		b[i] = low[c>>(5*(5-i))&31]
	}
	return strings.ToUpper(string(b))
}

// TestGitHubChecksum: the token is one that was published as an example and means nothing.
func TestGitHubChecksum(t *testing.T) {
	t.Parallel()
	token := "ghp_" + "zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ" + "0mLq17"
	if !checkGitHub([]byte(token)) {
		t.Error("a good checksum is refused")
	}
	if checkGitHub([]byte(strings.Replace(token, "z", "y", 1))) {
		t.Error("a bad checksum is accepted")
	}
}
