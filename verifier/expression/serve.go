package expression

import (
	"encoding/json"
	"fmt"
	"io"
)

// A Question asks which of the expressions a report does not meet. Without a report it asks
// whether they compile.
type Question struct {
	Expressions []string        `json:"expressions"`
	Report      json.RawMessage `json:"report,omitempty"`
}

// An Answer says what is wrong. Compiled is true if it is not an expression itself.
type Answer struct {
	Compiled bool   `json:"compiled"`
	Error    string `json:"error,omitempty"`
}

// Serve reads one Question in JSON and writes its Answer. It returns an exit code, which is
// not 0 if there is no answer.
func Serve(in io.Reader, out io.Writer) int {
	var q Question
	d := json.NewDecoder(io.LimitReader(in, maxReport+1<<20))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		fmt.Fprintln(out, "truegreen-cel: started by truegreen gate; its input is no question:", err)
		return 2
	}
	var answer Answer
	e, err := Compile(q.Expressions)
	if err == nil {
		answer.Compiled = true
		if len(q.Report) > 0 {
			err = e.Check(q.Report)
		}
	}
	if err != nil {
		answer.Error = err.Error()
	}
	if json.NewEncoder(out).Encode(answer) != nil {
		return 2
	}
	return 0
}
