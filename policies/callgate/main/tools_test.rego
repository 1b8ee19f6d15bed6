# METADATA
# title: Tests of the lists of tools
package callgate.main_tools_test

import data.callgate.main

_question := {
	"phase": "calls",
	"identity": {"team": "blue", "agent": "bot", "roles": ["clerk"]},
	"tools": [
		{"name": "read", "folded": "read"},
		{"name": "write", "folded": "write"},
		{"name": "Send_Mail", "folded": "send_mail"},
	],
	"run": {"steps": []},
	"task": {"user_texts": [], "folded": ""},
	"calls": [
		{"index": 0, "name": "read", "folded": "read", "arguments": {}},
		{"index": 1, "name": "write", "folded": "write", "arguments": {}},
		{"index": 2, "name": "Send_Mail", "folded": "send_mail", "arguments": {}},
	],
}

_decide(profile, org, team, agent) := decision if {
	rules := {"profile": profile, "org": org, "teams": {"blue": team}, "agents": {"bot": agent}}
	decision := main.decision with input as _question with data.rules as rules
}

_refused(decision) := {denial.call | some denial in decision.deny; denial.code == "tool_not_allowed"}

test_allows_only_what_is_on_every_list if {
	decision := _decide("starter", {"allowed_tools": ["read", "write"]}, {"allowed_tools": ["read", "Send_Mail"]}, {})

	decision.allowed_tools == ["read"]
	_refused(decision) == {1, 2}
}

test_denies_in_words_that_name_the_allowed_tools if {
	decision := _decide("starter", {"allowed_tools": ["read"]}, {}, {})

	{denial.message | some denial in decision.deny; denial.call == 1} == {"The tool write is not allowed here. Tools that are: read."}
	{denial.rule | some denial in decision.deny} == {"allowed_tools"}
}

test_denies_everything_by_an_empty_list if {
	decision := _decide("starter", {"allowed_tools": []}, {}, {})

	decision.allowed_tools == []
	_refused(decision) == {0, 1, 2}
}

test_allows_by_the_beginning_of_a_name if {
	decision := _decide("starter", {"allowed_tools": ["re*"]}, {}, {})

	decision.allowed_tools == ["read"]
}

test_denies_an_allowed_name_in_another_spelling if {
	decision := _decide("starter", {"allowed_tools": ["send_mail", "READ"]}, {}, {})

	decision.allowed_tools == []
}

test_denies_by_the_folded_name if {
	decision := _decide("starter", {"denied_tools": ["send_mail"]}, {}, {})

	decision.allowed_tools == ["read", "write"]
	_refused(decision) == {2}
}

test_denies_by_the_beginning_of_a_folded_name if {
	decision := _decide("starter", {}, {}, {"denied_tools": ["send*"]})

	_refused(decision) == {2}
	{denial.layer | some denial in decision.deny} == {"agent.bot"}
}

test_allows_what_a_role_grants if {
	decision := _decide("starter", {"roles": {"clerk": {"tools": ["read"]}, "boss": {"tools": ["write"]}}}, {}, {})

	decision.allowed_tools == ["read"]
}

test_allows_what_everyone_may_use_beside_the_role if {
	decision := _decide("starter", {"roles": {"clerk": {"tools": ["read"]}}, "allowed_tools": ["write"]}, {}, {})

	decision.allowed_tools == ["read", "write"]
}

test_denies_everything_to_an_identity_without_roles if {
	rules := {"profile": "starter", "org": {"roles": {"clerk": {"tools": ["read"]}}}}
	question := object.union(_question, {"identity": {"roles": []}})
	decision := main.decision with input as question with data.rules as rules

	decision.allowed_tools == []
}

test_denies_everything_where_roles_are_missing if {
	rules := {"profile": "starter", "org": {"roles": {"clerk": {"tools": ["read"]}}}}
	question := object.remove(_question, ["identity"])
	decision := main.decision with input as question with data.rules as rules

	decision.allowed_tools == []
}

test_denies_a_tool_that_needs_another_role if {
	decision := _decide("starter", {"tools": {"write": {"roles": ["boss"]}}}, {}, {})

	decision.allowed_tools == ["Send_Mail", "read"]
	_refused(decision) == {1}
}

test_allows_a_tool_that_needs_this_role if {
	decision := _decide("starter", {"tools": {"write": {"roles": ["boss", "clerk"]}}}, {}, {})

	decision.allowed_tools == null
}

test_denies_a_look_alike_of_a_tool_that_needs_a_role if {
	org := {"tools": {"send_mail": {"roles": ["boss"]}}, "folded": {"send_mail": ["send_mail"]}}
	decision := _decide("starter", org, {}, {})

	_refused(decision) == {2}
}

test_strict_denies_what_nobody_lists if {
	decision := _decide("strict", {}, {}, {})

	decision.allowed_tools == []
	_refused(decision) == {0, 1, 2}
}

test_strict_allows_what_the_organisation_describes if {
	decision := _decide("strict", {"tools": {"read": {"effect": "read"}}}, {}, {})

	decision.allowed_tools == ["read"]
}

test_strict_allows_what_an_agent_lists_where_the_organisation_lists_nothing if {
	decision := _decide("strict", {}, {}, {"allowed_tools": ["read"]})

	decision.allowed_tools == ["read"]
}

test_strict_denies_what_an_agent_lists_beyond_the_organisation if {
	decision := _decide("strict", {"allowed_tools": ["read"]}, {}, {"allowed_tools": ["read", "write"]})

	decision.allowed_tools == ["read"]
}

test_strict_lets_a_team_describe_a_tool_without_losing_the_others if {
	decision := _decide("strict", {"allowed_tools": ["read", "write"]}, {"tools": {"read": {"risk": "high"}}}, {})

	decision.allowed_tools == ["read", "write"]
}

test_denies_what_the_rego_of_a_layer_does_not_list if {
	said := {{"layer": "team.blue", "names": {"read"}}}
	decision := main.decision with input as _question with data.rules as {"profile": "starter"}
		with data.callgate.layers.allowed_tools as said

	decision.allowed_tools == ["read"]
	{denial.layer | some denial in decision.deny} == {"team.blue"}
}

_server := {"name": "mcp.mail", "folded": "mcp.mail", "hosted": true, "declared": true}

_serves(url) := object.union(_server, {"options": {"type": "mcp", "server_url": url}})

_allowed_of(tool, layer) := decision.allowed_tools if {
	decision := main.decision with input as {"phase": "request", "tools": [tool]}
		with data.rules as {"profile": "starter", "org": layer, "teams": {}, "agents": {}}
}

test_allows_a_server_that_is_listed if {
	layer := {"servers": ["https://mail.example/*"]}
	_allowed_of(_serves("https://mail.example/mcp"), layer) == null
	_allowed_of(_serves("https://other.example/mcp"), {}) == null
}

test_denies_a_server_that_is_not_listed if {
	layer := {"servers": ["https://mail.example/*"]}
	_allowed_of(_serves("https://mail.example.evil/mcp"), layer) == []
	_allowed_of(_serves("http://mail.example/mcp"), layer) == []
	_allowed_of(_server, layer) == []
	_allowed_of(_serves("https://mail.example/mcp"), {"servers": []}) == []
}
