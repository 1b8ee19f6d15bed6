# Arguments that rule data does not name. With `other_arguments: refuse` a call carries nothing but what the tool's
# `arguments` name, member by member at every depth. Null counts as missing.
package callgate.lib

# METADATA
# description: "The calls of a layer's tools with arguments that it does not name, as a set of denials without a layer."
unnamed_denials(rules, call) := {denial |
	some tool, entry in entries(rules, call)
	entry.other_arguments == "refuse"
	unnamed := _unnamed(call, entry)
	count(unnamed) > 0
	denial := {
		"code": "argument_rule",
		"call": call.index,
		"message": sprintf("This tool is not used with the arguments %s here.", [in_words(unnamed)]),
		"rule": concat(".", ["tools", tool, "other_arguments"]),
		"shadow": false,
	}
}

# Of an argument with members that nobody names, the outermost is told. Arguments that cannot be read hold anything.
_unnamed(call, _) := {"that cannot be read"} if not _is_readable(call)

_unnamed(call, entry) := {concat(".", [sprintf("%v", [step]) | some step in way]) |
	walk(_arguments(call), [way, value])
	value != null
	count(way) > 0
	not _is_named(way, named)
	_is_named(array.slice(way, 0, count(way) - 1), named)
} if {
	is_object(_arguments(call))
	named := [split(path, ".") | some path, _ in object.get(entry, "arguments", {})]
}

_is_named(way, _) if count(way) == 0

_is_named(way, named) if {
	some parts in named
	_leads_along(way, parts)
}
