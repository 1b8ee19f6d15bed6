# METADATA
# title: Tests of arguments that nobody names
package callgate.lib_other_arguments_test

import data.callgate.lib

_entry := {"other_arguments": "refuse", "arguments": {"id": {}, "items": {}, "items.*": {}, "items.*.n": {}}}

_messages(entry, arguments) := {denial.message | some denial in denials} if {
	call := {"index": 0, "name": "t", "kind": "function", "arguments": arguments}
	denials := lib.unnamed_denials({"tools": {"t": entry}}, call)
}

test_allows_what_is_named_at_every_depth if {
	_messages(_entry, {"id": 1, "items": [{"n": 2}, {"n": null, "m": null}], "x": null}) == set()
	_messages(_entry, {}) == set()
}

test_denies_what_is_not_named if {
	_messages(_entry, {"id": 1, "x": {"y": 2}}) == {"This tool is not used with the arguments x here."}
	_messages(_entry, {"items": [{"n": 1}, {"m": 2}]}) == {"This tool is not used with the arguments items.1.m here."}
	_messages(_entry, {"id": {"deep": 1}}) == {"This tool is not used with the arguments id.deep here."}
}

test_denies_every_argument_where_none_is_named if {
	count(_messages({"other_arguments": "refuse"}, {"id": 1})) == 1
	_messages({"other_arguments": "refuse"}, {}) == set()
}

test_denies_arguments_that_cannot_be_read if count(_messages(_entry, null)) == 1

test_denies_a_free_text_unless_it_is_named if {
	call := {"index": 0, "name": "t", "kind": "custom", "arguments": null, "text": "ls"}

	count(lib.unnamed_denials({"tools": {"t": _entry}}, call)) == 1
	denials := lib.unnamed_denials({"tools": {"t": {"other_arguments": "refuse", "arguments": {"text": {}}}}}, call)
	denials == set()
}

test_allows_other_arguments_where_nothing_is_said if {
	_messages({"arguments": {"id": {}}}, {"x": 1}) == set()
}

test_denies_where_the_object_is_missing if {
	_messages({"other_arguments": "refuse"}, [1]) == {"This tool is not used with the arguments that cannot be read here."}
}
