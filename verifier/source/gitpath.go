package source

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// parseGitLine returns the path of a line "diff --git a/PATH b/PATH". Without
// renames both are the same, so the space between them is in the middle.
func parseGitLine(line string) (string, error) {
	names, ok := strings.CutPrefix(line, gitLine)
	if !ok {
		return "", errors.New("want a line with diff --git")
	}
	half := len(names) / 2
	if len(names) < 7 || len(names)%2 == 0 || names[half] != ' ' {
		return "", errors.New("a line with diff --git and two names that differ")
	}
	name, err := unquote(names[:half])
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(name, "a/")
	if !ok || quote("a/"+path) != names[:half] || quote("b/"+path) != names[half+1:] {
		return "", errors.New("names that Git does not write so")
	}
	return path, checkPath(path)
}

// fileLabel is a name as the lines --- and +++ have it.
func fileLabel(prefix, path string) string {
	if strings.Contains(path, " ") {
		return quote(prefix+path) + "\t"
	}
	return quote(prefix + path)
}

// The characters that Git's quoting has a letter for, and these letters.
const (
	quotedBytes   = "\a\b\t\n\v\f\r\"\\"
	quotedLetters = `abtnvfr"\`
)

// quote returns name as Git writes it: in C quotes if it holds a control
// character, a quote, a backslash or a byte beyond ASCII.
func quote(name string) string {
	plain := true
	for i := 0; i < len(name); i++ {
		plain = plain && name[i] >= ' ' && name[i] < 0x7f && name[i] != '"' && name[i] != '\\'
	}
	if plain {
		return name
	}
	b := []byte{'"'}
	for i := 0; i < len(name); i++ {
		c := name[i]
		if at := strings.IndexByte(quotedBytes, c); at >= 0 {
			b = append(b, '\\', quotedLetters[at])
		} else if c < ' ' || c >= 0x7f {
			b = fmt.Appendf(b, `\%03o`, c)
		} else {
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}

// unquote undoes quote. What it takes and quote does not write, the caller
// finds by quoting again.
func unquote(s string) (string, error) {
	inner, ok := strings.CutPrefix(s, `"`)
	if !ok {
		return s, nil
	}
	if inner, ok = strings.CutSuffix(inner, `"`); !ok {
		return "", errors.New("a quoted name does not end")
	}
	var b []byte
	for i := 0; i < len(inner); i++ {
		if inner[i] != '\\' {
			b = append(b, inner[i])
			continue
		}
		if i++; i == len(inner) {
			return "", errors.New("a quoted name ends in a backslash")
		}
		if at := strings.IndexByte(quotedLetters, inner[i]); at >= 0 {
			b = append(b, quotedBytes[at])
			continue
		}
		n, err := strconv.ParseUint(inner[i:min(i+3, len(inner))], 8, 8)
		if err != nil {
			return "", errors.New("a quoted name has an escape that is not known")
		}
		b = append(b, byte(n))
		i += 2
	}
	return string(b), nil
}

// checkPath is the rule for paths of this package's formats: 1 to 4096 bytes,
// no NUL, no leading, trailing or doubled slash, no element "." or "..".
func checkPath(path string) error {
	if path == "" || len(path) > 4096 {
		return fmt.Errorf("path of %d bytes, want 1 to 4096", len(path))
	}
	if strings.IndexByte(path, 0) >= 0 {
		return fmt.Errorf("path %q: holds a NUL byte", path)
	}
	for element := range strings.SplitSeq(path, "/") {
		if element == "" || element == "." || element == ".." {
			return fmt.Errorf("path %q: element %q", path, element)
		}
	}
	return nil
}
