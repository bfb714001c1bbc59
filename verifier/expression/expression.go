// Package expression evaluates what a gate asks of a report beyond its fixed keys:
// expressions in CEL, the Common Expression Language (https://cel.dev).
//
// An expression sees one variable, report: the report in the JSON form that truegreen
// verify --json prints. Whole numbers are integers. It knows nothing else, neither the
// time nor a file, so the same report always gives the same answer.
//
//	report.claim.level >= 2
//	report.runs.all(r, r.network == "none")
//	report.compared.removed == null
//
// Everything fails closed. What does not parse, or cannot be a bool, is an error before
// anything is decided. A member that is not there, a value of another type, a result
// that is no bool, or an evaluation that costs too much is an expression that is not
// met. has(report.seal) asks whether a member is there.
//
// Limits: 1024 bytes and 32 levels of an expression, [MaxCost] units of cost of an
// evaluation, 64 MiB of a report.
package expression

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// MaxCost bounds an evaluation, in CEL's units: about one for each value that is looked
// at, and one for each ten bytes of a text.
const MaxCost = 1_000_000

const (
	maxSource = 1 << 10
	maxDepth  = 32
	maxReport = 64 << 20
)

// Expressions are expressions that were compiled.
type Expressions struct {
	list []expression
}

type expression struct {
	source  string
	program cel.Program
}

// Compile compiles expressions. None is an error too: nothing would be asked.
func Compile(sources []string) (*Expressions, error) {
	if len(sources) == 0 {
		return nil, errors.New("expressions: there are none")
	}
	env, err := cel.NewEnv(
		cel.Variable("report", cel.MapType(cel.StringType, cel.DynType)),
		cel.ParserRecursionLimit(maxDepth), cel.ParserExpressionSizeLimit(maxSource),
	)
	if err != nil {
		return nil, fmt.Errorf("expressions: %w", err)
	}
	e := &Expressions{}
	for _, source := range sources {
		program, err := compile(env, source)
		if err != nil {
			return nil, fmt.Errorf("expression %q: %w", source, err)
		}
		e.list = append(e.list, expression{source, program})
	}
	return e, nil
}

func compile(env *cel.Env, source string) (cel.Program, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("%d bytes, limit %d", len(source), maxSource)
	}
	ast, issues := env.Compile(source)
	if err := issues.Err(); err != nil {
		return nil, err
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("it is a %s, want a bool", t)
	}
	return env.Program(ast, cel.CostLimit(MaxCost))
}

// Check returns nil if all expressions are true of a report, and otherwise which is the
// first that is not, and why.
func (e *Expressions) Check(report []byte) error {
	value, err := decode(report)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	for _, x := range e.list {
		out, _, err := x.program.Eval(map[string]any{"report": value})
		switch {
		case err != nil:
			return fmt.Errorf("%q: %w", x.source, err)
		case out == nil || out.Type() != types.BoolType:
			return fmt.Errorf("%q: not true or false", x.source)
		case out != types.True:
			return fmt.Errorf("%q is not true", x.source)
		}
	}
	return nil
}

// decode reads JSON with integers as such: CEL's doubles would be equal to them, and
// yet not be the same type where a policy says 2 and not 2.0.
func decode(report []byte) (map[string]any, error) {
	if len(report) > maxReport {
		return nil, fmt.Errorf("%d bytes, limit %d", len(report), maxReport)
	}
	d := json.NewDecoder(bytes.NewReader(report))
	d.UseNumber()
	var value map[string]any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	for key, v := range value {
		value[key] = integers(v)
	}
	return value, nil
}

func integers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // out of range: infinite
		return f
	case map[string]any:
		for key, item := range v {
			v[key] = integers(item)
		}
	case []any:
		for i, item := range v {
			v[i] = integers(item)
		}
	}
	return v
}
