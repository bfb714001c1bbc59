// Package source says what a patch does to code and tests, read from their
// text. It is pure: it runs nothing, opens nothing, and its results are a
// function of its arguments alone, in an order that does not depend on theirs.
//
// # What a text can show
//
// Everything here is read from source that the patch's author wrote, so what is
// found is a reason to look, and what is not found proves nothing: a program
// can do what these functions name in ways that they do not know, in assembly,
// in a dependency, or in a file that a build step writes. They complete what a
// run shows. A stream of test events cannot tell which tests should have been
// in it, and the text can; the text cannot tell what happened, and a run can.
//
// # Hostile input
//
// Go files, go.mod files included, are read up to 4 MiB each; larger ones are
// named as not read. The text of a file that does not parse is used as far as
// the parser came. Line directives (//line) are ignored, so that a position is
// always that of the text. How many files there are, and how many bytes in all,
// is for the caller to bound: time and memory grow linearly with both, but for
// the comparison of renamed tests, which has a bound of its own.
package source

// A File is one file of a tree: its path in the tree and its content.
type File struct {
	Path    string
	Content []byte
}
