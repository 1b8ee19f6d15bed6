# Changes of flights and passengers (rules 4, 5 and 6 of the airline).
package callgate.agent.airline

# METADATA
# title: Flights of a basic economy reservation stay
# description: "Its cabin may be changed, and then, by a call of its own, its flights."
# custom:
#   code: basic_economy_flights
deny contains {
	"code": "basic_economy_flights",
	"call": each.call.index,
	"message": "Flights of a basic economy reservation cannot be changed, only its cabin: send the flights as they are. Tell the customer.",
} if {
	some each in _flight_changes
	not _flights_may_change(each)
}

# METADATA
# title: A change keeps origin, destination and trip type
# custom:
#   code: other_route
deny contains {
	"code": "other_route",
	"call": each.call.index,
	"message": "A change keeps origin, destination and trip type, over flights that a search of this conversation has shown. Search for such flights, or tell the customer that it cannot be done.",
} if {
	some each in _flight_changes
	not _route_stays(each)
}

# METADATA
# title: A change is paid by gift card or credit card
# custom:
#   code: wrong_payment
deny contains {
	"code": "wrong_payment",
	"call": each.call.index,
	"message": "A change of flights is paid or refunded by one gift card or one credit card. Ask the customer which.",
} if {
	some each in _flight_changes
	not _is_paid_by_card(each)
}

# METADATA
# title: The number of passengers stays
# custom:
#   code: passenger_count
deny contains {
	"code": "passenger_count",
	"call": each.call.index,
	"message": "Names of passengers can be changed, their number cannot, not even by a person. Tell the customer.",
} if {
	some each in about_known
	each.call.name == "update_reservation_passengers"
	not _is_same_number(each)
}

_flight_changes := [each | some each in about_known; each.call.name == "update_reservation_flights"]

_flights_may_change(each) if each.reservation.cabin in {"economy", "business"}

_flights_may_change(each) if _flights_stay(each)

_flights_stay(each) if _named_flights(each.call.arguments.flights) == _named_flights(each.reservation.flights)

_named_flights(flights) := [[flight.flight_number, flight.date] | some flight in items(flights)]

_route_stays(each) if _flights_stay(each)

_route_stays(each) if {
	way := [leg |
		some flight in items(each.call.arguments.flights)
		some leg in legs
		same_flight(flight, leg)
	]
	count(way) == size(each.call.arguments.flights)
	way[0].origin == each.reservation.origin
	every place, leg in way {
		_goes_on(leg, way, place)
	}
	_ends_rightly(each.reservation, way)
}

_goes_on(_, way, place) if place + 1 == count(way)

_goes_on(leg, way, place) if leg.destination == way[place + 1].origin

_ends_rightly(reservation, way) if {
	reservation.flight_type == "one_way"
	way[count(way) - 1].destination == reservation.destination
}

_ends_rightly(reservation, way) if {
	reservation.flight_type == "round_trip"
	way[count(way) - 1].destination == reservation.origin
	some leg in way
	leg.destination == reservation.destination
}

# Whether there is such a card at all, the airline looks itself.
_is_paid_by_card(each) if {
	id := each.call.arguments.payment_id
	is_string(id)
	strings.any_prefix_match(id, ["gift_card_", "credit_card_"])
}

_is_same_number(each) if size(each.call.arguments.passengers) == size(each.reservation.passengers)
