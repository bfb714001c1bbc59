package guard

import (
	"bytes"
	"context"
	"fmt"

	"github.com/truegreen-dev/truegreen/receipts/foreign"
)

const receiptDetector = "receipt_verification"

// verify asks the adapter about the receipt of r. Whatever goes wrong, the receipt is
// not trusted: an adapter that returns an error, that panics, that leaves bytes unread,
// or that does not answer what the caller asked, cannot make it so.
func verify(ctx context.Context, a foreign.Adapter, r *Result) (out Receipt) {
	defer func() {
		if p := recover(); p != nil {
			reason := fmt.Sprintf("adapter panicked: %T", p)
			if err, ok := p.(error); ok {
				reason += ": " + err.Error()
			}
			out = refuse(out.Adapter, "adapter-panic", reason)
		}
	}()
	out.Adapter = a.Name()
	if r.Receipt == nil {
		return refuse(out.Adapter, "missing-receipt", "receipt not provided")
	}
	in := bytes.NewReader(r.Receipt)
	v, err := a.Verify(ctx, in, r.Binding)
	if err != nil {
		return refuse(out.Adapter, "adapter-error", fmt.Sprintf("adapter error: %T: %v", err, err))
	}
	out.Verification = &v
	out.Violations = v.Violations
	switch b := r.Binding; {
	case !v.Trusted():
		out.Reason = untrustedReason(&v)
	case (b.Tool != "" || b.ArgHash != "" || b.Target != "") && v.Binding != foreign.Yes:
		out.Reason = "adapter did not answer whether the receipt is about this call"
	case b.Allowed && v.Decision != foreign.Yes:
		out.Reason = "adapter did not answer whether the call was allowed"
	case in.Len() > 0:
		out.Reason = fmt.Sprintf("adapter left %d bytes of the receipt unread", in.Len())
	default:
		out.Trusted = true
	}
	return out
}

func refuse(adapter, code, reason string) Receipt {
	return Receipt{Adapter: adapter, Reason: reason, Violations: []foreign.Violation{{Code: code, Detail: reason, Answer: foreign.No}}}
}

// untrustedReason names the first violation that is as bad as the worst answer, or that
// answer if there is none.
func untrustedReason(v *foreign.Verification) string {
	if x, ok := v.Reason(); ok {
		return x.String()
	}
	for _, a := range v.Answers() {
		if a.Answer == v.Worst() {
			return a.Question + ": " + a.Answer.String()
		}
	}
	return "not trusted"
}

// receiptDetection makes what only looks at detections see an untrusted receipt.
func receiptDetection(r *Receipt) Detection {
	reason, _ := quote([]byte(r.Reason), 4*MaxMatched)
	return Detection{
		Detector:    receiptDetector,
		Rule:        "untrusted-receipt",
		Family:      UntrustedOrigin,
		Severity:    High,
		Confidence:  1,
		Explanation: r.Adapter + ": " + reason,
		Violations:  r.Violations,
	}
}
