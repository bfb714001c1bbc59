//go:build !race

package foreign

const pipelockRace = false
