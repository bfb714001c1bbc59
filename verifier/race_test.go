//go:build race

package verifier

const RaceEnabled = true
