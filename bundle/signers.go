package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// Signers are the keys that somebody trusts, and for what: an OpenSSH
// allowed_signers file.
//
//	# comment
//	alice@example.com,bob@* namespaces="seal@truegreen.dev",valid-before="20301231Z" ssh-ed25519 AAAA… comment
//
// A line holds principals, options and a public key. Options are namespaces (a
// pattern list; without it the key is trusted in every namespace), valid-after
// and valid-before (both bounds included). Unlike ssh-keygen, which passes over
// a line that it does not understand, ParseSigners refuses the file; so it does
// with the option cert-authority, as certificates are not supported.
type Signers struct {
	lines []signerLine
}

type signerLine struct {
	number     int
	principals string // pattern list
	namespaces string // pattern list
	anySpace   bool   // no option namespaces
	after      *signerTime
	before     *signerTime
	key        []byte // wire form
}

const (
	maxSignersLen   = 1 << 20
	maxSignersLines = 10_000
)

// ParseSigners reads an allowed_signers file.
func ParseSigners(file []byte) (*Signers, error) {
	s := &Signers{}
	err := eachLine("allowed signers", file, func(n int, line string) error {
		l, err := parseSignerLine(line)
		if err != nil {
			return err
		}
		l.number = n
		s.lines = append(s.lines, l)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// eachLine calls fn for every line that is neither empty nor a comment.
func eachLine(what string, file []byte, fn func(n int, line string) error) error {
	if len(file) > maxSignersLen {
		return fmt.Errorf("%s: %d bytes, limit %d", what, len(file), maxSignersLen)
	}
	n := 0
	for raw := range bytes.Lines(file) {
		if n++; n > maxSignersLines {
			return fmt.Errorf("%s: more than %d lines", what, maxSignersLines)
		}
		line := strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
		line = strings.TrimLeft(line, " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		if strings.ContainsRune(line, 0) {
			return fmt.Errorf("%s: line %d: NUL byte", what, n)
		}
		if err := fn(n, line); err != nil {
			return fmt.Errorf("%s: line %d: %w", what, n, err)
		}
	}
	return nil
}

func parseSignerLine(line string) (signerLine, error) {
	var l signerLine
	rest := line
	if quoted, ok := strings.CutPrefix(line, `"`); ok {
		if l.principals, rest, ok = strings.Cut(quoted, `"`); !ok {
			return signerLine{}, errors.New("principals: no closing quote")
		}
		if rest != "" && rest[0] != ' ' && rest[0] != '\t' {
			return signerLine{}, errors.New("principals: no blank after the closing quote")
		}
		rest = strings.TrimLeft(rest, " \t")
	} else {
		l.principals, rest = cutSpace(line)
	}
	if l.principals == "" {
		return signerLine{}, errors.New("no principals")
	}
	l.anySpace = true
	if word, _ := cutSpace(rest); !isKeyType(word) {
		var err error
		if rest, err = l.parseOptions(rest); err != nil {
			return signerLine{}, err
		}
	}
	key, err := parseKeyText(rest, parseKey)
	if err != nil {
		return signerLine{}, err
	}
	l.key = key.Marshal()
	return l, nil
}

// isKeyType tells the name of a key type from options.
func isKeyType(word string) bool {
	for _, prefix := range []string{"ssh-", "ecdsa-", "sk-"} {
		if strings.HasPrefix(word, prefix) {
			return true
		}
	}
	return false
}

// parseOptions reads a list of name or name="value" up to a blank, and returns
// what follows.
func (l *signerLine) parseOptions(s string) (rest string, err error) {
	seen := make(map[string]bool)
	for {
		end := strings.IndexAny(s, "=, \t")
		if end < 0 {
			end = len(s)
		}
		name := strings.ToLower(s[:end])
		s = s[end:]
		var value string
		quoted := strings.HasPrefix(s, "=")
		if quoted {
			if value, s, err = unquote(s[1:]); err != nil {
				return "", fmt.Errorf("option %s: %w", name, err)
			}
		}
		if seen[name] {
			return "", fmt.Errorf("option %s comes twice", name)
		}
		seen[name] = true
		if err := l.setOption(name, value, quoted); err != nil {
			return "", err
		}
		switch {
		case s == "":
			return "", errors.New("no public key")
		case s[0] == ',':
			s = s[1:]
		case s[0] == ' ' || s[0] == '\t':
			return strings.TrimLeft(s, " \t"), l.checkTimes()
		default:
			return "", fmt.Errorf("option %s: no comma or blank after it", name)
		}
	}
}

// unquote reads a string in double quotes, in which \" stands for a quote.
func unquote(s string) (value, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", errors.New("value is not in quotes")
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:], nil
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == '"':
			i++
		}
		b.WriteByte(s[i])
	}
	return "", "", errors.New("no closing quote")
}

