package pipelock

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/truegreen-dev/truegreen/internal/strictjson"
)

// unwrap says what is wrong with an object around a receipt, or returns nil if text is
// no such object. What declares something of the receipts that it holds, and is not
// signed, is refused in any case: with the code of the lie where it lies.
func unwrap(text []byte) error {
	var c strictjson.Cursor
	c.Reset(text, strictjson.Limits{Size: MaxReceipt, Depth: maxDepth})
	var body, length, count, list []byte
	c.Open()
	for {
		name, ok := c.Member()
		if !ok {
			break
		}
		value := c.Skip()
		switch string(name) {
		case "body":
			body = value
		case "declared_length":
			length = value
		case "receipts":
			list = value
		case "declared_receipt_count":
			count = value
		}
	}
	switch {
	case c.End() != nil:
		return nil
	case length != nil:
		var compact bytes.Buffer
		if json.Compact(&compact, body) == nil && string(length) == strconv.Itoa(compact.Len()) || string(length) == strconv.Itoa(len(body)) {
			return wrong(UnknownWrapper, "a receipt with a length, which nothing signs")
		}
		return wrong(codePaddingAttack, "it declares %.20s bytes, and has %d", length, len(body))
	case count != nil:
		n := 0
		c.Reset(list, strictjson.Limits{Size: MaxReceipt, Depth: maxDepth})
		if c.Kind() == '[' {
			for c.Open(); c.Element(); n++ {
				c.Skip()
			}
		}
		if string(count) == strconv.Itoa(n) {
			return wrong(UnknownWrapper, "receipts with their count, which nothing signs")
		}
		return wrong(codeCountMismatch, "it declares %.20s receipts, and has %d", count, n)
	}
	return nil
}
