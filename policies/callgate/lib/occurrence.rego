# Where a value comes from. Whether a value stands in a text or in a result, as a whole: A12 does not stand in A123,
# nor 50 in 1,250. Letters and digits around it are read as ASCII, so that an id inside Chinese or Japanese text is
# found.
package callgate.lib

# METADATA
# description: "Whether the value stands in the text as a whole word."
occurs(text, value) if {
	value != ""
	pieces := split(text, value)
	some place, piece in pieces
	next := pieces[place + 1]
	not _joined_left(_text_before(piece, place, value), value)
	not _joined_right(_text_after(next, place, count(pieces), value), value)
}

# Between two occurrences that touch stands the value itself.
_text_before(piece, place, _) := piece if place == 0

_text_before(piece, place, value) := concat("", [value, piece]) if place > 0

_text_after(piece, place, pieces, _) := piece if place + 2 == pieces

_text_after(piece, place, pieces, value) := concat("", [piece, value]) if place + 2 < pieces

_joined_left(before, value) if {
	regex.match(`[A-Za-z0-9_]$`, before)
	regex.match(`^[A-Za-z0-9_]`, value)
}

_joined_left(before, value) if {
	regex.match(`[A-Za-z0-9][-.@]$`, before)
	regex.match(`^[A-Za-z0-9]`, value)
}

_joined_left(before, value) if {
	regex.match(`[0-9],$`, before)
	regex.match(`^[0-9][0-9][0-9]([^0-9]|$)`, value)
}

_joined_right(after, value) if {
	regex.match(`^[A-Za-z0-9_]`, after)
	regex.match(`[A-Za-z0-9_]$`, value)
}

_joined_right(after, value) if {
	regex.match(`^[-.@][A-Za-z0-9]`, after)
	regex.match(`[A-Za-z0-9]$`, value)
}

_joined_right(after, value) if {
	regex.match(`^,[0-9][0-9][0-9]([^0-9]|$)`, after)
	regex.match(`^[0-9]+$`, value)
	count(value) < 4
}

# METADATA
# description: "A text or a number as text; undefined for anything else."
as_text(value) := value if {
	is_string(value)
	value != ""
}

as_text(value) := sprintf("%v", [value]) if is_number(value)

# METADATA
# description: "A text or a number as the name of a thing: outer white space and case do not count."
as_name(value) := lower(trim_space(as_text(value)))

# METADATA
# description: "Whether the value stands in a found result of one of these tools."
in_results(value, tools, steps) if {
	text := as_text(value)
	some step in steps
	step.status == "found"
	step.tool in tools
	_in_result(text, step)
}

_in_result(text, step) if occurs(step.result, text)

# Looked at as a whole first: most results do not hold the value at all.
_in_result(text, step) if {
	contains(json.marshal(step.result_json), trim(json.marshal(text), "\""))
	walk(step.result_json, [_, part])
	_is_or_names(part, text)
}

_is_or_names(part, text) if as_text(part) == text

_is_or_names(part, text) if {
	is_string(part)
	occurs(part, text)
}

# A result may be keyed by ids: {"card_123": {…}}.
_is_or_names(part, text) if {
	is_object(part)
	some key, _ in part
	key == text
}

# METADATA
# description: "Whether the user said the value; case does not count. `task.folded` is what the user said, folded by the host."
in_user_text(value, task) if occurs(task.folded, lower(as_text(value)))

in_user_text(value, task) if {
	text := as_text(value)
	some said in task.user_texts
	occurs(said, text)
}
