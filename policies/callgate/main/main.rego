# METADATA
# title: The decision
# description: >-
#   Composes the layers of rule data and of Rego. Denials unite, allowed tools intersect, limits take the smallest,
#   traits the stricter: a team or an agent can only narrow what the organisation permits.
package callgate.main

import data.callgate.layers
import data.callgate.lib

# An evaluation that yields nothing is a refusal.
# METADATA
# title: The decision for one phase, over all calls at once
# description: "No other rule is read from outside."
# entrypoint: true
default decision := {
	"deny": [{
		"code": "undefined_decision",
		"call": null,
		"message": "The policy came to no decision, so nothing is allowed.",
		"action": "deny",
		"layer": "org",
		"rule": "decision",
	}],
	"allowed_tools": [],
	"limits": {},
	"tools": {},
	"shadow": [],
	"approvals": [],
	"cited": [],
}

decision := {
	"deny": [denial | some denial in _denials],
	"allowed_tools": _allowed_tools,
	"limits": _limits,
	"tools": _traits,
	"shadow": [denial | some denial in _shadow],
	"approvals": [demand | some demand in _approvals],
	"cited": [cited | some cited in _cited],
} if {
	input.phase in {"request", "calls", "answer"}
	data.rules.profile in {"starter", "strict"}
}

_rule_layers := lib.rule_layers(data.rules, object.get(input, "identity", {}))

_roles := object.get(input, ["identity", "roles"], [])

_calls := object.get(input, "calls", [])

_question := {
	"steps": object.get(input, ["run", "steps"], []),
	"task": object.get(input, "task", {}),
	"identity": object.get(input, "identity", {}),
}

_denials contains object.union(_named(said.denial), {"layer": said.layer}) if some said in layers.deny

_shadow contains object.union(_named(said.denial), {"layer": said.layer}) if some said in layers.shadow

# The rule of a denial, where its package does not say, is named as its code. What is no denial must not be dropped like
# something undefined: it is handed on, and refused as no decision.
_named(denial) := object.union({"rule": denial.code, "call": null}, denial) if {
	is_string(denial.code)
} else := {"unreadable": denial}

_denials contains {"unreadable": said} if {
	some said in layers.limits
	not _are_limits(said)
}

_are_limits(said) if {
	is_object(said)
	object.keys(said) - {"turn", "run", "brakes"} == set()
	every _, scope in said {
		is_object(scope)
		is_object(object.get(scope, "per_tool", {}))
	}
}

_denials contains denial if {
	some denial in _argument_denials
	not denial.shadow
}

_shadow contains denial if {
	some denial in _argument_denials
	denial.shadow
}

_argument_denials contains object.union(denial, {"layer": each.layer}) if {
	some each in _rule_layers
	some call in _calls
	some denial in lib.argument_denials(each.rules, call, _question)
}

_argument_denials contains object.union(denial, {"layer": each.layer}) if {
	some each in _rule_layers
	some call in _calls
	some denial in lib.unnamed_denials(each.rules, call)
}

_all_limits := array.concat(
	[each.rules.limits | some each in _rule_layers],
	[said | some said in layers.limits],
)

_limits := {
	"turn": lib.smallest_scope([limits.turn | some limits in _all_limits]),
	"run": lib.smallest_scope([limits.run | some limits in _all_limits]),
	"brakes": lib.smallest([limits.brakes | some limits in _all_limits]),
}

# Traits of the tools that this run can be about.
_traits[name] := lib.merged_traits(entries) if {
	some name in _tool_names
	entries := [each.rules.tools[name] | some each in _rule_layers]
	count(entries) > 0
}

_tool_names contains tool.name if some tool in input.tools

_tool_names contains call.name if some call in _calls

_tool_names contains step.tool if some step in _question.steps
