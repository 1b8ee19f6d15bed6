# METADATA
# title: Tests of merging
package callgate.lib_merging_test

import data.callgate.lib

test_denies_beyond_the_smallest if {
	lib.smallest([{"a": 3, "b": 1}, {"a": 2, "c": null}, {}]) == {"a": 2, "b": 1}
	lib.smallest([]) == {}
}

test_denies_beyond_the_smallest_of_each_tool if {
	lib.smallest_scope([{"calls": 3, "per_tool": {"x": 2}}, {"calls": 5, "per_tool": {"x": 4, "y": 1}}]) == {
		"calls": 3, "per_tool": {"x": 2, "y": 1},
	}
}
