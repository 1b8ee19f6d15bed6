# Merging what layers say. Limits take the smallest, traits of a tool the stricter.
package callgate.lib

# METADATA
# description: "The smallest value of every name over several objects of numbers. Null says nothing."
smallest(objects) := {name: least |
	some object in objects
	some name, _ in object
	values := {value | some each in objects; value := each[name]; value != null}
	count(values) > 0
	least := min(values)
}

# METADATA
# description: "One scope (`turn` or `run`) of several limits, `per_tool` included."
smallest_scope(scopes) := object.union(plain, {"per_tool": per_tool}) if {
	plain := smallest([object.remove(scope, ["per_tool"]) | some scope in scopes])
	per_tool := smallest([tools | some scope in scopes; tools := scope.per_tool])
}

_unsaid := {
	"effect": "unknown",
	"risk": "unknown",
	"volatile_arguments": [],
	"volatile_results": [],
	"identity_fields": [],
	"status_rules": [],
	"polling": false,
	"truncate": 0,
	"fence": false,
	"idempotency_argument": "",
	"repeatable": false,
}

# METADATA
# description: "What the layers declare about one tool, as one. `entries` in order: organisation, team, agent."
merged_traits(entries) := object.union(_unsaid, object.filter(entries[0], object.keys(_unsaid))) if {
	count(entries) == 1
} else := {
	"effect": _strictest(["write", "read"], {entry.effect | some entry in entries}),
	"risk": _strictest(["high", "medium", "low"], {entry.risk | some entry in entries}),
	"volatile_arguments": _united(entries, "volatile_arguments"),
	"volatile_results": _united(entries, "volatile_results"),
	"identity_fields": _first(entries, "identity_fields"),
	"status_rules": [rule | some entry in entries; some rule in entry.status_rules],
	"polling": _all_say(entries, "polling"),
	"truncate": _shortest([entry.truncate | some entry in entries; entry.truncate]),
	"fence": true in {entry.fence | some entry in entries},
	"idempotency_argument": _first(entries, "idempotency_argument"),
	"repeatable": _all_say(entries, "repeatable"),
}

_shortest(lengths) := min(lengths) if {
	count(lengths) > 0
} else := 0

_strictest(order, said) := stated[0] if {
	stated := [word | some word in order; word in said]
	count(stated) > 0
} else := "unknown"

_united(entries, name) := sort([field | some field in {each | some entry in entries; some each in entry[name]}])

_first(entries, name) := given[0] if {
	given := [entry[name] | some entry in entries; entry[name]]
	count(given) > 0
} else := _unsaid[name]

# What makes a rule laxer counts only where every layer that lists the tool says so.
_all_say(entries, name) if {
	every entry in entries {
		entry[name] == true
	}
} else := false
