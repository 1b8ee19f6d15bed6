package callgate.agent.airline_test

_bags := {"reservation_id": "R1", "total_baggages": 2, "nonfree_baggages": 0}

test_allows_a_reservation_of_the_customer_that_was_read if codes([read({}), read_profile], "update_reservation_baggages", _bags) == set()

test_denies_a_reservation_that_was_not_read if codes([read_profile], "update_reservation_baggages", _bags) == {"reservation_not_read"}

test_denies_a_reservation_of_somebody_else if {
	steps := [read_profile, read({"user_id": "bob_2"})]
	codes(steps, "cancel_reservation", {"reservation_id": "R1"}) == {"foreign_reservation"}
}

test_denies_a_reservation_of_somebody_whom_the_user_did_not_name if {
	codes_of(question([read({})], "cancel_reservation", {"reservation_id": "R1"}, "cancel it")) == {"foreign_reservation"}
}

test_denies_where_a_field_is_missing if {
	codes([read({})], "cancel_reservation", {}) == {"reservation_not_read"}
	codes([read({"user_id": null})], "cancel_reservation", {"reservation_id": "R1"}) == {"foreign_reservation"}
	nothing := found("get_reservation_details", {"reservation_id": "R1"}, {"reservation_id": "R1"})
	codes([nothing], "cancel_reservation", {"reservation_id": "R1"}) == {"reservation_not_read"}
	codes([read_profile], "send_certificate", {}) == {"foreign_profile", "certificate_not_due"}
}

test_denies_the_profile_of_a_second_customer if {
	codes([read_profile], "get_user_details", {"user_id": "bob_2"}) == {"foreign_profile"}
	codes([read_profile], "get_user_details", {"user_id": "ann_1"}) == set()
	codes([], "get_user_details", {"user_id": "bob_2"}) == set()
}
