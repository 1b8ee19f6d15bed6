package callgate.agent.airline_test

_search := searched("2024-05-20", [flight("HAT1", "JFK", "SFO", "available"), flight("HAT2", "JFK", "SFO", "delayed")])

_paid(ids) := [{"payment_id": id, "amount": 1} | some id in ids]

_booking(change) := object.union(
	{
		"user_id": "ann_1",
		"cabin": "economy",
		"flights": [{"flight_number": "HAT1", "date": "2024-05-20"}],
		"passengers": [{"first_name": "Ann"}],
		"payment_methods": _paid(["certificate_1", "credit_card_1"]),
		"total_baggages": 2,
		"nonfree_baggages": 0,
	},
	change,
)

_booked(change) := codes([read_profile, _search], "book_reservation", _booking(change))

test_allows_a_booking_by_the_rules if _booked({}) == set()

test_denies_too_many_passengers if _booked({"passengers": [{}, {}, {}], "total_baggages": 0}) == {"too_many_passengers"}

test_denies_payment_that_is_not_in_the_profile if _booked({"payment_methods": _paid(["credit_card_9"])}) == {"payment_not_in_profile"}

test_denies_payment_before_the_profile_was_read if {
	steps := [read({}), _search]
	codes(steps, "book_reservation", _booking({"total_baggages": 0})) == {"payment_not_in_profile"}
}

test_denies_two_certificates_or_two_credit_cards if {
	_booked({"payment_methods": _paid(["certificate_1", "certificate_2"])}) == {"too_many_payments"}
	_booked({"payment_methods": _paid(["credit_card_1", "credit_card_2"])}) == {"too_many_payments"}
}

test_denies_a_flight_that_is_not_available if {
	_booked({"flights": [{"flight_number": "HAT2", "date": "2024-05-20"}]}) == {"flight_not_available"}
	_booked({"flights": [{"flight_number": "HAT1", "date": "2024-05-21"}]}) == {"flight_not_available"}
	_booked({"flights": []}) == {"flight_not_available"}
}

test_allows_a_flight_of_a_search_with_one_stop if {
	trip := [object.union(flight("HAT7", "JFK", "ORD", "available"), {"date": "2024-05-20"})]
	steps := [read_profile, found("search_onestop_flight", {"date": "2024-05-20"}, [trip])]
	codes(steps, "book_reservation", _booking({"flights": [{"flight_number": "HAT7", "date": "2024-05-20"}]})) == set()
}

test_denies_a_booking_with_missing_fields if {
	codes([read_profile], "book_reservation", {"user_id": "ann_1"}) == {
		"too_many_passengers", "payment_not_in_profile", "flight_not_available", "wrong_paid_bags",
	}
}
