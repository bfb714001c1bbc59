package jcs

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

var (
	errRange = errors.New("number beyond a double")
	errExact = errors.New("number of 2^53 or more that no double is exactly")
)

// number returns the canonical form of a JSON number.
func number(text string) (string, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return "", errRange
	}
	mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
	if f == 0 {
		if strings.ContainsAny(mantissa, "123456789") {
			return "", errRange
		}
		return "0", nil
	}
	out := format(f)
	if math.Abs(f) >= 1<<53 && decimal(out) != decimal(text) {
		return "", errExact
	}
	return out, nil
}

// format writes a double other than 0 as ECMAScript does: the shortest digits that mean
// it, with an exponent only from 1e21 on and below 1e-6, which has no leading zeros.
func format(f float64) string {
	if abs := math.Abs(f); abs >= 1e-6 && abs < 1e21 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	return digits + "e" + exponent[:1] + strings.TrimLeft(exponent[1:], "0")
}

// A decimalNumber is a decimal number by its digits, which end in none that is zero.
type decimalNumber struct {
	negative bool
	digits   string
	exponent int // of the last digit
}

// decimal reads a number whose exponent is known to be small, since it is a double's.
func decimal(text string) (d decimalNumber) {
	text, d.negative = strings.CutPrefix(text, "-")
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	d.exponent, _ = strconv.Atoi(exponent) // "" is 0
	whole, fraction, _ := strings.Cut(mantissa, ".")
	d.exponent -= len(fraction)
	digits := strings.TrimLeft(whole+fraction, "0")
	d.digits = strings.TrimRight(digits, "0")
	d.exponent += len(digits) - len(d.digits)
	return d
}
