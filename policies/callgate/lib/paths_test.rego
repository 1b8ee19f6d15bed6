# METADATA
# title: Tests of paths into arguments
package callgate.lib_paths_test

import data.callgate.lib

test_allows_values_at_every_kind_of_path if {
	arguments := {"a": 1, "b": {"c": [{"d": 2}, {"d": 3}], "e": {"x": {"d": 4}}}, "f": []}

	lib.found(arguments, "a") == {"values": [1], "missing": false}
	lib.found(arguments, "b.c").missing == false
	lib.found(arguments, "b.c.*.d") == {"values": [2, 3], "missing": false}
	lib.found(arguments, "b.e.*.d") == {"values": [4], "missing": false}
	lib.found(arguments, "f.*.d") == {"values": [], "missing": false}
}

test_denies_as_missing_whatever_is_not_there if {
	arguments := {"a": null, "b": {"c": [{"d": 2}, {}, {"d": null}, 5]}}

	lib.found(arguments, "a") == {"values": [], "missing": true}
	lib.found(arguments, "x") == {"values": [], "missing": true}
	lib.found(arguments, "b.c.*.d") == {"values": [2], "missing": true}
	lib.found(arguments, "b.x.*.d") == {"values": [], "missing": true}
	lib.found(arguments, "b.*.c.*.d").missing == true
	lib.found([], "a") == {"values": [], "missing": true}
}

test_allows_scalars_from_everywhere if {
	lib.scalars({"a": [1, {"b": "x"}], "c": null, "d": true, "e": ""}) == {1, "x"}
}
