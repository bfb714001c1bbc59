//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
)

// etcFiles returns the synthetic /etc. Nothing of the host's accounts shows.
// With the host's network, names resolve as they do outside.
func etcFiles(c stageConfig) map[string][]byte {
	files := map[string][]byte{
		"passwd": fmt.Appendf(nil, "root:x:0:0:root:/nonexistent:/bin/false\nsandbox:x:%d:%d:sandbox:%s:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
			c.UID, c.GID, homeDir),
		"group":         fmt.Appendf(nil, "root:x:0:\nsandbox:x:%d:\nnogroup:x:65534:\n", c.GID),
		"hosts":         []byte("127.0.0.1 localhost sandbox\n::1 localhost sandbox\n"),
		"hostname":      []byte("sandbox\n"),
		"nsswitch.conf": []byte("passwd: files\ngroup: files\nhosts: files dns\n"),
		"resolv.conf":   nil,
	}
	if c.Network == NetworkHost {
		for _, name := range []string{"hosts", "resolv.conf"} {
			if b, err := os.ReadFile("/etc/" + name); err == nil {
				files[name] = b
			}
		}
	}
	return files
}

// etcBinds lists what programs need of the host's /etc to start at all and
// to check certificates.
func etcBinds(n Network) []string {
	p := []string{
		"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
		"/etc/protocols", "/etc/services", "/etc/ssl",
	}
	if n == NetworkHost {
		p = append(p, "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/pki")
	}
	return p
}
