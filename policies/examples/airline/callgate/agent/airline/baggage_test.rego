package callgate.agent.airline_test

_bags_of(steps, total, paid) := codes(steps, "update_reservation_baggages", {
	"reservation_id": "R1",
	"total_baggages": total,
	"nonfree_baggages": paid,
})

test_allows_free_bags_and_paid_ones_beyond_them if {
	_bags_of([read_profile, read({})], 4, 0) == set()
	_bags_of([read_profile, read({})], 5, 1) == set()
}

test_denies_too_few_and_too_many_paid_bags if {
	_bags_of([read_profile, read({})], 5, 0) == {"wrong_paid_bags"}
	_bags_of([read_profile, read({})], 4, 1) == {"wrong_paid_bags"}
}

test_denies_what_is_not_right_for_every_membership_before_the_profile_was_read if {
	_bags_of([read({})], 2, 0) == set()
	_bags_of([read({})], 4, 0) == {"wrong_paid_bags"}
}

test_allows_by_the_cabin_as_it_was_changed if {
	_bags_of([read_profile, read({})], 6, 0) == {"wrong_paid_bags"}
	_bags_of([read_profile, read({}), upgraded("business")], 6, 0) == set()
}

test_denies_to_remove_bags if _bags_of([read_profile, read({})], 0, 0) == {"bags_removed"}

test_denies_bags_where_a_number_is_missing if {
	codes([read_profile, read({})], "update_reservation_baggages", {"reservation_id": "R1"}) == {"wrong_paid_bags", "bags_removed"}
}
