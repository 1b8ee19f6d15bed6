# Which calls need a person. Demands unite: a layer can only add one. What a person then says is not known here; the
# host waits for it (D4).
package callgate.main

import data.callgate.layers
import data.callgate.lib

_approvals contains object.union(_named(said.denial), {"layer": said.layer}) if some said in layers.approve

# METADATA
# title: A call that needs the approval of a person
# description: "By the name of the tool, or by what the layers together declare about it."
# custom:
#   code: approval_required
_approvals contains object.union(reason, {"code": "approval_required", "call": call.index, "layer": each.layer}) if {
	some place, each in _rule_layers
	some call in _calls
	some reason in _reasons(place, each.rules, call)
}

_reasons(place, rules, tool) := {{"rule": concat(".", ["tools", name, "approval"]), "message": message} |
	some name, entry in lib.entries(rules, tool)
	entry.approval == "required"
	message := sprintf("The tool %s is used only with the approval of a person.", [tool.name])
} | {{"rule": concat(".", ["approvals", kind]), "message": message} |
	some kind, field in {"effects": "effect", "risks": "risk"}
	some word in _declared(place, tool, field)
	word in object.get(rules, ["approvals", kind], [])
	not _is_excused(rules)
	message := sprintf("A call of %s is made only with the approval of a person.", [tool.name])
}

# All that any layer says of the tool; `unknown` where this layer and those above it say nothing. So a layer below can add
# to what is demanded, and by declaring a tool it takes nothing away. A look-alike name is held to the same rules.
_declared(place, tool, field) := said | unsaid if {
	said := {word |
		some each in _rule_layers
		some entry in lib.entries(each.rules, tool)
		word := entry[field]
	}
	above := array.slice(_rule_layers, 0, place + 1)
	unsaid := {"unknown" | not _is_declared(above, tool, field)}
}

_is_declared(above, tool, field) if {
	some each in above
	some entry in lib.entries(each.rules, tool)
	entry[field]
}

_is_excused(rules) if _has_role(rules.approvals.unless_roles)

# What the provider runs itself is not seen before it is done, so nobody could be asked.
_refusals contains {"layer": each.layer, "rule": "approvals", "names": names} if {
	some place, each in _rule_layers
	names := {tool.name |
		some tool in input.tools
		tool.hosted
		count(_reasons(place, each.rules, tool)) > 0
	}
	count(names) > 0
}
