# What results of this run show about an object: whose it is, and what it holds. A result may be the object itself,
# hold it as `data`, or be a list of objects. Deeper down nothing is believed: what stands there may be anybody's text.
package callgate.lib

# METADATA
# description: >-
#   The objects of this name in found results, oldest first. `said` holds `tool` (a list of names) and `object`, the
#   member that holds the name; an object without it is called what the tool was asked for.
shown_objects(name, said, steps) := [object |
	some step in steps
	step.status == "found"
	step.tool in said.tool
	some object in _objects(step.result_json)
	_is_called(object, step, said.object, name)
]

_objects(result) := [object |
	some outer in array.concat([result], [result.data | is_object(result)])
	some object in _elements(outer)
	is_object(object)
]

_elements(value) := value if is_array(value)

_elements(value) := [value] if is_object(value)

_is_called(object, _, path, name) if _is_same_text(_member_at(object, path), name)

_is_called(object, step, path, name) if {
	_member_at(object, path) == null
	_is_same_text(_member_at(step.arguments, path), name)
}

# Null where there is none.
_member_at(value, path) := object.get(value, split(path, "."), null) if is_object(value)

_is_same_text(one, other) if as_text(one) == as_text(other)

# One owner, in all that was shown, and the right one: a second result that says otherwise closes the object.
_is_owned(said, value, question) if {
	owners := {as_text(_member_at(object, said.owner)) | some object in shown_objects(value, said, question.steps)}
	owners == {_bound(said.equals, question)}
}

_bound(source, question) := as_text(_member_at(question.identity, path)) if {
	startswith(source, "identity.")
	path := substring(source, count("identity."), -1)
}

# The argument of the first call that found something: later ones do not make another caller of this one.
_bound(source, question) := as_text(values[0]) if {
	not startswith(source, "identity.")
	parts := split(source, ".")
	last := count(parts) - 1
	tool := concat(".", array.slice(parts, 0, last))
	values := [value |
		some step in question.steps
		step.status == "found"
		step.tool == tool
		value := step.arguments[parts[last]]
	]
}

_is_as_shown(said, value, question) if {
	[name] := found(question.arguments, object.get(said, "argument", said.object)).values
	objects := shown_objects(name, said, question.steps)
	_is_equal(_member_at(objects[count(objects) - 1], said.field), value)
}

_is_equal(one, other) if one == other

_is_equal(one, other) if _is_same_text(one, other)

_is_named_by(sources, value, question) if {
	"user" in sources
	in_user_text(value, question.task)
}

_is_named_by(sources, value, question) if in_results(value, sources, question.steps)
