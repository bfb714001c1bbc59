package pipelock

import "sync"

// A kind is the type of a member.
type kind uint8

const (
	kString kind = iota
	kStrings
	kChain // strings, or null
	kBool
	kInt   // |n| < 2^53
	kUint  // n < 2^53
	kByte  // n < 256
	kTime  // RFC 3339
	kSub   // an object
	kSubs  // objects
	kCount // an object of integers by names
	kAny   // any JSON: compact, and its text otherwise kept
)

// A member is one of an object's.
type member struct {
	name   string
	kind   kind
	always bool // written even if it is zero, and required
	keep   slot
	sub    schema
	key    string // `"name":`
}

// A schema lists an object's members in the order in which they are written.
type schema []member

func always(name string, k kind, keep slot, sub ...schema) member {
	m := maybe(name, k, keep, sub...)
	m.always = true
	return m
}

func maybe(name string, k kind, keep slot, sub ...schema) member {
	m := member{name: name, kind: k, keep: keep, key: `"` + name + `":`}
	if len(sub) > 0 {
		m.sub = sub[0]
	}
	return m
}

// A slot is where a decoder keeps the value of a member that is more than signed.
type slot uint8

const (
	none slot = iota
	sVersion
	sRecord
	sSignature
	sSignerKey
	sExt
	sRecordVersion
	sActionID
	sParentID
	sActionType
	sTime
	sPrincipal
	sActor
	sTarget
	sPolicyHash
	sVerdict
	sPhase
	sDeferID
	sSession
	sTransport
	sMethod
	sRequestID
	sPrevHash
	sSeq
	sRunNonce
	sOverride
	sTransition
	sPriorKey
	sPriorSeq
	sPriorHash
	sControl
	sControlKind
	sOpen
	sBeat
	sClose
	sControlRun
	sControlNonce
	sOpenSession
	sOpenPolicy
	sOpenEpoch
	sOpenHeartbeat
	sOpenSeq
	sOpenHead
	sOpenPriorSeq
	sOpenGenesis
	sOpenAnchorHead
	sOpenAnchorLog
	sOpenPosture
	sOpenContainment
	sOpenUID
	sBeatHead
	sBeatSeq
	sCloseSeq
	sCloseRoot
	sCloseCount
	slots
)

var envelope = sync.OnceValue(func() schema {
	return schema{
		always("version", kInt, sVersion),
		always("action_record", kSub, sRecord, record()),
		always("signature", kString, sSignature),
		always("signer_key", kString, sSignerKey),
		maybe("ext", kAny, sExt),
	}
})

var record = sync.OnceValue(func() schema {
	return schema{
		always("version", kInt, sRecordVersion),
		always("action_id", kString, sActionID),
		maybe("parent_action_id", kString, sParentID),
		always("action_type", kString, sActionType),
		always("timestamp", kTime, sTime),
		always("principal", kString, sPrincipal),
		always("actor", kString, sActor),
		always("delegation_chain", kChain, none),
		always("target", kString, sTarget),
		maybe("intent", kString, none),
		maybe("data_classes_in", kStrings, none),
		maybe("data_classes_out", kStrings, none),
		always("side_effect_class", kString, none),
		always("reversibility", kString, none),
		always("policy_hash", kString, sPolicyHash),
		always("verdict", kString, sVerdict),
		maybe("decision_phase", kString, sPhase),
		maybe("defer_id", kString, sDeferID),
		maybe("resolution_policy", kString, none),
		maybe("resolution_source", kString, none),
		maybe("session_id", kString, sSession),
		maybe("session_id_original", kString, none),
		maybe("session_taint_level", kString, none),
		maybe("session_contaminated", kBool, none),
		maybe("recent_taint_sources", kSubs, none, taintSource()),
		maybe("session_task_id", kString, none),
		maybe("session_task_label", kString, none),
		maybe("authority_kind", kString, none),
		maybe("taint_decision", kString, none),
		maybe("taint_decision_reason", kString, none),
		maybe("task_override_applied", kBool, sOverride),
		maybe("contract_winning_source", kString, none),
		maybe("contract_live_verdict", kString, none),
		maybe("contract_policy_sources", kStrings, none),
		maybe("contract_rule_id", kString, none),
		maybe("active_manifest_hash", kString, none),
		maybe("contract_hash", kString, none),
		maybe("contract_selector_id", kString, none),
		maybe("contract_generation", kUint, none),
		always("transport", kString, sTransport),
		maybe("method", kString, sMethod),
		maybe("layer", kString, none),
		maybe("pattern", kString, none),
		maybe("severity", kString, none),
		maybe("redaction", kSub, none, redaction()),
		maybe("shield", kSub, none, shield()),
		maybe("request_id", kString, sRequestID),
		always("chain_prev_hash", kString, sPrevHash),
		always("chain_seq", kUint, sSeq),
		maybe("run_nonce", kString, sRunNonce),
		maybe("key_transition", kSub, sTransition, transition()),
		maybe("session_control", kSub, sControl, control()),
		maybe("venue", kString, none),
		maybe("jurisdiction", kString, none),
		maybe("rulebook_id", kString, none),
		maybe("remedy_class", kString, none),
		maybe("contestation_window", kString, none),
		maybe("precedent_refs", kStrings, none),
	}
})

