# METADATA
# title: Tests of the demands for a person
package callgate.main_approvals_test

import data.callgate.main

_question := {
	"phase": "calls",
	"identity": {"team": "blue", "agent": "bot", "roles": ["clerk"]},
	"tools": [
		{"name": "read", "folded": "read", "hosted": false},
		{"name": "refund", "folded": "refund", "hosted": false},
		{"name": "mcp.mail", "folded": "mcp.mail", "hosted": true},
	],
	"run": {"steps": []},
	"task": {"user_texts": [], "folded": ""},
	"calls": [
		{"index": 0, "name": "read", "folded": "read", "arguments": {}},
		{"index": 1, "name": "refund", "folded": "refund", "arguments": {}},
	],
}

_decide(org, team, agent) := decision if {
	rules := {"profile": "starter", "org": org, "teams": {"blue": team}, "agents": {"bot": agent}}
	decision := main.decision with input as _question with data.rules as rules
}

_demands(org, team, agent) := {[demand.call, demand.layer, demand.rule] |
	some demand in _decide(org, team, agent).approvals
}

_writes := {"tools": {"refund": {"effect": "write", "risk": "high"}, "read": {"effect": "read"}}}

_needs_person := {"tools": {"refund": {"approval": "required"}}}

test_allows_without_a_person_where_nothing_is_said if _demands(_writes, {}, {}) == set()

test_denies_a_tool_to_act_without_a_person_by_its_name if {
	_demands(_needs_person, {}, {}) == {[1, "org", "tools.refund.approval"]}
}

test_denies_by_what_is_declared_about_a_tool if {
	_demands(object.union(_writes, {"approvals": {"effects": ["write"]}}), {}, {}) == {[1, "org", "approvals.effects"]}
	_demands(_writes, {"approvals": {"risks": ["high"]}}, {}) == {[1, "team.blue", "approvals.risks"]}
}

test_denies_what_nobody_declared_where_a_layer_says_so if {
	_demands(_writes, {}, {"approvals": {"risks": ["unknown"]}}) == {[0, "agent.bot", "approvals.risks"]}
	_demands({}, {}, {"approvals": {"effects": ["unknown"]}}) == {
		[0, "agent.bot", "approvals.effects"],
		[1, "agent.bot", "approvals.effects"],
	}
}

test_denies_though_a_lower_layer_declares_what_was_unknown if {
	asks := {"approvals": {"effects": ["unknown"]}}

	_demands(asks, _writes, {}) == {[0, "org", "approvals.effects"], [1, "org", "approvals.effects"]}
	_demands(_writes, {}, asks) == set()
}

test_denies_though_a_lower_layer_says_more_of_a_tool if {
	org := {"tools": {"refund": {"effect": "read"}}, "approvals": {"effects": ["read"]}}

	[1, "org", "approvals.effects"] in _demands(org, _writes, {})
}

test_denies_by_every_layer_that_asks if {
	asks := {"approvals": {"effects": ["write"], "risks": ["high"]}}

	count(_demands(object.union(_writes, asks), asks, _needs_person)) == 5
}

test_allows_a_role_that_a_layer_excuses_from_its_own_demand_only if {
	excused := object.union(_writes, {"approvals": {"effects": ["write"], "unless_roles": ["clerk"]}})

	_demands(excused, {}, {}) == set()
	_demands(excused, _needs_person, {}) == {[1, "team.blue", "tools.refund.approval"]}
	_demands(object.union(excused, _needs_person), {}, {}) == {[1, "org", "tools.refund.approval"]}
}

test_denies_another_role if {
	asks := {"approvals": {"effects": ["write"], "unless_roles": ["chief"]}}

	_demands(object.union(_writes, asks), {}, {}) == {[1, "org", "approvals.effects"]}
}

test_denies_a_look_alike_name if {
	call := {"index": 0, "name": "Refund", "folded": "refund", "arguments": {}}
	question := object.union(_question, {"calls": [call]})
	org := object.union(_needs_person, {"folded": {"refund": ["refund"]}})
	rules := {"profile": "starter", "org": org, "teams": {}, "agents": {}}
	decision := main.decision with input as question with data.rules as rules

	[demand.call | some demand in decision.approvals] == [0]
}

test_denies_to_offer_what_the_provider_runs_before_anybody_could_be_asked if {
	decision := _decide({"tools": {"mcp.mail": {"approval": "required"}}}, {}, {})

	decision.allowed_tools == ["read", "refund"]
}

test_denies_what_the_rego_of_a_layer_asks_a_person_for if {
	said := {{"layer": "team.blue", "denial": {"code": "large", "call": 1, "message": "Ask."}}}
	rules := {"profile": "starter", "org": {}, "teams": {}, "agents": {}}
	decision := main.decision with input as _question with data.rules as rules
		with data.callgate.layers.approve as said

	decision.approvals == [{"code": "large", "call": 1, "message": "Ask.", "layer": "team.blue", "rule": "large"}]
}

test_denies_as_no_decision_what_is_no_demand if {
	every demand in [{"message": "m"}, "yes", 7] {
		rules := {"profile": "starter", "org": {}, "teams": {}, "agents": {}}
		decision := main.decision with input as _question with data.rules as rules
			with data.callgate.layers.approve as {{"layer": "org", "denial": demand}}

		decision.approvals == [{"unreadable": demand, "layer": "org"}]
	}
}
