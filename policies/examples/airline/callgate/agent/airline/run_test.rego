# What the tests of this folder are made of, and tests of how a run is read.
package callgate.agent.airline_test

import data.callgate.agent.airline

reservation := {
	"reservation_id": "R1",
	"user_id": "ann_1",
	"origin": "JFK",
	"destination": "SFO",
	"flight_type": "one_way",
	"cabin": "economy",
	"flights": [{"flight_number": "HAT1", "date": "2024-05-20", "origin": "JFK", "destination": "SFO", "price": 100}],
	"passengers": [{"first_name": "Ann"}, {"first_name": "Bob"}],
	"created_at": "2024-05-01T10:00:00",
	"total_baggages": 1,
	"nonfree_baggages": 0,
	"insurance": "no",
}

profile := {
	"membership": "silver",
	"payment_methods": {
		"credit_card_1": {"source": "credit_card"},
		"credit_card_2": {"source": "credit_card"},
		"certificate_1": {"source": "certificate"},
		"certificate_2": {"source": "certificate"},
		"gift_card_1": {"source": "gift_card"},
	},
}

found(tool, arguments, result) := {"tool": tool, "status": "found", "arguments": arguments, "result_json": result}

read_profile := found("get_user_details", {"user_id": "ann_1"}, profile)

read(change) := found("get_reservation_details", {"reservation_id": "R1"}, object.union(reservation, change))

upgraded(cabin) := found(
	"update_reservation_flights",
	{"reservation_id": "R1", "cabin": cabin, "flights": [], "payment_id": "gift_card_1"},
	reservation,
)

flight(number, origin, destination, status) := {
	"flight_number": number,
	"origin": origin,
	"destination": destination,
	"status": status,
}

searched(date, flights) := found("search_direct_flight", {"date": date}, flights)

call(name, arguments) := {"index": 0, "name": name, "arguments": arguments}

question(steps, name, arguments, said) := {
	"identity": {"user": "", "agent": "airline"},
	"now_ns": 1715803200000000000,
	"task": {"folded": said, "user_texts": [said]},
	"run": {"steps": steps},
	"calls": [call(name, arguments)],
}

values := {
	"now": "2024-05-15T15:00:00",
	"zone": "-05:00",
	"most_passengers": 2,
	"most_payments": {"certificate": 1, "credit_card": 1, "gift_card": 3},
	"free_bags": {
		"regular": {"basic_economy": 0, "economy": 1, "business": 2},
		"silver": {"basic_economy": 1, "economy": 2, "business": 3},
		"gold": {"basic_economy": 2, "economy": 3, "business": 3},
	},
	"hours_to_cancel": 24,
	"compensation": {"cancelled": 100, "delayed": 50},
}

codes_of(asked) := {denial.code |
	denials := airline.deny with input as asked with data.rules.agents.airline.values as values
	some denial in denials
}

codes(steps, name, arguments) := codes_of(question(steps, name, arguments, "i am ann_1"))

codes_when_said(steps, name, arguments, said) := codes_of(question(steps, name, arguments, concat(" ", ["i am ann_1,", said])))

test_the_cabin_is_that_of_the_newest_change_that_succeeded if {
	steps := [read({"cabin": "basic_economy"}), upgraded("economy"), upgraded("business")]
	known := airline.reservations with input as question(steps, "think", {}, "ann_1")
	known.R1.cabin == "business"

	failed := object.union(upgraded("business"), {"status": "failed"})
	before := airline.reservations with input as question([read({}), failed], "think", {}, "ann_1")
	before.R1.cabin == "economy"
}

test_a_booking_of_this_run_is_known if {
	booked := found("book_reservation", {}, object.union(reservation, {"reservation_id": "NEW"}))
	known := airline.reservations with input as question([booked], "think", {}, "ann_1")
	known.NEW.cabin == "economy"
}

_customer(steps, said) := customer if {
	customer := airline.customer with input as question(steps, "think", {}, said)
}

test_the_customer_is_the_first_one_whom_the_user_named if {
	bob := found("get_user_details", {"user_id": "bob_2"}, profile)
	_customer([read_profile, bob], "ann_1 and bob_2") == "ann_1"
	_customer([bob, read_profile], "i am ann_1") == "ann_1"
	_customer([read({})], "my reservation is r1") == "ann_1"
	_customer([read_profile], "write to ann_1@mail.example") == "ann_1"
	not _customer([read_profile], "hello")
	not _customer([read_profile], "i am ann_11")
}

test_a_known_user_is_the_customer_whatever_was_read if {
	asked := object.union(question([read_profile], "think", {}, "ann_1"), {"identity": {"user": "eve_3"}})
	customer := airline.customer with input as asked
	customer == "eve_3"
}

test_the_time_is_that_of_the_decision_where_the_values_name_none if {
	now := airline.now_ns with input as question([], "think", {}, "") with data.rules.agents.airline.values as {}
	now == 1715803200000000000
}
