package source

import (
	"strings"
	"testing"
)

// BenchmarkTextDeltas measures a megabyte of code that has nothing, and of tests.
func BenchmarkTextDeltas(b *testing.B) {
	for name, line := range map[string]string{
		"a.js": "const value = compute(first, second) + items.map(x => x * 2).length;\n", "a.test.js": "  expect(compute(first, second)).toBe(42) // as it was\n",
		"a.py": "    value = compute(first, second) + len([x for x in items])\n", "test_a.py": "    assert compute(first, second) == 42\n",
	} {
		b.Run(name, func(b *testing.B) {
			text := strings.Repeat(line, 1<<20/len(line))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				TextDeltas(nil, []File{{name, []byte(text)}}, func(p string) bool { return TestSide(p, nil) })
			}
		})
	}
}
