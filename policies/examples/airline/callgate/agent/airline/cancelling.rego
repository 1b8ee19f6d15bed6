# Cancelling (rule 7 of the airline). That only whole reservations are cancelled follows from the call itself, which
# names nothing else (`other_arguments: refuse`).
package callgate.agent.airline

# METADATA
# title: What was flown is not cancelled
# description: "A flight of an earlier day was flown. Of today's nobody in this run can tell."
# custom:
#   code: already_flown
deny contains {
	"code": "already_flown",
	"call": each.call.index,
	"message": "A flight of this reservation was flown, so it cannot be cancelled. Offer a transfer to a person.",
} if {
	some each in _cancellations
	not _is_unflown(each.reservation)
}

# METADATA
# title: When a reservation can be cancelled
# description: >-
#   Within a day of booking, or when the airline cancelled a flight; business always; others with insurance, for reasons
#   of health or weather. The reason is what the user said.
# custom:
#   code: not_cancellable
deny contains {
	"code": "not_cancellable",
	"call": each.call.index,
	"message": "This reservation cannot be cancelled: it is older than a day, not business, and not both insured and cancelled for health or weather. Ask for the reason if you have not, else tell the customer.",
} if {
	some each in _cancellations
	not _is_cancellable(each.reservation)
}

_cancellations := [each | some each in about_known; each.call.name == "cancel_reservation"]

_is_unflown(reservation) if {
	size(reservation.flights) > 0
	every flight in items(reservation.flights) {
		evening(flight.date) >= now_ns
	}
}

_is_cancellable(reservation) if now_ns - nanoseconds(reservation.created_at) <= values.hours_to_cancel * 3600000000000

_is_cancellable(reservation) if reservation.cabin == "business"

_is_cancellable(reservation) if {
	reservation.insurance == "yes"
	_says_health_or_weather
}

# The airline cancelled a flight: what a search has shown, not what the user says.
_is_cancellable(reservation) if {
	some flight in items(reservation.flights)
	some offer in offers
	same_flight(flight, offer)
	offer.status in {"cancelled", "canceled"}
}

_says_health_or_weather if regex.match(_health_or_weather, input.task.folded)

_health_or_weather := concat("", ["(^|[^a-z])(", concat("|", _reasons), ")([^a-z]|$)"])

_reasons := [
	"sick", "sickness", "ill", "illness", "unwell", "health", "medical", "doctor", "hospital", "surgery", "injury",
	"injured", "covid", "flu", "pregnant", "pregnancy", "weather", "storms?", "snow", "hurricanes?", "typhoons?",
	"tornado", "floods?", "fog",
]
