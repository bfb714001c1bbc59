package guard

import "bytes"

// workflowRules find what a CI system takes for a command when it is printed in a job.
var workflowRules = []rule{
	{
		name: "workflow-command", family: WorkflowCommand, severity: High, confidence: 0.95,
		says:    "a command that changes the job: its environment, outputs, masks or whether commands count",
		literal: []string{"::set-output", "::save-state", "::set-env", "::add-path", "::add-mask", "::stop-commands", "::add-matcher", "::remove-matcher", "::echo"},
		match:   matchCommand,
		hit:     "\n  ::set-output name=verdict::verified",
		miss:    "std::set-output::x and text ::set-output name=a::b",
	},
	{
		name: "workflow-annotation", family: WorkflowCommand, severity: Low, confidence: 0.6,
		says:    "a command that adds to the page of a job: an annotation or a group",
		literal: []string{"::error", "::warning", "::notice", "::debug", "::group", "::endgroup"},
		match:   matchCommand,
		hit:     "::error file=a.go,line=3::no",
		miss:    "std::error::code\n::errors::x\n::error",
	},
	{
		name: "legacy-command", family: WorkflowCommand, severity: Medium, confidence: 0.85,
		says:    "a command that counts wherever it is on a line",
		literal: []string{"##[", "##vso[", "##teamcity["},
		match: func(b []byte, at int) (int, int) {
			end := at + 1 + bytes.IndexByte(b[at:], '[')
			start := end
			for end < len(b) && end < start+32 && (isWord(b[end]) || b[end] == '-' || b[end] == '.') && b[end] < 0x80 {
				end++
			}
			if end == start {
				return 0, 0
			}
			return at, end
		},
		hit:  "ok ##[set-env name=PATH;]/tmp",
		miss: "## [heading] and ##[ ]",
	},
}

// matchCommand matches ::name::value and ::name key=value::value at the begin of a line.
func matchCommand(b []byte, at int) (int, int) {
	for i := at; i > 0 && b[i-1] != '\n' && b[i-1] != '\r'; i-- {
		if b[i-1] != ' ' && b[i-1] != '\t' || at-i > 64 {
			return 0, 0
		}
	}
	end := at + 2
	for end < len(b) && end < at+24 && (isWord(b[end]) || b[end] == '-') {
		end++
	}
	switch string(lowerASCII(b[at+2 : end])) {
	case "set-output", "save-state", "set-env", "add-path", "add-mask", "stop-commands", "add-matcher", "remove-matcher", "echo",
		"error", "warning", "notice", "debug", "group", "endgroup":
	default:
		return 0, 0
	}
	line := b[end:min(len(b), end+1024)]
	if i := bytes.IndexByte(line, '\n'); i >= 0 {
		line = line[:i]
	}
	i := bytes.Index(line, []byte("::"))
	if i < 0 || i > 0 && line[0] != ' ' && line[0] != '\t' {
		return 0, 0
	}
	return at, end + i + 2
}
