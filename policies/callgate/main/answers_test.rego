package callgate.main_test

import data.callgate.main

_answer(text, steps, rules) := decision if {
	data_rules := {"profile": "starter", "org": {"answers": rules}, "teams": {}, "agents": {}}
	question := {
		"phase": "answer",
		"tools": [],
		"answer": {"text": text, "plain": text, "truncated": false},
		"run": {"turn": 1, "steps": steps},
	}
	decision := main.decision with data.rules as data_rules with input as question
}

_step(tool, status) := {"turn": 1, "tool": tool, "status": status, "arguments": {}}

_answer_codes(decision) := {denial.code | some denial in decision.deny}

test_cited_ids_are_found if {
	decision := _answer("Orders A12, B7 and A12.", [], {"orders": {"ids": `[A-Z][0-9]+`, "found_by": ["get_order"]}})
	decision.cited == [{
		"layer": "org",
		"rule": "answers.orders",
		"message": "",
		"tools": ["get_order"],
		"shadow": false,
		"values": ["A12", "B7"],
	}]
	decision.deny == []
}

test_nothing_is_cited_where_nothing_matches if {
	_answer("None.", [], {"orders": {"ids": `[A-Z][0-9]+`}}).cited == []
}

test_answers_are_judged_in_their_own_phase_only if {
	decision := main.decision with data.rules as {
		"profile": "starter",
		"org": {"answers": {"a": {"requires": "x"}}},
		"teams": {},
		"agents": {},
	}
		with input as {"phase": "calls", "tools": [], "calls": []}
	decision.deny == []
	decision.cited == []
}

test_what_is_required_must_be_there if {
	rules := {"reference": {"requires": `RF-[0-9]+`, "message": "Name the reference."}}
	_answer("Done, RF-12.", [], rules).deny == []
	some denial in _answer("Done.", [], rules).deny
	denial.code == "answer_incomplete"
	denial.message == "Name the reference."
	denial.layer == "org"
	denial.rule == "answers.reference"
}

test_required_only_when_a_tool_was_used if {
	rules := {"reference": {"requires": "RF", "when_used": ["refund"]}}
	_answer("Hello.", [], rules).deny == []
	_answer_codes(_answer("Done.", [_step("refund", "found")], rules)) == {"answer_incomplete"}
	_answer("Refused.", [_step("refund", "refused")], rules).deny == []
}

test_what_is_forbidden_must_not_be_there if {
	rules := {"promise": {"forbids": "guarantee"}}
	_answer_codes(_answer("We guarantee it.", [], rules)) == {"answer_forbidden"}
	_answer("We hope so.", [], rules).deny == []
}

test_a_claim_needs_its_tool if {
	rules := {"refunded": {"claims": "refunded", "only_after": ["refund"]}}
	_answer_codes(_answer("It was refunded.", [_step("refund", "failed")], rules)) == {"answer_unfounded"}
	_answer("It was refunded.", [_step("refund", "found")], rules).deny == []
	_answer("No refund.", [], rules).deny == []
}

test_in_shadow_it_is_only_said if {
	decision := _answer("We guarantee it.", [], {"promise": {"forbids": "guarantee", "shadow": true}})
	decision.deny == []
	count(decision.shadow) == 1
}
