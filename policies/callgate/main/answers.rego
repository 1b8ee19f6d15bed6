# What final answers must keep to, by rule data (E15). Which ids a text cites is found here; whether this run has read
# them is compared by the host, which has the whole results.
package callgate.main

_answer_rules contains {"layer": each.layer, "name": concat(".", ["answers", name]), "rule": rule} if {
	input.phase == "answer"
	some each in _rule_layers
	some name, rule in each.rules.answers
}

_cited contains object.union(_source(said), {"values": sort([value | some value in values])}) if {
	some said in _answer_rules
	values := {value | some value in regex.find_n(said.rule.ids, input.answer.plain, -1)}
	count(values) > 0
}

_source(said) := {
	"layer": said.layer,
	"rule": said.name,
	"message": object.get(said.rule, "message", ""),
	"tools": object.get(said.rule, "found_by", []),
	"shadow": object.get(said.rule, "shadow", false),
}

# METADATA
# title: A final answer that says too little or too much
# description: "What has to be in it, what must not be, and what may be claimed only after a tool has found it."
_answer_denials contains object.union(reason, {
	"call": null,
	"layer": said.layer,
	"rule": said.name,
	"shadow": object.get(said.rule, "shadow", false),
}) if {
	some said in _answer_rules
	some reason in _answer_reasons(said.rule)
}

_answer_reasons(rule) := {{"code": code, "message": object.get(rule, "message", message)} |
	some code, message in _complaints(rule)
}

_complaints(rule) := object.union_n([_incomplete(rule), _forbidden(rule), _unfounded(rule)])

_incomplete(rule) := {"answer_incomplete": "The answer does not say something that it has to say."} if {
	_applies(rule)
	not regex.match(rule.requires, input.answer.plain)
} else := {}

_forbidden(rule) := {"answer_forbidden": "The answer says something that it must not say."} if {
	regex.match(rule.forbids, input.answer.plain)
} else := {}

_unfounded(rule) := {"answer_unfounded": "The answer claims something that no tool of this conversation has shown."} if {
	regex.match(rule.claims, input.answer.plain)
	not _has_found(rule.only_after)
} else := {}

# What is required may be required only where one of these tools was used since the user last spoke.
_applies(rule) if {
	is_string(rule.requires)
	not rule.when_used
}

_applies(rule) if {
	is_string(rule.requires)
	some step in _question.steps
	step.turn == input.run.turn
	step.tool in rule.when_used
	step.status != "refused"
}

_has_found(tools) if {
	some step in _question.steps
	step.tool in tools
	step.status == "found"
}

_denials contains object.remove(denial, ["shadow"]) if {
	some denial in _answer_denials
	not denial.shadow
}

_shadow contains object.remove(denial, ["shadow"]) if {
	some denial in _answer_denials
	denial.shadow
}
