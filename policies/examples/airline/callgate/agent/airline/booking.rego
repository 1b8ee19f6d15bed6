# Booking (rule 2 of the airline).
package callgate.agent.airline

# METADATA
# title: Not more passengers than one reservation may hold
# custom:
#   code: too_many_passengers
deny contains {
	"code": "too_many_passengers",
	"call": call.index,
	"message": sprintf("A reservation is for at most %v passengers. Tell the customer.", [values.most_passengers]),
} if {
	some call in _bookings
	not _passengers_fit(call)
}

# METADATA
# title: Payment by what is in the customer's profile
# custom:
#   code: payment_not_in_profile
deny contains {
	"code": "payment_not_in_profile",
	"call": call.index,
	"message": "Pay only by methods that stand in the customer's profile. Read the profile with get_user_details and use the ids that it shows.",
} if {
	some call in _bookings
	not _payments_are_known(call)
}

# METADATA
# title: One certificate, one credit card, three gift cards
# custom:
#   code: too_many_payments
deny contains {
	"code": "too_many_payments",
	"call": call.index,
	"message": "A booking is paid by at most one certificate, one credit card and three gift cards. Ask the customer which.",
} if {
	some call in _bookings
	_payments_are_known(call)
	not _payments_fit(call)
}

# METADATA
# title: Only flights that are available
# custom:
#   code: flight_not_available
deny contains {
	"code": "flight_not_available",
	"call": call.index,
	"message": "Book only flights that a search has shown as available on that date. Search for them first.",
} if {
	some call in _bookings
	not _flights_are_available(call)
}

_bookings := [call | some call in input.calls; call.name == "book_reservation"]

_passengers_fit(call) if size(call.arguments.passengers) <= values.most_passengers

_payment_ids(call) := [payment.payment_id | some payment in items(call.arguments.payment_methods)]

_payments_are_known(call) if {
	count(_payment_ids(call)) == size(call.arguments.payment_methods)
	every id in _payment_ids(call) {
		profile.payment_methods[id].source
	}
}

_payments_fit(call) if {
	every id in _payment_ids(call) {
		source := profile.payment_methods[id].source
		count([1 | some other in _payment_ids(call); profile.payment_methods[other].source == source]) <= values.most_payments[source]
	}
}

_flights_are_available(call) if {
	size(call.arguments.flights) > 0
	every flight in items(call.arguments.flights) {
		some offer in offers
		same_flight(flight, offer)
		offer.status == "available"
	}
}
