# METADATA
# title: Airline, an example
# description: >-
#   The rules of an airline over what this run has read and done: who the customer is, and how each reservation stands
#   now. A call about a reservation that was not read, or is not the customer's, is denied in ownership.rego; the other
#   files look at known ones only.
package callgate.agent.airline

import data.callgate.lib

values := data.rules.agents.airline.values

_done := [step | some step in input.run.steps; step.status == "found"]

# Who calls is best known from outside. Else the customer is whose profile or reservation was read first, of those that
# the user has named: a second name in the same run opens nothing.
customer := input.identity.user if {
	input.identity.user != ""
} else := _named[0]

_named := [owner |
	some step in _done
	some owner in _owners(step)
	some name in array.concat([owner], [id | id := step.arguments.reservation_id])
	_user_says(name)
]

_owners(step) := {step.arguments.user_id} if step.tool == "get_user_details"

_owners(step) := {step.result_json.user_id} if step.tool == "get_reservation_details"

_user_says(name) if lib.in_user_text(name, input.task)

# Or in an address of mail that begins so.
_user_says(name) if contains(input.task.folded, concat("", [lib.as_name(name), "@"]))

# As read last: what is paid with changes during the run.
profile := profiles[count(profiles) - 1] if {
	profiles := [step.result_json |
		some step in _done
		step.tool == "get_user_details"
		step.arguments.user_id == customer
	]
	count(profiles) > 0
}

# Every membership that the customer may have: all, as long as the profile was not read.
memberships := {profile.membership} if {
	profile.membership
} else := object.keys(values.free_bags)

_shows_reservation := {
	"get_reservation_details", "book_reservation", "update_reservation_flights", "update_reservation_passengers",
	"update_reservation_baggages", "cancel_reservation",
}

_shown := [step.result_json |
	some step in _done
	step.tool in _shows_reservation
	is_string(step.result_json.reservation_id)
]

# A reservation as it stands now. What the airline answers to a change still names the cabin of before, so the cabin is
# that of the newest change that succeeded.
reservations[id] := object.union(shown[count(shown) - 1], {"cabin": _cabin(id, shown)}) if {
	some id in {each.reservation_id | some each in _shown}
	shown := [each | some each in _shown; each.reservation_id == id]
}

_cabin(id, shown) := changes[count(changes) - 1] if {
	changes := _changes(id)
	count(changes) > 0
} else := shown[count(shown) - 1].cabin

_changes(id) := [step.arguments.cabin |
	some step in _done
	step.tool == "update_reservation_flights"
	step.arguments.reservation_id == id
]

# The calls of this answer about a reservation of the customer.
about_known := [{"call": call, "reservation": reservation} |
	some call in input.calls
	reservation := reservations[call.arguments.reservation_id]
	reservation.user_id == customer
]

# Flights that a search of this run has shown.
offers contains _offer(flight, step.arguments.date) if {
	some step in _done
	step.tool == "search_direct_flight"
	some flight in items(step.result_json)
}

offers contains _offer(flight, "") if {
	some step in _done
	step.tool == "search_onestop_flight"
	some trip in items(step.result_json)
	some flight in items(trip)
}

_offer(flight, date) := {
	"flight_number": flight.flight_number,
	"date": object.get(flight, "date", date),
	"origin": flight.origin,
	"destination": flight.destination,
	"status": flight.status,
} if {
	is_object(flight)
}

# Every flight of this run whose way is known.
legs contains object.remove(offer, ["status"]) if some offer in offers

legs contains object.filter(flight, ["flight_number", "date", "origin", "destination"]) if {
	some each in _shown
	some flight in items(each.flights)
	is_object(flight)
}

same_flight(one, other) if {
	one.flight_number == other.flight_number
	one.date == other.date
}

now_ns := nanoseconds(values.now) if {
	values.now
} else := input.now_ns

# When a day begins and ends.
morning(date) := nanoseconds(concat("T", [date, "00:00:00"])) if is_string(date)

evening(date) := nanoseconds(concat("T", [date, "23:59:59"])) if is_string(date)

# What is no list has no size and holds nothing: a wrong type in a call is denied, it is no fault of the policy.
size(list) := count(list) if is_array(list)

items(list) := list if is_array(list)

items(other) := [] if not is_array(other)

nanoseconds(local) := time.parse_rfc3339_ns(concat("", [local, values.zone])) if {
	is_string(local)
	regex.match(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}$`, local)
}
