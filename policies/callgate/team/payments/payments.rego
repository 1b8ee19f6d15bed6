# METADATA
# title: Payments, an example
# description: "What plain rule data cannot say: rules that compare a call with the results that this run has read."
package callgate.team.payments

# METADATA
# title: The amount is the one that the invoice shows
# description: "The invoice must have been read in this run, be open, and owe exactly this amount (D2)."
# custom:
#   code: wrong_amount
deny contains {
	"code": "wrong_amount",
	"call": call.index,
	"message": "Pay an open invoice, and exactly the amount that it shows. Read the invoice again if in doubt.",
} if {
	some call in input.calls
	call.name == "pay_invoice"
	not _is_owed(call)
}

_is_owed(call) if {
	payment := call.arguments
	some step in input.run.steps
	step.tool == "get_invoice"
	step.status == "found"
	invoice := step.result_json
	invoice.invoice_id == payment.invoice_id
	invoice.status == "open"
	invoice.amount_cents == payment.amount_cents
	invoice.currency == payment.currency
}

# METADATA
# title: Paying is offered only to a user who speaks of it
# description: "Narrows the tools by the task before the model chooses (D16). Undefined otherwise, which narrows nothing."
allowed_tools := {tool.name | some tool in input.tools; tool.name != "pay_invoice"} if not _user_speaks_of_paying

_user_speaks_of_paying if regex.match(`(^|[^a-z])(pay|paid|payment|settle|transfer)([^a-z]|$)`, input.task.folded)
