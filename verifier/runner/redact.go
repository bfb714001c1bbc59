package runner

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
)

// redactor removes from text what must not become evidence: the values of
// secrets, and user information in URLs.
func (j *job) redactor(env []string) *strings.Replacer {
	var pairs []string
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case slices.Contains(j.Config.Prepare.Secrets, name) && len(value) > 0:
			hidden := "[secret " + name + "]"
			pairs = append(pairs, value, hidden, url.QueryEscape(value), hidden, base64.StdEncoding.EncodeToString([]byte(value)), hidden)
		case strings.Contains(value, "@"):
			for _, part := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == '|' }) {
				if u, err := url.Parse(part); err == nil && u.User != nil {
					pairs = append(pairs, u.User.String()+"@", "")
					if pw, ok := u.User.Password(); ok && pw != "" {
						pairs = append(pairs, pw, "[secret]")
					}
				}
			}
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	return strings.NewReplacer(pairs...)
}
