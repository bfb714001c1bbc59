//go:build amd64 || arm64

package conformance

import (
	"context"
	"slices"
	"strings"
)

// A launch starts the program inside, to make these attempts, and returns what
// it wrote to standard output.
type launch func(ctx context.Context, ids []string) (string, error)

// batch makes attempts in as few processes as that takes: one that ends in the
// middle of a row loses that row ("died" if it does so again) and no other.
func (l launch) batch(ctx context.Context, ids []string) (map[string]string, error) {
	got := map[string]string{}
	for len(ids) > 0 {
		out, err := l(ctx, ids)
		if err != nil {
			return nil, err
		}
		read(out, ids, got)
		i := slices.IndexFunc(ids, func(id string) bool { _, ok := got[id]; return !ok })
		if i < 0 {
			break
		}
		bad := ids[i]
		if len(ids) > 1 {
			if out, err = l(ctx, ids[i:i+1]); err != nil {
				return nil, err
			}
			read(out, ids[i:i+1], got)
		}
		if _, ok := got[bad]; !ok {
			got[bad] = "died"
		}
		ids = ids[i+1:]
	}
	return got, nil
}

// read takes the answers to these rows out of the output.
func read(out string, ids []string, got map[string]string) {
	for line := range strings.Lines(out) {
		id, answer, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if ok && slices.Contains(ids, id) {
			got[id] = answer
		}
	}
}
