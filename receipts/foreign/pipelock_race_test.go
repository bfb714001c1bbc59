//go:build race

package foreign

const pipelockRace = true // everything is slower, and not evenly
