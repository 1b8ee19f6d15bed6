# METADATA
# title: Refund assistant, an example
# description: "Rules over the run's own history: which orders it has read, and whose they are."
package callgate.agent.refund_bot

# METADATA
# title: A policy is searched for an order that this run has read
# description: "Holds where the call names an order at all."
# custom:
#   code: order_not_read
deny contains {
	"code": "order_not_read",
	"call": call.index,
	"message": "Read the order first; this conversation has no result for it yet.",
} if {
	some call in input.calls
	call.name != "get_order"
	order_id := call.arguments.order_id
	not _was_read(order_id)
}

# METADATA
# title: Another customer's order
# description: >-
#   Once a result shows that an order belongs to somebody else, nothing more is done about it (D3). The owner of an
#   order is what its own result says, and a result can only close, never open (D8).
# custom:
#   code: foreign_order
deny contains {
	"code": "foreign_order",
	"call": call.index,
	"message": "This order belongs to another customer. Say that you cannot help with it.",
	"action": "finish",
} if {
	some call in input.calls
	some step in input.run.steps
	_is_about(step, call.arguments.order_id)
	_order(step).customer_id != input.identity.user
}

_was_read(order_id) if {
	some step in input.run.steps
	step.status == "found"
	_is_about(step, order_id)
}

_is_about(step, order_id) if {
	step.tool == "get_order"
	step.arguments.order_id == order_id
}

# A tool may wrap what it found.
_order(step) := step.result_json.data

_order(step) := step.result_json if not step.result_json.data
