# Names of tools. Lists that permit hold exact names. A list that refuses is matched generously: against the name and
# against its folded form, which the host gives (case, white space, invisible and look-alike characters removed).
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
# description: "The names of those tools that a list holds."
matching(names, tools) := {tool.name |
	some tool in tools
	tool.name in names
} | {tool.name |
	starts := _starts(names)
	count(starts) > 0
	some tool in tools
	strings.any_prefix_match(tool.name, starts)
}

# METADATA
# description: "The same for a list that refuses: a tool whose folded name is on it is meant too."
matching_generously(names, tools) := (matching(names, tools) | {tool.name |
	some tool in tools
	tool.folded in names
}) | {tool.name |
	starts := _starts(names)
	count(starts) > 0
	some tool in tools
	strings.any_prefix_match(tool.folded, starts)
}

_starts(names) := {trim_suffix(entry, "*") |
	some entry in names
	endswith(entry, "*")
}

# METADATA
# description: "The names of those tools that are called like one of these, or look like one that the rules describe."
named_like(names, rules, tools) := {tool.name |
	some tool in tools
	tool.name in names
} | {tool.name |
	some tool in tools
	some name in rules.folded[tool.folded]
	name in names
}

# METADATA
# description: "What a layer's rules declare for the tool of a call, by declared name. A look-alike name is held to the same rules."
entries(rules, call) := {name: entry |
	some name in _names_for(rules, call)
	entry := rules.tools[name]
}

_names_for(rules, call) := {call.name} | {name | some name in rules.folded[call.folded]}

# METADATA
# description: "Names in words, for a message."
in_words(names) := concat(", ", sort([name | some name in names])) if count(names) > 0

in_words(names) := "none" if count(names) == 0
