# Whose data a call is about (rule 1 of the airline; D3).
package callgate.agent.airline

# METADATA
# title: A reservation is read before it is changed
# description: "What a rule says about a reservation is only known once this run has read it."
# custom:
#   code: reservation_not_read
deny contains {
	"code": "reservation_not_read",
	"call": call.index,
	"message": "Read this reservation with get_reservation_details first, then decide whether the rules allow the change.",
} if {
	some call in input.calls
	call.name in _changes_reservation
	not _is_known(call)
}

# METADATA
# title: A customer's own reservations only
# description: "The owner is what the reservation itself says."
# custom:
#   code: foreign_reservation
deny contains {
	"code": "foreign_reservation",
	"call": call.index,
	"message": "This reservation is not known to belong to the customer on the line. Ask for the customer's user id, or say that you cannot help with this reservation.",
} if {
	some call in input.calls
	call.name in _changes_reservation
	_is_known(call)
	not _is_own_reservation(call)
}

# METADATA
# title: A customer's own profile only
# description: "Holds for reading a profile once the customer is known, for booking and for certificates at any time."
# custom:
#   code: foreign_profile
deny contains {
	"code": "foreign_profile",
	"call": call.index,
	"message": "Act only for the customer on the line. Read their profile first, under the user id that they gave.",
} if {
	some call in input.calls
	call.name in _acts_for_customer
	not _is_own_profile(call)
}

deny contains {
	"code": "foreign_profile",
	"call": call.index,
	"message": "The profile of another customer is not read in this conversation.",
} if {
	some call in input.calls
	call.name == "get_user_details"
	customer
	not _is_own_profile(call)
}

_changes_reservation := {
	"update_reservation_flights", "update_reservation_passengers", "update_reservation_baggages", "cancel_reservation",
}

_acts_for_customer := {"book_reservation", "send_certificate"}

_is_known(call) if reservations[call.arguments.reservation_id]

_is_own_reservation(call) if reservations[call.arguments.reservation_id].user_id == customer

_is_own_profile(call) if call.arguments.user_id == customer
