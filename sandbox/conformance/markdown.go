package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// A Column is one mode, or one other sandbox, as one user.
type Column struct {
	Name     string
	Outcomes []Outcome
}

// Markdown renders the matrix: a line for each row that any column has, and
// below it why rows may end in several ways, or have no control. A cell is how
// the attempt ended. It is bold if that is a hole, in parentheses if the level
// measured promises nothing, and a dash if the row was not exercised.
func Markdown(columns ...Column) string {
	var rows []Row
	for _, c := range columns {
		for _, o := range c.Outcomes {
			if !slices.ContainsFunc(rows, func(r Row) bool { return r.ID == o.Row.ID }) {
				rows = append(rows, o.Row)
			}
		}
	}
	var b strings.Builder
	b.WriteString("| # | attempt | from level | must end in |")
	for _, c := range columns {
		b.WriteString(" " + cell(c.Name) + " |")
	}
	b.WriteString("\n|---|---|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |", r.ID, cell(r.Name), r.Level, cell(strings.Join(r.Want, ", ")))
		for _, c := range columns {
			b.WriteString(" " + c.cell(r.ID) + " |")
		}
		b.WriteByte('\n')
	}
	b.WriteString(reasons(rows))
	return b.String()
}

func (c Column) cell(id string) string {
	i := slices.IndexFunc(c.Outcomes, func(o Outcome) bool { return o.Row.ID == id })
	if i < 0 {
		return "–"
	}
	o := c.Outcomes[i]
	switch o.Status {
	case NotExercised:
		return "–"
	case NotPromised:
		return "(" + cell(o.Got) + ")"
	case Open, Broken:
		return "**" + strings.ToUpper(o.Status) + ": " + cell(o.Got) + "**"
	}
	return cell(o.Got)
}

// reasons lists each Why once, with the rows that it is about.
func reasons(rows []Row) string {
	var order []string
	of := map[string][]string{}
	for _, r := range rows {
		if r.Why == "" {
			continue
		}
		if of[r.Why] == nil {
			order = append(order, r.Why)
		}
		of[r.Why] = append(of[r.Why], r.ID)
	}
	var b strings.Builder
	for i, why := range order {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "- %s: %s.\n", strings.Join(of[why], ", "), why)
	}
	return b.String()
}

// cell makes text fit into one cell of a table.
func cell(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, s)
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", `\<`, "_", `\_`, "`", "\\`").Replace(s)
}