func (l *signerLine) setOption(name, value string, hasValue bool) (err error) {
	switch {
	case name == "cert-authority":
		return errors.New("option cert-authority: certificates are not supported; list the keys themselves")
	case name != "namespaces" && name != "valid-after" && name != "valid-before":
		return fmt.Errorf("unknown option %q", name)
	case !hasValue:
		return fmt.Errorf("option %s has no value", name)
	}
	switch name {
	case "namespaces":
		l.namespaces, l.anySpace = value, false
	case "valid-after":
		l.after, err = parseSignerTime(value)
	case "valid-before":
		l.before, err = parseSignerTime(value)
	}
	if err != nil {
		return fmt.Errorf("option %s: %w", name, err)
	}
	return nil
}

func (l *signerLine) checkTimes() error {
	if l.after == nil || l.before == nil || l.after.utc != l.before.utc {
		return nil
	}
	if !l.before.in(time.UTC).After(l.after.in(time.UTC)) {
		return errors.New("valid-before is not after valid-after")
	}
	return nil
}

// A signerTime is YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS, in UTC if Z
// follows and otherwise in the time zone of whoever asks.
type signerTime struct {
	digits string // of all fourteen
	utc    bool
}

const signerLayout = "20060102150405"

func parseSignerTime(s string) (*signerTime, error) {
	t := &signerTime{digits: s}
	if n := len(s) - 1; n > 0 && (s[n] == 'Z' || s[n] == 'z') {
		t.digits, t.utc = s[:n], true
	}
	switch len(t.digits) {
	case 8, 12, 14:
	default:
		return nil, fmt.Errorf("time %q, want YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS and an optional Z", s)
	}
	t.digits += "000000"[:14-len(t.digits)]
	at, err := time.Parse(signerLayout, t.digits)
	if err != nil || at.Format(signerLayout) != t.digits {
		return nil, fmt.Errorf("time %q does not exist", s)
	}
	if at.Unix() <= 0 {
		return nil, fmt.Errorf("time %q is before 1970", s)
	}
	return t, nil
}

func (t *signerTime) in(loc *time.Location) time.Time {
	if t.utc {
		loc = time.UTC
	}
	at, _ := time.ParseInLocation(signerLayout, t.digits, loc) // was checked
	return at
}

// Find looks for a line that trusts key in namespace at the given time, which
// is that of verification. It returns the principals of the first one as they
// are written there. If there is none, why says what is wrong with the lines
// that name the key.
func (s *Signers) Find(key ssh.PublicKey, namespace string, at time.Time) (principal string, ok bool, why string) {
	return s.find(key, namespace, at, func(l signerLine) string {
		if !hasPositive(l.principals) {
			return "names nobody"
		}
		return ""
	})
}

// Allows is [Signers.Find] for lines that name identity, as ssh-keygen -Y
// verify -I does.
func (s *Signers) Allows(identity string, key ssh.PublicKey, namespace string, at time.Time) (ok bool, why string) {
	_, ok, why = s.find(key, namespace, at, func(l signerLine) string {
		if !matchList(l.principals, identity) {
			return fmt.Sprintf("is for %s", l.principals)
		}
		return ""
	})
	return ok, why
}

func (s *Signers) find(key ssh.PublicKey, namespace string, at time.Time, refuse func(signerLine) string) (string, bool, string) {
	wire := key.Marshal()
	var whys []string
	for _, l := range s.lines {
		if !bytes.Equal(l.key, wire) {
			continue
		}
		why := refuse(l)
		switch {
		case why != "":
		case !l.anySpace && !matchList(l.namespaces, namespace):
			why = "is for namespaces " + strconv.Quote(l.namespaces)
		case l.after != nil && at.Before(l.after.in(at.Location())):
			why = "is valid from " + l.after.in(at.Location()).Format(time.RFC3339)
		case l.before != nil && at.Truncate(time.Second).After(l.before.in(at.Location())):
			why = "was valid until " + l.before.in(at.Location()).Format(time.RFC3339)
		default:
			return l.principals, true, ""
		}
		if len(whys) < 3 {
			whys = append(whys, fmt.Sprintf("line %d %s", l.number, why))
		}
	}
	if whys == nil {
		return "", false, fmt.Sprintf("key %s is not listed", ssh.FingerprintSHA256(key))
	}
	return "", false, fmt.Sprintf("key %s: %s", ssh.FingerprintSHA256(key), strings.Join(whys, "; "))
}
