# METADATA
# title: Tests of occurrence
package callgate.lib_occurrence_test

import data.callgate.lib

test_allows_whole_words if {
	every case in [
		["A123", "A123"],
		["order A123.", "A123"],
		["(A123)", "A123"],
		["查询订单A123的状态", "A123"],
		["#A123/B456", "B456"],
		["A1234 and A123", "A123"],
		["it costs $50", "50"],
		["1001,1002", "1002"],
		["mail bob@x.example now", "bob@x.example"],
		["C:\\new \"x\"\nline", "\"x\""],
		["张三的订单", "张三"],
		["a-b", "a-b"],
	] {
		lib.occurs(case[0], case[1])
	}
}

test_denies_parts_of_words if {
	every case in [
		["", "A123"],
		["A123", ""],
		["A1234", "A123"],
		["BA123", "A123"],
		["A123_x", "A123"],
		["A123-4", "A123"],
		["A1A1", "A1"],
		["costs 1,250", "250"],
		["costs 1,250", "1"],
		["costs 12.50", "50"],
		["bob@x.example", "x.example"],
		["550e8400-e29b-41d4", "e29b"],
	] {
		not lib.occurs(case[0], case[1])
	}
}

test_allows_numbers_as_text if {
	lib.as_text(50) == "50"
	lib.as_text("50") == "50"
}

test_denies_text_of_what_is_neither_text_nor_number if {
	every value in [null, true, [], {}, ""] {
		not lib.as_text(value)
	}
}

test_allows_names_in_other_case if lib.as_name(" b456") == lib.as_name("B456")