var redaction = sync.OnceValue(func() schema {
	return schema{
		maybe("profile", kString, none),
		maybe("provider", kString, none),
		maybe("parser", kString, none),
		maybe("total_redactions", kInt, none),
		maybe("by_class", kCount, none),
		maybe("cache_boundary_kept", kBool, none),
	}
})

var shield = sync.OnceValue(func() schema {
	return schema{
		maybe("pipeline", kString, none),
		maybe("total_rewrites", kInt, none),
		maybe("extension_probes", kInt, none),
		maybe("tracking_beacons", kInt, none),
		maybe("agent_traps", kInt, none),
		maybe("fingerprint_shim_injected", kBool, none),
		maybe("svg_foreign_objects", kInt, none),
		maybe("svg_event_handlers", kInt, none),
		maybe("svg_external_references", kInt, none),
		maybe("svg_hidden_text", kInt, none),
		maybe("svg_animation_injections", kInt, none),
		maybe("body_bytes", kInt, none),
		maybe("scanned_bytes", kInt, none),
		maybe("partial", kBool, none),
		maybe("adaptive_signals_recorded", kInt, none),
		maybe("adaptive_signal_max_per_body", kInt, none),
	}
})

var taintSource = sync.OnceValue(func() schema {
	return schema{
		always("url", kString, none),
		always("kind", kString, none),
		always("level", kByte, none),
		always("timestamp", kTime, none),
		maybe("receipt_id", kString, none),
		maybe("match_reason", kString, none),
	}
})

var transition = sync.OnceValue(func() schema {
	return schema{
		always("prior_signer_key", kString, sPriorKey),
		always("prior_chain_seq", kUint, sPriorSeq),
		always("prior_chain_hash", kString, sPriorHash),
	}
})

var control = sync.OnceValue(func() schema {
	return schema{
		always("kind", kString, sControlKind),
		maybe("open", kSub, sOpen, sessionOpen()),
		maybe("heartbeat", kSub, sBeat, heartbeat()),
		maybe("close", kSub, sClose, sessionClose()),
	}
})

var sessionOpen = sync.OnceValue(func() schema {
	return schema{
		always("run_nonce", kString, sControlRun),
		always("open_nonce", kString, sControlNonce),
		always("recorder_session", kString, sOpenSession),
		always("policy_hash", kString, sOpenPolicy),
		always("signer_key_epoch", kString, sOpenEpoch),
		always("heartbeat_seconds", kInt, sOpenHeartbeat),
		always("chain_open_seq", kUint, sOpenSeq),
		maybe("prior_chain_head", kString, sOpenHead),
		maybe("prior_chain_seq", kUint, sOpenPriorSeq),
		maybe("genesis_hash", kString, sOpenGenesis),
		maybe("genesis_anchor_head", kString, sOpenAnchorHead),
		maybe("genesis_anchor_log", kString, sOpenAnchorLog),
		maybe("posture_capsule_sha256", kString, sOpenPosture),
		maybe("posture_signer_key_id", kString, none),
		maybe("containment_nonce", kString, sOpenContainment),
		maybe("contained_uid", kString, sOpenUID),
	}
})

var heartbeat = sync.OnceValue(func() schema {
	return schema{
		always("run_nonce", kString, sControlRun),
		always("open_nonce", kString, sControlNonce),
		always("beat", kUint, none),
		always("chain_head", kString, sBeatHead),
		always("chain_seq_head", kUint, sBeatSeq),
		always("heartbeat_time", kString, none),
		always("fsync_errors_gated", kUint, none),
		always("durability_blocks", kUint, none),
	}
})

var sessionClose = sync.OnceValue(func() schema {
	return schema{
		always("run_nonce", kString, sControlRun),
		always("open_nonce", kString, sControlNonce),
		always("final_seq", kUint, sCloseSeq),
		always("root_hash", kString, sCloseRoot),
		always("receipt_count", kUint, sCloseCount),
		always("close_reason", kString, none),
		always("fsync_errors_gated", kUint, none),
		always("durability_blocks", kUint, none),
	}
})
