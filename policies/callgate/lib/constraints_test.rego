# METADATA
# title: Tests of constraints on arguments
package callgate.lib_constraints_test

import data.callgate.lib

_question := {"steps": [], "task": {"user_texts": ["Order A123, for 50"], "folded": "order a123, for 50"}}

# The kinds that break, for one argument `x`.
_broken(constraint, arguments) := {kind |
	rules := {"tools": {"t": {"arguments": {"x": constraint}}}}
	some denial in lib.argument_denials(rules, {"index": 0, "name": "t", "folded": "t", "arguments": arguments}, _question)
	kind := trim_prefix(denial.rule, "tools.t.arguments.x.")
}

# What breaks of a call of a free-form tool.
_broken_text(call) := {denial.rule |
	rules := {"tools": {"t": {"arguments": {"text": {"not_pattern": "Delete File:"}}}}}
	some denial in lib.argument_denials(rules, object.union({"index": 0, "name": "t", "folded": "t"}, call), _question)
}

test_constrains_the_text_of_a_free_form_call if {
	_broken_text({"kind": "custom", "arguments": null, "text": "*** Add File: a"}) == set()
	denied := _broken_text({"kind": "custom", "arguments": null, "text": "*** Delete File: a"})
	denied == {"tools.t.arguments.text.not_pattern"}
}

test_denies_what_has_neither_arguments_nor_a_text if {
	unreadable := {"tools.t.arguments.text.unreadable"}
	_broken_text({"kind": "function", "arguments": null}) == unreadable
	_broken_text({"kind": "function", "arguments": null, "text": "x"}) == unreadable
	_broken_text({"kind": "custom", "arguments": null}) == unreadable
}

test_allows_each_kind_where_it_holds if {
	every case in [
		[{"equals": "a"}, "a"],
		[{"equals": 1}, 1],
		[{"one_of": ["a", 2]}, 2],
		[{"not_one_of": ["prod"]}, "test"],
		[{"pattern": "^a+$"}, "aa"],
		[{"not_pattern": "rm[ ]+-rf"}, "ls"],
		[{"starts_with": "/srv/"}, "/srv/a..b"],
		[{"not_starts_with": "/etc"}, "/srv"],
		[{"contains": "b"}, "abc"],
		[{"not_contains": "drop table"}, "select 1"],
		[{"min": 1, "max": 3}, 3],
		[{"max_length": 3}, "abc"],
		[{"max_length": 2}, [1, 2]],
		[{"type": "string"}, ""],
		[{"type": "integer"}, 2],
		[{"type": "number"}, 2.5],
		[{"type": "boolean"}, false],
		[{"type": "array"}, []],
		[{"type": "object"}, {}],
		[{"in_user_text": true}, "A123"],
		[{"in_user_text": true}, "a123"],
		[{"in_user_text": true}, 50],
	] {
		_broken(case[0], {"x": case[1]}) == set()
	}
}

test_denies_each_kind_where_it_does_not_hold if {
	every case in [
		["equals", "a", "b"],
		["equals", 1, "1"],
		["one_of", ["a", 2], "2"],
		["not_one_of", ["prod"], "prod"],
		["not_one_of", ["prod"], " PROD"],
		["not_one_of", [7], "7"],
		["pattern", "^a+$", "ab"],
		["pattern", "^a+$", "a\n"],
		["not_pattern", "rm[ ]+-rf", "rm  -rf /"],
		["starts_with", "/srv/", "/etc"],
		["starts_with", "/srv/", "/srv/../etc"],
		["starts_with", "/srv/", "/srv/a\\..\\b"],
		["not_starts_with", "/etc", " /ETC/passwd"],
		["not_starts_with", "/etc", "/srv/../etc"],
		["contains", "b", "ac"],
		["not_contains", "drop table", "x; DROP TABLE y"],
		["min", 1, 0],
		["max", 3, 3.5],
		["max_length", 3, "abcd"],
		["max_length", 1, [1, 2]],
		["type", "string", 1],
		["type", "integer", 2.5],
		["type", "integer", "2"],
		["in_user_text", true, "B456"],
		["in_user_text", true, "A12"],
	] {
		_broken({case[0]: case[1]}, {"x": case[2]}) == {case[0]}
	}
}

test_denies_values_of_the_wrong_type if {
	every case in [
		["pattern", "^1$", 1],
		["not_pattern", "b", ["b"]],
		["starts_with", "a", 1],
		["not_starts_with", "a", ["a"]],
		["contains", "a", ["a"]],
		["not_contains", "a", ["a"]],
		["not_one_of", ["a"], ["a"]],
		["min", 1, "5"],
		["min", 1, true],
		["max", 1, "0"],
		["max_length", 9, 1],
		["in_user_text", true, ["A123"]],
		["in_user_text", true, ""],
		["in_results_of", ["r"], {"id": 1}],
	] {
		_broken({case[0]: case[1]}, {"x": case[2]}) == {case[0]}
	}
}

