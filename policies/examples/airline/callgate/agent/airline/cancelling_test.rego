package callgate.agent.airline_test

_cancelled(change, said) := codes_when_said([read(change)], "cancel_reservation", {"reservation_id": "R1"}, said)

test_allows_to_cancel_within_a_day_of_booking if {
	_cancelled({"created_at": "2024-05-14T15:00:00"}, "changed my mind") == set()
	_cancelled({"created_at": "2024-05-14T14:59:59"}, "changed my mind") == {"not_cancellable"}
}

test_allows_to_cancel_business_and_denies_economy if {
	_cancelled({"cabin": "business"}, "changed my mind") == set()
	_cancelled({}, "changed my mind") == {"not_cancellable"}
}

test_allows_what_is_insured_for_health_or_weather_only if {
	_cancelled({"insurance": "yes"}, "i am ill") == set()
	_cancelled({"insurance": "yes"}, "a hurricane is coming") == set()
	_cancelled({"insurance": "yes"}, "changed my will") == {"not_cancellable"}
	_cancelled({}, "i am ill") == {"not_cancellable"}
}

test_allows_what_the_airline_has_cancelled_and_denies_what_the_user_says_it_has if {
	shown := searched("2024-05-20", [flight("HAT1", "JFK", "SFO", "cancelled")])
	codes([read({}), shown], "cancel_reservation", {"reservation_id": "R1"}) == set()
	_cancelled({}, "the airline cancelled my flight") == {"not_cancellable"}
}

test_denies_what_was_flown if {
	flown := {"cabin": "business", "flights": [{"flight_number": "HAT1", "date": "2024-05-14"}]}
	today := {"cabin": "business", "flights": [{"flight_number": "HAT1", "date": "2024-05-15"}]}
	_cancelled(flown, "please") == {"already_flown"}
	_cancelled(today, "please") == set()
}

test_denies_to_cancel_where_a_field_is_missing if {
	_cancelled({"flights": [], "created_at": null}, "please") == {"already_flown", "not_cancellable"}
	_cancelled({"flights": [{"flight_number": "HAT1"}], "cabin": "business"}, "please") == {"already_flown"}
}
