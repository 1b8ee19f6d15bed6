# METADATA
# title: Names of tools
# description: >-
#   Lists that permit hold exact names. A list that refuses is matched generously: against the name and against its
#   folded form, which the host gives (case, white space, invisible and look-alike characters removed).
package callgate.lib

# METADATA
# description: "Whether a list holds the name. An entry that ends in `*` holds every name that begins like it."
listed(names, name) if name in names

listed(names, name) if {
	some entry in names
	endswith(entry, "*")
	startswith(name, trim_suffix(entry, "*"))
}

# METADATA
# description: "What a layer's rules declare for the tool of a call, by declared name. A look-alike name is held to the same rules."
entries(rules, call) := {name: entry |
	some name, entry in object.get(rules, "tools", {})
	_is_about(name, rules, call)
}

_is_about(name, _, call) if name == call.name

_is_about(name, rules, call) if name in rules.folded[call.folded]

# METADATA
# description: "Names in words, for a message."
in_words(names) := concat(", ", sort([name | some name in names])) if count(names) > 0

in_words(names) := "none" if count(names) == 0
