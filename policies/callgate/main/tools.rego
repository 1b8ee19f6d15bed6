# METADATA
# title: Which tools may be used
# description: >-
#   The same lists decide what the model sees and what a call may name (D1). Profile starter: every tool, unless a layer
#   has a list. Profile strict: only what is listed, by the organisation or, where it lists nothing, by team or agent.
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

_unlisted(tool) := {list.layer |
	some list in _lists
	not lib.listed(list.names, tool.name)
}

_denying(tool) := {each.layer |
	some each in _rule_layers
	_is_denied(each.rules, tool)
}

_is_denied(rules, tool) if lib.listed(rules.denied_tools, tool.name)

_is_denied(rules, tool) if lib.listed(rules.denied_tools, tool.folded)

_lacking_role(tool) := {each.layer |
	some each in _rule_layers
	some entry in lib.entries(each.rules, tool)
	is_array(entry.roles)
	not _has_role(entry.roles)
}

_has_role(roles) if {
	some role in _roles
	role in roles
}

_permitted contains tool.name if {
	some tool in input.tools
	count(_unlisted(tool)) == 0
	count(_denying(tool)) == 0
	count(_lacking_role(tool)) == 0
}

_offered contains tool.name if some tool in input.tools

# Null where nothing restricts the tools.
_allowed_tools := null if {
	count(_lists) == 0
	_permitted == _offered
} else := sort([name | some name in _permitted])

_denials contains _not_allowed(call, layer, "allowed_tools") if {
	some call in _calls
	some layer in _unlisted(call)
}

_denials contains _not_allowed(call, layer, "denied_tools") if {
	some call in _calls
	some layer in _denying(call)
}

_denials contains _not_allowed(call, layer, "tools.roles") if {
	some call in _calls
	some layer in _lacking_role(call)
}

# METADATA
# title: A tool outside the list
# description: "The model is told what it may use instead (D5)."
# custom:
#   code: tool_not_allowed
_not_allowed(call, layer, rule) := {
	"code": "tool_not_allowed",
	"call": call.index,
	"message": sprintf(
		"The tool %s is not allowed here. Tools that are: %s.",
		[call.name, lib.in_words(_permitted)],
	),
	"layer": layer,
	"rule": rule,
}
