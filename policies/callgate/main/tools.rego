# Which tools may be used. The same lists decide what the model sees and what a call may name (D1). Profile starter:
# every tool, unless a layer has a list. Profile strict: only what is listed, by the organisation or, where it lists
# nothing, by team or agent.
package callgate.main

import data.callgate.layers
import data.callgate.lib

# Each list that a tool must be on.
_lists contains {"layer": each.layer, "names": names} if {
	some each in _rule_layers
	names := lib.allow_list(each.rules, _roles)
}

_lists contains said if some said in layers.allowed_tools

_lists contains {"layer": "org", "names": names} if {
	data.rules.profile == "strict"
	names := _strict_names
}

_strict_names := names if {
	names := union({listed | some each in _strict_lists; each.layer == "org"; listed := each.names})
	count(names) > 0
} else := union({each.names | some each in _strict_lists})

_strict_lists contains {"layer": each.layer, "names": names} if {
	some each in _rule_layers
	names := lib.strict_list(each.rules, _roles)
}

_strict_lists contains {"layer": said.layer, "names": {name | some name in said.names}} if {
	some said in layers.allowed_tools
}

# Every tool that is offered or called.
_mentioned contains _name_of(tool) if some tool in input.tools

_mentioned contains _name_of(call) if some call in _calls

_name_of(tool) := {"name": tool.name, "folded": object.get(tool, "folded", tool.name)}

# Names that one layer refuses, and by what.
_refusals contains {"layer": list.layer, "rule": "allowed_tools", "names": names} if {
	some list in _lists
	names := _mentioned_names - lib.matching(list.names, _mentioned)
	count(names) > 0
}

_refusals contains {"layer": each.layer, "rule": "denied_tools", "names": names} if {
	some each in _rule_layers
	names := lib.matching_generously(each.rules.denied_tools, _mentioned)
	count(names) > 0
}

_refusals contains {"layer": each.layer, "rule": "tools.roles", "names": names} if {
	some each in _rule_layers
	kept := {name |
		some name, entry in each.rules.tools
		is_array(entry.roles)
		not _has_role(entry.roles)
	}
	count(kept) > 0
	names := lib.named_like(kept, each.rules, _mentioned)
	count(names) > 0
}

# What the provider runs itself cannot be judged call by call, so its servers are when they are offered.
_refusals contains {"layer": each.layer, "rule": "servers", "names": names} if {
	some each in _rule_layers
	is_array(each.rules.servers)
	names := {tool.name |
		some tool in input.tools
		tool.hosted
		startswith(tool.name, "mcp.")
		not lib.listed(each.rules.servers, object.get(object.get(tool, "options", {}), "server_url", ""))
	}
	count(names) > 0
}

_has_role(roles) if {
	some role in _roles
	role in roles
}

_mentioned_names contains tool.name if some tool in _mentioned

_offered contains tool.name if some tool in input.tools

_permitted := _offered - union({refusal.names | some refusal in _refusals})

# Null where nothing restricts the tools.
_allowed_tools := null if {
	count(_lists) == 0
	_permitted == _offered
} else := sort([name | some name in _permitted])

# METADATA
# title: A tool outside the list
# description: "The model is told what it may use instead (D5)."
# custom:
#   code: tool_not_allowed
_denials contains denial if {
	some refusal in _refusals
	some call in _calls
	call.name in refusal.names
	denial := {
		"code": "tool_not_allowed",
		"call": call.index,
		"message": sprintf(
			"The tool %s is not allowed here. Tools that are: %s.",
			[call.name, lib.in_words(_permitted)],
		),
		"layer": refusal.layer,
		"rule": refusal.rule,
	}
}
