# METADATA
# title: Tests of the decision
package callgate.main_test

import data.callgate.main

_rules := {"profile": "starter", "org": {}, "teams": {}, "agents": {}}

_question := {
	"phase": "calls",
	"identity": {"organisation": "acme", "team": "blue", "agent": "bot", "user": "ann", "roles": ["clerk"], "claims": {}},
	"tools": [{"name": "read", "folded": "read"}, {"name": "write", "folded": "write"}],
	"run": {"steps": []},
	"task": {"user_text": "go", "user_texts": ["go"], "folded": "go"},
	"calls": [{"index": 0, "name": "read", "folded": "read", "arguments": {}}],
}

_codes(decision) := {denial.code | some denial in decision.deny}

test_allows_everything_where_nothing_is_said if {
	decision := main.decision with input as _question with data.rules as _rules

	decision == {
		"deny": [],
		"allowed_tools": null,
		"limits": {"turn": {"per_tool": {}}, "run": {"per_tool": {}}, "brakes": {}},
		"tools": {},
		"shadow": [],
		"approvals": [],
		"cited": [],
	}
}

test_denies_an_unknown_phase if {
	decision := main.decision with input as {"phase": "lunch"} with data.rules as _rules

	_codes(decision) == {"undefined_decision"}
	decision.allowed_tools == []
}

test_denies_a_missing_phase if {
	decision := main.decision with input as {} with data.rules as _rules

	_codes(decision) == {"undefined_decision"}
}

test_denies_everything_without_rule_data if {
	decision := main.decision with input as _question with data.rules as {}

	_codes(decision) == {"undefined_decision"}
}

test_allows_a_question_without_identity if {
	question := object.remove(_question, ["identity"])
	decision := main.decision with input as question with data.rules as _rules

	decision.deny == []
}

test_denies_by_every_layer_that_objects if {
	constrained := {"tools": {"read": {"arguments": {"id": {"required": true}}}}}
	rules := object.union(_rules, {"org": constrained, "teams": {"blue": constrained}, "agents": {"bot": constrained}})
	decision := main.decision with input as _question with data.rules as rules

	{denial.layer | some denial in decision.deny} == {"org", "team.blue", "agent.bot"}
	{denial.rule | some denial in decision.deny} == {"tools.read.arguments.id.required"}
}

test_allows_what_only_another_team_denies if {
	constrained := {"tools": {"read": {"arguments": {"id": {"required": true}}}}}
	rules := object.union(_rules, {"teams": {"red": constrained}})
	decision := main.decision with input as _question with data.rules as rules

	decision.deny == []
}

test_allows_what_is_only_said_in_shadow if {
	constrained := {"tools": {"read": {"arguments": {"id": {"required": true, "shadow": true}}}}}
	rules := object.union(_rules, {"org": constrained})
	decision := main.decision with input as _question with data.rules as rules

	decision.deny == []
	[denial.code | some denial in decision.shadow] == ["argument_rule"]
}

test_denies_what_the_rego_of_a_layer_denies if {
	said := {{"layer": "team.blue", "denial": {"code": "closed", "message": "No."}}}
	decision := main.decision with input as _question with data.rules as _rules
		with data.callgate.layers.deny as said

	decision.deny == [{"code": "closed", "message": "No.", "call": null, "layer": "team.blue", "rule": "closed"}]
}

test_allows_no_layer_to_speak_for_another if {
	said := {{"layer": "team.blue", "denial": {"code": "closed", "message": "No.", "layer": "org"}}}
	decision := main.decision with input as _question with data.rules as _rules
		with data.callgate.layers.deny as said

	[denial.layer | some denial in decision.deny] == ["team.blue"]
}

test_denies_as_no_decision_what_is_no_denial if {
	every said in ["no", null, {"message": "No."}, {"code": 7, "message": "No."}] {
		decision := main.decision with input as _question with data.rules as _rules
			with data.callgate.layers.deny as {{"layer": "org", "denial": said}}

		decision.deny == [{"unreadable": said, "layer": "org"}]
	}
}

