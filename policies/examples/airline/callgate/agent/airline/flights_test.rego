package callgate.agent.airline_test

_other := searched("2024-05-21", [
	flight("HAT5", "JFK", "SFO", "available"),
	flight("HAT6", "JFK", "LAX", "available"),
	flight("HAT7", "LAX", "SFO", "available"),
	flight("HAT8", "SFO", "JFK", "available"),
])

_change(numbers, payment) := {
	"reservation_id": "R1",
	"cabin": "economy",
	"flights": [{"flight_number": number, "date": "2024-05-21"} | some number in numbers],
	"payment_id": payment,
}

_changed(change, numbers) := codes([read(change), _other], "update_reservation_flights", _change(numbers, "gift_card_1"))

test_allows_other_flights_on_the_same_route if {
	_changed({}, ["HAT5"]) == set()
	_changed({}, ["HAT6", "HAT7"]) == set()
}

test_denies_another_route if {
	_changed({}, ["HAT6"]) == {"other_route"}
	_changed({}, ["HAT7"]) == {"other_route"}
	_changed({}, ["HAT7", "HAT6"]) == {"other_route"}
	_changed({}, ["HAT5", "HAT8"]) == {"other_route"}
	_changed({}, ["HAT99"]) == {"other_route"}
	_changed({}, []) == {"other_route"}
}

test_denies_another_trip_type if {
	_changed({"flight_type": "round_trip"}, ["HAT5", "HAT8"]) == set()
	_changed({"flight_type": "round_trip"}, ["HAT5"]) == {"other_route"}
}

test_denies_other_flights_of_a_basic_economy_reservation if {
	_changed({"cabin": "basic_economy"}, ["HAT5"]) == {"basic_economy_flights"}
}

test_allows_another_cabin_for_a_basic_economy_reservation_and_then_other_flights if {
	same := object.union(_change([], "gift_card_1"), {"flights": [{"flight_number": "HAT1", "date": "2024-05-20"}]})
	basic := read({"cabin": "basic_economy"})
	codes([basic], "update_reservation_flights", same) == set()
	codes([basic, _other, upgraded("economy")], "update_reservation_flights", _change(["HAT5"], "credit_card_1")) == set()
}

test_denies_payment_by_certificate if {
	codes([read({}), _other], "update_reservation_flights", _change(["HAT5"], "certificate_1")) == {"wrong_payment"}
}

test_denies_a_change_with_missing_fields if {
	codes([read({}), _other], "update_reservation_flights", {"reservation_id": "R1"}) == {"other_route", "wrong_payment"}
}

test_denies_another_number_of_passengers if {
	names := {"reservation_id": "R1", "passengers": [{"first_name": "Carl"}]}
	codes([read({})], "update_reservation_passengers", names) == {"passenger_count"}
	both := {"reservation_id": "R1", "passengers": [{"first_name": "Carl"}, {"first_name": "Bob"}]}
	codes([read({})], "update_reservation_passengers", both) == set()
}
