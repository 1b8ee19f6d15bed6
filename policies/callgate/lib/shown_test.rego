package callgate.lib_shown_test

import data.callgate.lib

_read(id, result) := {"tool": "get_order", "status": "found", "arguments": {"order_id": id}, "result_json": result}

_order(id, customer) := _read(id, {"order_id": id, "customer_id": customer, "amount": 5})

_question(steps) := {
	"steps": steps,
	"task": {"user_texts": ["Refund A1."], "folded": "refund a1."},
	"identity": {"user": "ann", "claims": {"customer": "c7"}},
}

_broken(constraint, arguments, steps) := {denial.rule |
	rules := {"tools": {"refund": {"arguments": {"order_id": constraint}}}}
	call := {"index": 0, "name": "refund", "folded": "refund", "arguments": arguments}
	some denial in lib.argument_denials(rules, call, _question(steps))
}

_owned(equals) := {"owned_by": {"tool": ["get_order"], "object": "order_id", "owner": "customer_id", "equals": equals}}

_a1 := {"order_id": "A1"}

test_allows_the_callers_own_object if {
	_broken(_owned("identity.user"), _a1, [_order("A1", "ann")]) == set()
	_broken(_owned("identity.claims.customer"), _a1, [_order("A1", "c7")]) == set()
}

test_denies_an_object_that_was_not_read if {
	count(_broken(_owned("identity.user"), _a1, [])) == 1
	count(_broken(_owned("identity.user"), _a1, [_order("A2", "ann")])) == 1
	count(_broken(_owned("identity.user"), {"order_id": "a1"}, [_order("A1", "ann")])) == 1
}

test_denies_another_ones_object if {
	count(_broken(_owned("identity.user"), _a1, [_order("A1", "bob")])) == 1
	count(_broken(_owned("identity.team"), _a1, [_order("A1", "ann")])) == 1
}

test_denies_once_any_result_shows_another_owner if {
	count(_broken(_owned("identity.user"), _a1, [_order("A1", "ann"), _order("A1", "bob")])) == 1
}

test_denies_where_a_field_is_missing if {
	count(_broken(_owned("identity.user"), _a1, [_read("A1", {"order_id": "A1"})])) == 1
	count(_broken(_owned("identity.user"), _a1, [object.remove(_order("A1", "ann"), ["result_json"])])) == 1
	count(_broken(_owned("identity.claims.none"), _a1, [_order("A1", "ann")])) == 1
	count(_broken(_owned("identity.user"), {}, [_order("A1", "ann")])) == 1
}

test_denies_by_results_that_found_nothing if {
	count(_broken(_owned("identity.user"), _a1, [object.union(_order("A1", "ann"), {"status": "failed"})])) == 1
}

test_allows_wrapped_results_and_lists if {
	order := {"order_id": "A1", "customer_id": "ann"}
	every result in [{"found": true, "data": order}, [{"order_id": "A2", "customer_id": "bob"}, order], {"data": [order]}] {
		_broken(_owned("identity.user"), _a1, [_read("other", result)]) == set()
	}
}

test_denies_what_stands_deeper_in_a_result if {
	forged := {"order_id": "A9", "customer_id": "bob", "note": {"order_id": "A1", "customer_id": "ann"}}
	count(_broken(_owned("identity.user"), _a1, [_read("A9", forged)])) == 1
}

test_allows_an_object_called_what_the_tool_was_asked_for if {
	_broken(_owned("identity.user"), _a1, [_read("A1", {"customer_id": "ann"})]) == set()
	count(_broken(_owned("identity.user"), _a1, [_read("A2", {"customer_id": "ann"})])) == 1
}

_profile(id) := {"tool": "get_user", "status": "found", "arguments": {"user_id": id}, "result_json": {}}

test_allows_by_whom_this_run_is_about_and_denies_a_second_one if {
	owned := _owned("get_user.user_id")
	_broken(owned, _a1, [_profile("ann"), _order("A1", "ann")]) == set()
	count(_broken(owned, _a1, [_order("A1", "ann")])) == 1
	count(_broken(owned, _a1, [_profile("bob"), _profile("ann"), _order("A1", "ann")])) == 1
}

_shown := {"as_shown": {"tool": ["get_order"], "object": "order_id", "field": "amount"}}

_amount(arguments, steps) := {denial.rule |
	rules := {"tools": {"refund": {"arguments": {"amount": _shown}}}}
	call := {"index": 0, "name": "refund", "folded": "refund", "arguments": arguments}
	some denial in lib.argument_denials(rules, call, _question(steps))
}

test_allows_the_value_that_was_shown_last if {
	newer := _read("A1", {"order_id": "A1", "amount": 4})
	_amount({"order_id": "A1", "amount": 5}, [_order("A1", "ann")]) == set()
	_amount({"order_id": "A1", "amount": 4}, [_order("A1", "ann"), newer]) == set()
	count(_amount({"order_id": "A1", "amount": 5}, [_order("A1", "ann"), newer])) == 1
}

test_denies_a_value_that_was_shown_for_another_object if {
	count(_amount({"order_id": "A2", "amount": 5}, [_order("A1", "ann")])) == 1
	count(_amount({"amount": 5}, [_order("A1", "ann")])) == 1
}

test_allows_what_the_user_or_a_result_has_named_and_denies_the_rest if {
	named := {"named_by": ["user", "list_orders"]}
	listed := {"tool": "list_orders", "status": "found", "arguments": {}, "result_json": {"orders": ["B2"]}}
	_broken(named, _a1, []) == set()
	_broken(named, {"order_id": "B2"}, [listed]) == set()
	count(_broken(named, {"order_id": "B2"}, [])) == 1
	count(_broken({"named_by": ["list_orders"]}, _a1, [listed])) == 1
}

test_denies_in_words_that_say_what_to_do if {
	rules := {"tools": {"refund": {"arguments": {"order_id": _owned("identity.user")}}}}
	call := {"index": 0, "name": "refund", "folded": "refund", "arguments": _a1}
	some denial in lib.argument_denials(rules, call, _question([]))
	contains(denial.message, "get_order")
}
