"""What is taken away from a server that several proxies share (over a real one: `test_opa.py`)."""

from proxy.engines.opa_places import _unused

OWN, OTHER = f"callgate_{'a' * 16}", f"callgate_{'b' * 16}"


def use(until: object) -> dict[str, object]:
    return {"until": until}


def test_a_copy_is_unused_when_its_last_user_leaves() -> None:
    assert _unused({OWN: {"me": use(99)}}, 10, OWN, "me") == [OWN]


def test_a_copy_is_kept_while_another_uses_it() -> None:
    said = {OWN: {"me": use(99), "you": use(11)}, OTHER: {"you": use(11)}}
    assert _unused(said, 10, OWN, "me") == []


def test_a_user_that_does_not_renew_counts_no_longer() -> None:
    said = {OWN: {"me": use(99), "you": use(10)}, OTHER: {"you": use(9)}}
    assert _unused(said, 10, OWN, "me") == [OWN, OTHER]


def test_nothing_of_others_is_taken_away() -> None:
    """Whatever stands there: only what has a name of ours is removed."""
    theirs = {name: {"x": use(0)} for name in ("policies", "callgate_uses", "callgate_x", f"{OTHER}/x")}
    assert _unused(theirs, 10, OWN, "me") == []
    odds: list[object] = [None, [], {OTHER: []}, {OTHER: {}}]
    assert [_unused(odd, 10, OWN, "me") for odd in odds] == [[]] * 4
    assert _unused({OTHER: {"x": use("soon"), "y": None}}, 10, OWN, "me") == [OTHER]
