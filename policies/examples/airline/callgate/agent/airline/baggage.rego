# Checked bags (rules 3 and 5 of the airline).
package callgate.agent.airline

# METADATA
# title: Bags are paid as the membership says
# description: >-
#   Bags beyond the free ones are paid, free ones are not. As long as the profile was not read, the number has to be
#   right for every membership.
# custom:
#   code: wrong_paid_bags
deny contains {
	"code": "wrong_paid_bags",
	"call": order.call.index,
	"message": "The number of paid bags (nonfree_baggages) is wrong. Read the profile: free bags per passenger depend on membership and cabin, and only bags beyond them are paid.",
} if {
	some order in _bag_orders
	not _bags_are_right(order)
}

# METADATA
# title: Bags are added, not removed
# custom:
#   code: bags_removed
deny contains {
	"code": "bags_removed",
	"call": each.call.index,
	"message": "Checked bags can be added, not removed. Tell the customer.",
} if {
	some each in about_known
	each.call.name == "update_reservation_baggages"
	not _has_all_bags(each)
}

_bag_orders contains {"call": call, "trip": call.arguments} if {
	some call in input.calls
	call.name == "book_reservation"
}

_bag_orders contains {"call": each.call, "trip": each.reservation} if {
	some each in about_known
	each.call.name == "update_reservation_baggages"
}

_bags_are_right(order) if {
	is_number(order.call.arguments.total_baggages)
	every membership in memberships {
		free := values.free_bags[membership][order.trip.cabin] * size(order.trip.passengers)
		order.call.arguments.nonfree_baggages == max([0, order.call.arguments.total_baggages - free])
	}
}

_has_all_bags(each) if {
	is_number(each.call.arguments.total_baggages)
	each.call.arguments.total_baggages >= each.reservation.total_baggages
}
