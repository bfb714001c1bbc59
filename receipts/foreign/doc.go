// Package foreign verifies receipts that other tools made of what an agent did: one
// adapter a format, one result for all of them.
//
// # Questions and answers
//
// A receipt answers some questions and not others, and a yes to one is often taken for
// a yes to all. So a [Verification] has an [Answer] to each by itself:
//
//	Signature   every signature is one that its key made over these bytes
//	Trust       those keys are ones that the caller named; a key in a receipt proves nothing
//	Binding     the receipt is about the tool, arguments and target that the caller names
//	Decision    the receipt says that the call was allowed
//	Freshness   it is not expired, too old, from the future, or seen before
//	Chain       each receipt follows the one before it, from the first
//	End         nothing after the last one was cut off
//
// Signature and Trust are always asked. The others are where the caller's [Rules] or
// [Binding] ask for them, or where the format has the answer in any case, as an expiry.
// A verification is trusted if every answer that was asked for is yes.
//
// No is said of what was found wrong; [Unproven] where nothing is wrong and something is
// missing: a key to check with, or any proof of the end. A question that the format has
// no room for, such as the arguments' hash in a receipt without one, is answered No, and
// the [Violation] names the limit.
//
// # Errors
//
// Bytes that are not a receipt of the format at all are a [MalformedError]: no question
// was put to them. Any other error is of the deployment: the input could not be read, or
// ctx ended. With an error, the verification is zero.
//
// # Time
//
// No adapter looks at a clock of its own: [Rules] has one.
package foreign
