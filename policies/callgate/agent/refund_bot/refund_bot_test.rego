# METADATA
# title: Tests of the refund assistant
package callgate.agent.refund_bot_test

import data.callgate.agent.refund_bot

_read := {"tool": "get_order", "status": "found", "arguments": {"order_id": "A123"}, "result_json": {"customer_id": "ann"}}

_codes(steps, call) := {denial.code | some denial in denials} if {
	question := {"identity": {"user": "ann"}, "run": {"steps": steps}, "calls": [object.union({"index": 0}, call)]}
	denials := refund_bot.deny with input as question
}

_search := {"name": "search_policy", "arguments": {"order_id": "A123"}}

test_allows_reading_an_order_first if {
	_codes([], {"name": "get_order", "arguments": {"order_id": "A123"}}) == set()
}

test_allows_a_search_for_an_order_that_was_read if _codes([_read], _search) == set()

test_denies_a_search_for_an_order_that_was_not_read if {
	_codes([], _search) == {"order_not_read"}
	_codes([object.union(_read, {"status": "failed"})], _search) == {"order_not_read"}
	_codes([object.union(_read, {"arguments": {"order_id": "A12"}})], _search) == {"order_not_read"}
}

test_allows_a_search_whose_order_is_missing if {
	_codes([], {"name": "search_policy", "arguments": {"query": "refund"}}) == set()
	_codes([], {"name": "search_policy", "arguments": null}) == set()
}

test_denies_more_about_another_customers_order if {
	foreign := object.union(_read, {"result_json": {"found": true, "data": {"customer_id": "bob"}}})

	_codes([foreign], _search) == {"foreign_order"}
}

test_allows_an_order_whose_customer_is_missing if {
	_codes([object.union(_read, {"result_json": {"total": 3}})], _search) == set()
}

test_denies_a_foreign_order_to_a_caller_whose_name_is_missing if {
	question := {"run": {"steps": [_read]}, "identity": {"user": ""}, "calls": [object.union({"index": 0}, _search)]}
	denials := refund_bot.deny with input as question

	{denial.code | some denial in denials} == {"foreign_order"}
}
