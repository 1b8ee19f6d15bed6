package callgate.agent.airline_test

_due := {"flights": [{"flight_number": "HAT1", "date": "2024-05-15"}]}

_sent(steps, amount, said) := codes_when_said(steps, "send_certificate", {"user_id": "ann_1", "amount": amount}, said)

test_allows_the_amount_of_the_complaint if {
	_sent([read_profile, read(_due)], 200, "my flight was cancelled") == set()
	_sent([read_profile, read(_due)], 100, "my flight was delayed") == set()
}

test_denies_another_amount_and_no_complaint if {
	_sent([read_profile, read(_due)], 150, "my flight was delayed") == {"certificate_not_due"}
	_sent([read_profile, read(_due)], 200, "my flight was delayed") == {"certificate_not_due"}
	_sent([read_profile, read(_due)], 100, "give me something") == {"certificate_not_due"}
}

test_denies_a_flight_that_is_still_to_come if {
	_sent([read_profile, read({})], 100, "my flight was delayed") == {"certificate_not_due"}
}

test_allows_regular_members_who_are_insured_or_fly_business_only if {
	regular := found("get_user_details", {"user_id": "ann_1"}, {"membership": "regular"})
	_sent([regular, read(_due)], 100, "delayed") == {"certificate_not_due"}
	_sent([regular, read(object.union(_due, {"insurance": "yes"}))], 100, "delayed") == set()
	_sent([regular, read(object.union(_due, {"cabin": "business"}))], 100, "delayed") == set()
}

test_denies_a_certificate_where_something_is_missing if {
	_sent([read_profile], 100, "delayed") == {"certificate_not_due"}
	_sent([read(_due)], 100, "delayed") == {"certificate_not_due"}
	codes_when_said([read_profile, read(_due)], "send_certificate", {"user_id": "ann_1"}, "delayed") == {"certificate_not_due"}
}
