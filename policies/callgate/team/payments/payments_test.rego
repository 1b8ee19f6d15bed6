# METADATA
# title: Tests of the payments example
package callgate.team.payments_test

import data.callgate.team.payments

_invoice := {"invoice_id": "I-7", "status": "open", "amount_cents": 5000, "currency": "EUR"}

_payment := {"invoice_id": "I-7", "amount_cents": 5000, "currency": "EUR"}

_question(invoice, payment) := {
	"task": {"folded": "please pay invoice i-7"},
	"tools": [{"name": "get_invoice"}, {"name": "pay_invoice"}],
	"run": {"steps": [{"tool": "get_invoice", "status": "found", "result_json": invoice}]},
	"calls": [{"index": 0, "name": "pay_invoice", "arguments": payment}],
}

_codes(question) := {denial.code | some denial in denials} if denials := payments.deny with input as question

test_allows_the_amount_that_is_owed if _codes(_question(_invoice, _payment)) == set()

test_denies_another_amount if {
	_codes(_question(_invoice, object.union(_payment, {"amount_cents": 5001}))) == {"wrong_amount"}
}

test_denies_another_invoice if {
	_codes(_question(_invoice, object.union(_payment, {"invoice_id": "I-8"}))) == {"wrong_amount"}
}

test_denies_an_invoice_that_is_settled if {
	_codes(_question(object.union(_invoice, {"status": "paid"}), _payment)) == {"wrong_amount"}
}

test_denies_where_the_amount_is_missing if {
	_codes(_question(_invoice, object.remove(_payment, ["amount_cents"]))) == {"wrong_amount"}
	_codes(_question(object.remove(_invoice, ["amount_cents"]), _payment)) == {"wrong_amount"}
	_codes(_question({}, {})) == {"wrong_amount"}
}

test_denies_where_nothing_was_read if {
	question := object.union(_question(_invoice, _payment), {"run": {"steps": []}})

	_codes(question) == {"wrong_amount"}
}

test_allows_paying_to_be_offered_when_the_user_speaks_of_it if {
	not payments.allowed_tools with input as _question(_invoice, _payment)
}

test_denies_paying_when_the_user_does_not_speak_of_it if {
	every task in [{"folded": "show my invoices"}, {"folded": "company"}, {}] {
		tools := payments.allowed_tools with input as {"task": task, "tools": _question(_invoice, _payment).tools}
		tools == {"get_invoice"}
	}
}