test_denies_a_missing_argument_that_has_to_be_something if {
	every kind, wanted in {
		"equals": "a", "one_of": ["a"], "pattern": "a", "starts_with": "a", "contains": "a", "min": 1, "max": 1,
		"in_results_of": ["r"], "in_user_text": true,
	} {
		_broken({kind: wanted}, {}) == {"required"}
		_broken({kind: wanted}, {"x": null}) == {"required"}
		_broken({kind: wanted, "required": false}, {}) == set()
	}
}

test_allows_a_missing_argument_that_only_must_not_be_something if {
	every kind, wanted in {
		"not_one_of": ["a"], "not_pattern": "a", "not_starts_with": "a", "not_contains": "a", "max_length": 1,
		"type": "string",
	} {
		_broken({kind: wanted}, {}) == set()
		_broken({kind: wanted, "required": true}, {}) == {"required"}
	}
}

test_denies_arguments_that_are_no_object if {
	every arguments in [null, [], "x"] {
		_broken({"max": 1, "required": false}, arguments) == {"unreadable"}
	}
}

test_denies_by_a_kind_that_is_not_known if _broken({"eqals": "a"}, {"x": "a"}) == {"eqals"}

test_denies_in_own_words_where_there_are_some if {
	rules := {"tools": {"t": {"arguments": {"x": {"equals": 1, "message": "One, please."}}}}}
	denials := lib.argument_denials(rules, {"index": 3, "name": "t", "folded": "t", "arguments": {"x": 2}}, _question)

	denials == {{
		"code": "argument_rule", "call": 3, "message": "One, please.", "rule": "tools.t.arguments.x.equals", "shadow": false,
	}}
}

test_denies_in_words_for_every_kind if {
	every case in [
		[{"equals": 1}, 2, "The argument x must be 1."],
		[{"one_of": ["a", 2]}, 3, "The argument x must be one of a, 2."],
		[{"pattern": "^a$"}, "b", "The argument x must match ^a$."],
		[{"starts_with": "a"}, "b", "The argument x must start with a and not step upwards."],
		[{"contains": "a"}, "b", "The argument x must contain a."],
		[{"min": 1}, 0, "The argument x must be a number of at least 1."],
		[{"max": 1}, 2, "The argument x must be a number of at most 1."],
		[{"max_length": 1}, "ab", "The argument x must not be longer than 1."],
		[{"type": "array"}, 1, "The argument x must be of type array."],
		[{"not_contains": "a"}, "a", "The argument x has a value that is not allowed here."],
		[{"required": true}, null, "The argument x is missing."],
		[{"nonsense": true}, 1, "The argument x has a constraint that is not known."],
		[{"in_results_of": ["a", "b"]}, 1, "The argument x must come from an earlier result of a or b in this conversation."],
		[{"in_user_text": true}, 1, "The argument x must be what the user named; ask the user if it is not clear."],
	] {
		rules := {"tools": {"t": {"arguments": {"x": case[0]}}}}
		call := {"index": 0, "name": "t", "folded": "t", "arguments": {"x": case[1]}}
		{denial.message | some denial in lib.argument_denials(rules, call, _question)} == {case[2]}
	}
}

test_denies_a_look_alike_of_the_tool_too if {
	rules := {"tools": {"t": {"arguments": {"x": {"equals": 1}}}}, "folded": {"t": ["t"]}}
	call := {"index": 0, "name": "T", "folded": "t", "arguments": {"x": 2}}

	count(lib.argument_denials(rules, call, _question)) == 1
}

test_allows_what_concerns_another_tool if {
	rules := {"tools": {"t": {"arguments": {"x": {"equals": 1}}}}}
	call := {"index": 0, "name": "u", "folded": "u", "arguments": {"x": 2}}

	lib.argument_denials(rules, call, _question) == set()
}

test_denies_what_no_result_showed if {
	rules := {"tools": {"t": {"arguments": {"x": {"in_results_of": ["get"]}}}}}
	call := {"index": 0, "name": "t", "folded": "t", "arguments": {"x": "B1"}}
	every step in [
		{"tool": "get", "status": "found", "result_json": {"id": "B12"}},
		{"tool": "get", "status": "pending"},
		{"tool": "get", "status": "failed", "result_json": {"id": "B1"}},
		{"tool": "other", "status": "found", "result_json": {"id": "B1"}},
	] {
		count(lib.argument_denials(rules, call, object.union(_question, {"steps": [step]}))) == 1
	}
}

test_allows_what_a_result_showed if {
	rules := {"tools": {"t": {"arguments": {"x": {"in_results_of": ["get"]}}}}}
	call := {"index": 0, "name": "t", "folded": "t", "arguments": {"x": "B1"}}
	every step in [
		{"tool": "get", "status": "found", "result_json": {"id": "B1"}},
		{"tool": "get", "status": "found", "result_json": {"list": [{"B1": {}}]}},
		{"tool": "get", "status": "found", "result_json": {"text": "Order B1, sent."}},
		{"tool": "get", "status": "found", "result": "Orders: B1 and B2"},
	] {
		lib.argument_denials(rules, call, object.union(_question, {"steps": [step]})) == set()
	}
}
