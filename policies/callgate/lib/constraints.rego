# Constraints on arguments. What rule data may ask of an argument, one line a kind. A kind holds only where it is
# positively shown: a value of the wrong type, or a kind that is not known here, breaks it.
package callgate.lib

_kinds := {
	"equals", "one_of", "not_one_of", "pattern", "not_pattern", "starts_with", "not_starts_with", "contains",
	"not_contains", "min", "max", "max_length", "type", "in_results_of", "in_user_text",
	"named_by", "owned_by", "as_shown",
}

# Kinds that say nothing about an argument that is not there.
_absence_is_fine := {"not_one_of", "not_pattern", "not_starts_with", "not_contains", "max_length", "type"}

# Members of a constraint that constrain nothing by themselves.
_remarks := {"message", "required", "shadow"}

# METADATA
# description: >-
#   What is wrong with the arguments of a call by one layer's rules, as a set of denials without a layer.
#   `question` holds `steps` (of the run), `task` and `identity`.
argument_denials(rules, call, question) := {denial |
	some tool, entry in entries(rules, call)
	some path, constraint in object.get(entry, "arguments", {})
	some kind in _broken(path, constraint, call, question)
	denial := {
		"code": "argument_rule",
		"call": call.index,
		"message": _message(path, constraint, kind),
		"rule": concat(".", ["tools", tool, "arguments", path, kind]),
		"shadow": object.get(constraint, "shadow", false),
	}
}

# A free text is the one argument `text` of its call.
_arguments(call) := call.arguments if is_object(call.arguments)

_arguments(call) := {"text": call.text} if {
	not _has_object(call)
	call.kind == "custom"
	is_string(call.text)
}

# Rules of their own: OPA by itself looks at what a negated call is given before the negation, so that `not f(missing)`
# would be undefined.
_has_object(call) if is_object(call.arguments)

_is_readable(call) if is_object(_arguments(call))

_broken(_, _, call, _) := {"unreadable"} if not _is_readable(call)

_broken(path, constraint, call, question) := kinds if {
	there := found(_arguments(call), path)
	asked := object.union(question, {"arguments": _arguments(call)})
	wrong := {kind |
		some kind, wanted in constraint
		not kind in _remarks
		some value in there.values
		not _holds(kind, wanted, value, asked)
	}
	kinds := wrong | {"required" | there.missing; _is_required(constraint)}
}

_is_required(constraint) if constraint.required == true

_is_required(constraint) if {
	not "required" in object.keys(constraint)
	some kind, _ in constraint
	not kind in _remarks
	not kind in _absence_is_fine
}

_holds("equals", wanted, value, _) if value == wanted

_holds("one_of", wanted, value, _) if value in wanted

_holds("not_one_of", wanted, value, _) if {
	_is_plain(value)
	every refused in wanted {
		not _same(value, refused)
	}
}

_holds("pattern", wanted, value, _) if {
	is_string(value)
	regex.match(wanted, value)
}

_holds("not_pattern", wanted, value, _) if {
	is_string(value)
	not regex.match(wanted, value)
}

_holds("starts_with", wanted, value, _) if {
	is_string(value)
	startswith(value, wanted)
	not _climbs(value)
}

_holds("not_starts_with", wanted, value, _) if {
	is_string(value)
	not startswith(lower(trim_space(value)), lower(wanted))
	not _climbs(value)
}

_holds("contains", wanted, value, _) if {
	is_string(value)
	contains(value, wanted)
}

_holds("not_contains", wanted, value, _) if {
	is_string(value)
	not contains(lower(value), lower(wanted))
}

_holds("min", wanted, value, _) if {
	is_number(value)
	value >= wanted
}

_holds("max", wanted, value, _) if {
	is_number(value)
	value <= wanted
}

_holds("max_length", wanted, value, _) if {
	_has_length(value)
	count(value) <= wanted
}

_holds("type", wanted, value, _) if type_name(value) == wanted

_holds("type", "integer", value, _) if {
	is_number(value)

	# What is larger is not exact, and whole for one engine only. The host gives larger whole numbers as texts.
	abs(value) <= 9007199254740992
	floor(value) == value
}

_holds("in_results_of", wanted, value, question) if in_results(value, wanted, question.steps)

_holds("in_user_text", true, value, question) if in_user_text(value, question.task)

_holds("named_by", wanted, value, question) if _is_named_by(wanted, value, question)

_holds("owned_by", wanted, value, question) if _is_owned(wanted, value, question)

_holds("as_shown", wanted, value, question) if _is_as_shown(wanted, value, question)

_is_plain(value) if is_string(value)

_is_plain(value) if is_number(value)

_is_plain(value) if is_boolean(value)

_same(left, right) if left == right

_same(left, right) if as_name(left) == as_name(right)

_has_length(value) if is_string(value)

_has_length(value) if is_array(value)

# A path that steps upwards does not stay where it starts.
_climbs(value) if {
	some part in regex.split(`[/\\]`, value)
	part == ".."
}

_message(_, constraint, _) := constraint.message

_message(path, constraint, kind) := sprintf("The argument %s %s.", [path, _wording(kind, constraint)]) if {
	not constraint.message
}

_wording("unreadable", _) := "cannot be checked, since the arguments are not a JSON object"

_wording("required", _) := "is missing"

_wording("equals", constraint) := sprintf("must be %v", [constraint.equals])

_wording("one_of", constraint) := sprintf("must be one of %s", [_choices(constraint.one_of)])

_wording("pattern", constraint) := sprintf("must match %s", [constraint.pattern])

_wording("starts_with", constraint) := sprintf("must start with %s and not step upwards", [constraint.starts_with])

_wording("contains", constraint) := sprintf("must contain %s", [constraint.contains])

_wording("min", constraint) := sprintf("must be a number of at least %v", [constraint.min])

_wording("max", constraint) := sprintf("must be a number of at most %v", [constraint.max])

_wording("max_length", constraint) := sprintf("must not be longer than %v", [constraint.max_length])

_wording("type", constraint) := sprintf("must be of type %s", [constraint.type])

_wording("in_results_of", constraint) := sprintf(
	"must come from an earlier result of %s in this conversation",
	[concat(" or ", constraint.in_results_of)],
)

_wording("in_user_text", _) := "must be what the user named; ask the user if it is not clear"

_wording("named_by", constraint) := sprintf(
	"must have been named in this conversation, by %s",
	[concat(" or ", constraint.named_by)],
)

_wording("owned_by", constraint) := sprintf(
	"must name something that %s has shown to belong to the one for whom you act: read it first, and leave what is not theirs",
	[concat(" or ", constraint.owned_by.tool)],
)

_wording("as_shown", constraint) := sprintf(
	"must be the %s that %s has shown in this conversation",
	[constraint.as_shown.field, concat(" or ", constraint.as_shown.tool)],
)

_wording(kind, _) := "has a value that is not allowed here" if {
	kind in {"not_one_of", "not_pattern", "not_starts_with", "not_contains"}
}

_wording(kind, _) := "has a constraint that is not known" if {
	not kind in _kinds
	not kind in {"unreadable", "required"}
}

_choices(values) := concat(", ", [sprintf("%v", [value]) | some value in values])