test_denies_as_no_decision_what_are_no_limits if {
	every said in ["none", {"turnn": {"calls": 1}}] {
		decision := main.decision with input as _question with data.rules as _rules
			with data.callgate.layers.limits as {said}

		decision.deny == [{"unreadable": said}]
	}
}

test_denies_beyond_the_smallest_limit_of_all_layers if {
	rules := object.union(_rules, {
		"org": {"limits": {"turn": {"rounds": 8, "per_tool": {"read": 4}}, "brakes": {"same_call_stop": 3}}},
		"teams": {"blue": {"limits": {"turn": {"rounds": 5, "calls": 9}, "run": {"seconds": 60}}}},
		"agents": {"bot": {"limits": {"turn": {"rounds": 6, "per_tool": {"read": 2, "write": 1}}}}},
	})
	said := {{"turn": {"calls": 7}}, {"brakes": {"same_call_stop": 2}}}
	decision := main.decision with input as _question with data.rules as rules
		with data.callgate.layers.limits as said

	decision.limits == {
		"turn": {"rounds": 5, "calls": 7, "per_tool": {"read": 2, "write": 1}},
		"run": {"seconds": 60, "per_tool": {}},
		"brakes": {"same_call_stop": 2},
	}
}

test_denies_a_null_that_would_lift_a_limit if {
	rules := object.union(_rules, {"org": {"limits": {"turn": {"rounds": 8}}}})
	decision := main.decision with input as _question with data.rules as rules
		with data.callgate.layers.limits as {{"turn": {"rounds": null}}}

	decision.limits.turn.rounds == 8
}

test_denies_the_laxer_of_two_traits if {
	rules := object.union(_rules, {
		"org": {"tools": {"read": {
			"effect": "read", "risk": "low", "polling": true, "identity_fields": ["id"], "volatile_arguments": ["t"],
			"truncate": 900, "repeatable": true, "idempotency_argument": "key",
		}}},
		"teams": {"blue": {"tools": {"read": {
			"effect": "write", "risk": "high", "identity_fields": ["v"], "volatile_arguments": ["n"],
			"truncate": 800, "fence": true, "idempotency_argument": "id",
			"status_rules": [{"contains": "gone", "status": "not_found"}],
		}}}},
	})
	decision := main.decision with input as _question with data.rules as rules

	decision.tools == {"read": {
		"effect": "write",
		"risk": "high",
		"polling": false,
		"identity_fields": ["id"],
		"volatile_arguments": ["n", "t"],
		"volatile_results": [],
		"status_rules": [{"contains": "gone", "status": "not_found"}],
		"truncate": 800,
		"fence": true,
		"idempotency_argument": "key",
		"repeatable": false,
	}}
}

test_allows_polling_where_every_layer_says_so if {
	polls := {"tools": {"read": {"polling": true}}}
	rules := object.union(_rules, {"org": polls, "agents": {"bot": polls}})
	decision := main.decision with input as _question with data.rules as rules

	decision.tools.read.polling == true
	decision.tools.read.effect == "unknown"
}

# What is no denial and no limit is handed on, so that it is refused as no decision.
test_denies_what_is_no_denial if {
	every denial in [{"message": "m"}, "yes", 7, {"code": 5, "message": "m"}] {
		decision := main.decision with input as _question with data.rules as _rules
			with data.callgate.layers.deny as {{"layer": "org", "denial": denial}}

		[found.unreadable | some found in decision.deny] == [denial]
	}
}

test_denies_what_are_no_limits if {
	every limits in [{"turns": {}}, {"brakes": []}] {
		decision := main.decision with input as _question with data.rules as _rules
			with data.callgate.layers.limits as {limits}

		[found.unreadable | some found in decision.deny] == [limits]
	}
}
