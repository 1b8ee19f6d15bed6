# Certificates (rule 8 of the airline).
package callgate.agent.airline

# METADATA
# title: A certificate is for a complaint, for whom, and how much
# description: >-
#   There is a reservation of the customer for which all of it holds: the user spoke of a cancelled or delayed flight,
#   one of its flights was due by today, the customer is silver or gold or it is insured or business, and the amount is
#   that of its passengers.
# custom:
#   code: certificate_not_due
deny contains {
	"code": "certificate_not_due",
	"call": call.index,
	"message": "A certificate is only for a complaint about a cancelled (100 per passenger) or delayed (50 per passenger) flight, for silver and gold members or where the reservation is insured or business. Read the profile and the reservation, and check the amount.",
} if {
	some call in input.calls
	call.name == "send_certificate"
	not _is_due(call)
}

_is_due(call) if {
	some reservation in reservations
	reservation.user_id == customer
	_is_entitled(reservation)
	_was_due(reservation)
	some word, amount in values.compensation
	regex.match(_complaint[word], input.task.folded)
	call.arguments.amount == amount * size(reservation.passengers)
}

_complaint := {"cancelled": `cancell?(ed|ation)`, "delayed": `delay`}

_is_entitled(_) if {
	every membership in memberships {
		membership in {"silver", "gold"}
	}
}

_is_entitled(reservation) if reservation.insurance == "yes"

_is_entitled(reservation) if reservation.cabin == "business"

# A complaint is about a flight that should have left.
_was_due(reservation) if {
	some flight in items(reservation.flights)
	morning(flight.date) <= now_ns
}
