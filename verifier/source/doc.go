// Package source says what a patch does to code and tests, read from their
// text. It is pure and runs nothing.
package source

// A File is one file of a tree: its path in the tree and its content.
type File struct {
	Path    string
	Content []byte
}
