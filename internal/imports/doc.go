// Package imports has no code. Its test holds the packages of the module to the
// direction in which they may import each other, with the reason beside each rule.
package imports
