# Layers of rule data. Which parts of data.rules apply to an identity, and which tools each of them lists.
package callgate.lib

# METADATA
# description: "The layers that apply, in order: organisation, team, agent. An unknown team or agent adds none."
rule_layers(rules, identity) := array.concat(
	[{"layer": "org", "rules": object.get(rules, "org", {})}],
	array.concat(
		_named_layer("team", object.get(rules, "teams", {}), object.get(identity, "team", "")),
		_named_layer("agent", object.get(rules, "agents", {}), object.get(identity, "agent", "")),
	),
)

_named_layer(kind, layers, wanted) := [{"layer": concat(".", [kind, name]), "rules": rules} |
	some name, rules in layers
	name == wanted
]

# METADATA
# description: "The tools that a layer lists for these roles. Undefined where it has no list."
allow_list(rules, roles) := names if {
	_has_list(rules)
	granted := {name |
		some role, grant in object.get(rules, "roles", {})
		role in roles
		some name in grant.tools
	}
	everyone := {name | some name in object.get(rules, "allowed_tools", [])}
	names := granted | everyone
}

_has_list(rules) if is_array(rules.allowed_tools)

_has_list(rules) if is_object(rules.roles)

# METADATA
# description: "What a layer lists under the profile strict: its list or, where it has none, the tools that it describes."
strict_list(rules, roles) := allow_list(rules, roles)

strict_list(rules, _) := names if {
	not _has_list(rules)
	names := {name | some name, _ in object.get(rules, "tools", {})}
	count(names) > 0
}
