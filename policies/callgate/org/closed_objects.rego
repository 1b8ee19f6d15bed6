# METADATA
# title: Closed objects
# description: >-
#   After a tool answered `forbidden` for an object, no other tool reaches the same object in this run (D6). Which
#   arguments name an object is said in rule data (`object_arguments`).
package callgate.org

import data.callgate.lib

# METADATA
# title: An object that was forbidden stays closed
# description: "The value is looked for in every argument of every tool, since another tool may name it differently."
# custom:
#   code: object_closed
deny contains {
	"code": "object_closed",
	"call": call.index,
	"message": "Access to this object was refused earlier in this conversation; it stays closed for every tool.",
} if {
	count(_closed) > 0
	some call in input.calls
	some value in lib.scalars(call.arguments)
	lib.as_name(value) in _closed
}

_closed contains lib.as_name(value) if {
	some step in input.run.steps
	step.status == "forbidden"
	some path in _object_arguments[step.tool]
	some value in lib.found(step.arguments, path).values
	lib.is_scalar(value)
}

_object_arguments[tool] := paths if {
	some tool in {step.tool | some step in input.run.steps; step.status == "forbidden"}
	paths := {path |
		some each in lib.rule_layers(data.rules, object.get(input, "identity", {}))
		some path in each.rules.tools[tool].object_arguments
	}
}
