package guard

import "bytes"

// terminalRules find escape sequences that do more than colour. Colours and styles, the
// erasing of the rest of a line, and the hiding of the cursor are what tests and compilers
// print: they are no detection.
var terminalRules = []rule{
	{
		name: "clipboard", family: TerminalControl, severity: Critical, confidence: 0.95, raw: true,
		says:    "writes to the clipboard of whoever looks at it (OSC 52)",
		literal: []string{"\x1b]52;", "\u009d52;"},
		match:   matchOSC,
		hit:     "\x1b]52;c;cm0gLXJmIH4=\x07",
		miss:    "\x1b[52m 52;c",
	},
	{
		name: "hyperlink", family: TerminalControl, severity: Low, confidence: 0.6, raw: true,
		says:    "a link whose text is not its destination (OSC 8)",
		literal: []string{"\x1b]8;", "\u009d8;"},
		match:   matchOSC,
		hit:     "\x1b]8;;https://evil.example\x1b\\docs\x1b]8;;\x1b\\",
		miss:    "\x1b[8C is none, nor is ]8;;",
	},
	{
		name: "title", family: TerminalControl, severity: Medium, confidence: 0.8, raw: true,
		says:    "sets the title, the directory, a colour or a notification of a terminal (OSC)",
		literal: []string{"\x1b]"},
		match: func(b []byte, at int) (int, int) {
			if bytes.HasPrefix(b[at+2:], []byte("52;")) || bytes.HasPrefix(b[at+2:], []byte("8;")) {
				return 0, 0
			}
			return matchOSC(b, at)
		},
		hit:  "\x1b]0;root@host\x07",
		miss: "\x1b[0m]0;x",
	},
	{
		name: "control-string", family: TerminalControl, severity: High, confidence: 0.9, raw: true,
		says:    "a string for the terminal itself, or a reset of it",
		literal: []string{"\x1bp", "\x1b^", "\x1b_", "\x1bx", "\x1bc"},
		match: func(b []byte, at int) (int, int) {
			switch b[at+1] {
			case 'c':
				return at, at + 2
			case 'P', '^', '_', 'X':
				return at, stringEnd(b, at+2)
			}
			return 0, 0
		},
		hit:  "\x1bP$q\"p\x1b\\",
		miss: "\x1b[1mP\x1b[0m",
	},
	{
		name: "cursor", family: TerminalControl, severity: Low, confidence: 0.6, raw: true,
		says:    "moves the cursor or erases text: what was shown is overwritten",
		literal: []string{"\x1b["},
		match: func(b []byte, at int) (int, int) {
			n := csi(b[at:])
			if n == 0 {
				return 0, 0
			}
			arg := string(b[at+2 : at+n-1])
			switch c := b[at+n-1]; c {
			case 'A', 'B', 'D', 'E', 'F', 'G', 'H', 'd', 'f', 's', 'u', 'L', 'M', 'P', 'S', 'T', '@', 'X', 'r':
			case 'J':
			case 'K':
				if arg == "" || arg == "0" {
					return 0, 0
				}
			case 'h', 'l':
				if arg != "?1049" && arg != "?1047" && arg != "?47" && arg != "4" {
					return 0, 0
				}
			default:
				return 0, 0
			}
			return at, at + n
		},
		hit:  "FAIL\x1b[2K\x1b[1A",
		miss: "\x1b[01;31m\x1b[Kerror\x1b[m\x1b[K \x1b[?25l",
	},
	{
		name: "report-request", family: TerminalControl, severity: High, confidence: 0.85, raw: true,
		says:    "makes a terminal type an answer, change its window or remap a key",
		literal: []string{"\x1b["},
		match: func(b []byte, at int) (int, int) {
			n := csi(b[at:])
			if n == 0 {
				return 0, 0
			}
			switch b[at+n-1] {
			case 'n', 'c', 't', 'x', 'p', 'i', 'y':
				return at, at + n
			}
			return 0, 0
		},
		hit:  "\x1b[6n",
		miss: "\x1b[36mn\x1b[0m",
	},
	{
		name: "concealed-text", family: TerminalControl, severity: High, confidence: 0.9, raw: true,
		says:    "text that a terminal does not show (SGR 8)",
		literal: []string{"\x1b["},
		match: func(b []byte, at int) (int, int) {
			n := csi(b[at:])
			if n == 0 || b[at+n-1] != 'm' {
				return 0, 0
			}
			list := bytes.Split(b[at+2:at+n-1], []byte(";"))
			for i := 0; i < len(list); i++ {
				switch string(list[i]) {
				case "8":
					return at, at + n
				case "38", "48", "58": // a colour: its numbers are no styles
					if i+1 < len(list) && string(list[i+1]) == "5" {
						i += 2
					} else {
						i += 4
					}
				}
			}
			return 0, 0
		},
		hit:  "\x1b[8mignore\x1b[0m",
		miss: "\x1b[38;5;8mgrey\x1b[0m \x1b[48;2;8;8;8m",
	},
	{
		name: "c1-control", family: TerminalControl, severity: Medium, confidence: 0.8, raw: true,
		says:    "a control character that some terminals take for an escape",
		literal: []string{"\u0090", "\u0098", "\u009b", "\u009d", "\u009e", "\u009f"},
		match:   alone("\u009b"),
		hit:     "\u009b2J",
		miss:    "café ›",
	},
}

// maxOSC is how long a string for a terminal may be to be one.
const maxOSC = 4096

// stringEnd returns the end of a string for a terminal. One that does not end is its
// introduction only, so that the text behind it is not lost.
func stringEnd(b []byte, from int) int {
	for i := from; i < len(b) && i < from+maxOSC; i++ {
		switch {
		case b[i] == 7:
			return i + 1
		case b[i] == 0x1b:
			if i+1 < len(b) && b[i+1] == '\\' {
				return i + 2
			}
			return from // another sequence begins
		case b[i] == '\n':
			return from
		}
	}
	return from
}

func matchOSC(b []byte, at int) (int, int) {
	start := at + 2
	if end := stringEnd(b, start); end > start {
		return at, end
	}
	for start < len(b) && start < at+8 && b[start] != ';' && b[start] > ' ' && b[start] < 0x7f {
		start++
	}
	if start < len(b) && b[start] == ';' {
		start++
	}
	return at, start
}
