# Paths into arguments. `a` is a member, `a.b` a member of a member, `a.*.b` that member of every element. Null counts
# as missing.
package callgate.lib

# METADATA
# description: "What a path leads to: `values` (all of them, without null), and whether something that it names is `missing`."
found(arguments, path) := {"values": [value], "missing": false} if {
	not contains(path, ".")
	value := _member(arguments, path)
	value != null
} else := {"values": [], "missing": true} if {
	not contains(path, ".")
} else := {"values": values, "missing": count(gaps) > 0} if {
	parts := split(path, ".")
	nodes := [{"depth": count(way), "value": value} |
		walk(arguments, [way, value])
		_leads_along(way, parts)
	]
	values := [node.value | some node in nodes; node.depth == count(parts); node.value != null]
	gaps := [true | some node in nodes; node.depth < count(parts); _ends_here(node.value, parts[node.depth])]
}

_member(value, name) := value[name] if is_object(value)

_leads_along(way, parts) if {
	count(way) <= count(parts)
	every place, step in way {
		_same_step(parts[place], step)
	}
}

_same_step(part, _) if part == "*"

_same_step(part, step) if part == step

_ends_here(value, part) if not _goes_on(value, part)

_goes_on(value, part) if {
	part != "*"
	_member(value, part) != null
}

_goes_on(value, part) if {
	part == "*"
	_has_members(value)
}

_has_members(value) if is_array(value)

_has_members(value) if is_object(value)

# METADATA
# description: "Every text and number anywhere in the arguments."
scalars(arguments) := {value |
	walk(arguments, [_, value])
	is_scalar(value)
}

# METADATA
# description: "A text that is not empty, or a number: what can name an object."
is_scalar(value) if is_number(value)

is_scalar(value) if {
	is_string(value)
	value != ""
}
