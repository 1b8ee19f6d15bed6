# METADATA
# title: Tests of closed objects
package callgate.org_closed_objects_test

import data.callgate.org

_rules := {"org": {"tools": {"get_order": {"object_arguments": ["order_id"]}}}}

_after(status, arguments) := {denial.call | some denial in denials} if {
	step := {"tool": "get_order", "status": status, "arguments": {"order_id": "B456", "lang": "en"}}
	question := {"run": {"steps": [step]}, "calls": [{"index": 0, "name": "x", "arguments": arguments}]}
	denials := org.deny with input as question with data.rules as _rules
}

test_denies_a_forbidden_object_under_any_name if {
	_after("forbidden", {"order_id": "B456"}) == {0}
	_after("forbidden", {"id": " b456"}) == {0}
	_after("forbidden", {"filter": [{"order": "B456"}]}) == {0}
}

test_allows_other_objects if {
	_after("forbidden", {"order_id": "A123", "lang": "en"}) == set()
}

test_allows_an_object_that_was_not_forbidden if {
	_after("found", {"order_id": "B456"}) == set()
	_after("failed", {"order_id": "B456"}) == set()
}

test_allows_a_call_whose_arguments_are_missing if {
	_after("forbidden", {}) == set()
	_after("forbidden", null) == set()
}

test_allows_where_run_and_calls_are_missing if {
	denials := org.deny with input as {} with data.rules as _rules

	denials == set()
}

test_denies_by_the_rules_of_the_team_too if {
	step := {"tool": "get_order", "status": "forbidden", "arguments": {"order_id": 456}}
	call := {"index": 0, "name": "x", "arguments": {"id": "456"}}
	rules := {"org": {}, "teams": {"t": {"tools": {"get_order": {"object_arguments": ["order_id"]}}}}}
	question := {"identity": {"team": "t"}, "run": {"steps": [step]}, "calls": [call]}
	denials := org.deny with input as question with data.rules as rules

	count(denials) == 1
}
