# METADATA
# title: Tests of names
package callgate.lib_names_test

import data.callgate.lib

test_allows_exact_names_and_beginnings if {
	lib.listed(["read"], "read")
	lib.listed({"re*"}, "read")
	lib.listed(["*"], "anything")
}

test_denies_other_spellings if {
	not lib.listed(["read"], "Read")
	not lib.listed(["read"], "read ")
	not lib.listed(["re*"], "write")
	not lib.listed([], "read")
}

test_allows_names_in_words if {
	lib.in_words({"b", "a"}) == "a, b"
	lib.in_words(set()) == "none"
}

test_allows_the_layers_of_an_identity_in_order if {
	rules := {"org": {"x": 1}, "teams": {"t": {"x": 2}, "u": {"x": 3}}, "agents": {"a": {"x": 4}}}

	lib.rule_layers(rules, {"team": "t", "agent": "a"}) == [
		{"layer": "org", "rules": {"x": 1}},
		{"layer": "team.t", "rules": {"x": 2}},
		{"layer": "agent.a", "rules": {"x": 4}},
	]
}

test_allows_the_organisation_alone_for_unknown_and_missing_names if {
	rules := {"org": {"x": 1}, "teams": {"t": {"x": 2}}}

	every identity in [{}, {"team": "nobody", "agent": "none"}, {"team": ""}, {"team": null}] {
		lib.rule_layers(rules, identity) == [{"layer": "org", "rules": {"x": 1}}]
	}
}
