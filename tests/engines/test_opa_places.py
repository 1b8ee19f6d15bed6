"""What is taken away from a server that several proxies share (over a real one: `test_opa.py`)."""

from proxy.engines.namespaces import Namespaced
from proxy.engines.opa_places import _unused

OWN = Namespaced("callgate_a", {"callgate_a/0": "", "callgate_a/entry": ""}, {})


def use(until: object, *policies: object) -> dict[str, object]:
    return {"until": until, "policies": list(policies)}


def test_a_copy_is_unused_when_its_last_user_leaves() -> None:
    assert _unused({"callgate_a": {"me": use(99)}}, 10, OWN, "me") == {"callgate_a": list(OWN.policies)}


def test_a_copy_is_kept_while_another_uses_it() -> None:
    said = {"callgate_a": {"me": use(99), "you": use(11)}, "callgate_b": {"you": use(11)}}
    assert _unused(said, 10, OWN, "me") == {}


def test_a_user_that_does_not_renew_counts_no_longer() -> None:
    said = {"callgate_a": {"me": use(99), "you": use(10)}, "callgate_b": {"you": use(9, "callgate_b/0")}}
    assert _unused(said, 10, OWN, "me") == {"callgate_a": list(OWN.policies), "callgate_b": ["callgate_b/0"]}


def test_nothing_of_others_is_taken_away() -> None:
    """Whatever stands there: only policies below a name of ours are removed."""
    said = {
        "other": {"x": use(0, "other/0")},
        "callgate_b": {"x": use("soon", "callgate_b/0", "main.rego", 7)},
    }
    assert _unused(said, 10, OWN, "me") == {"callgate_b": ["callgate_b/0"]}
    odds: list[object] = [None, [], {"callgate_b": []}, {"callgate_b": {"x": {"policies": 1}}}]
    assert not any(any(_unused(odd, 10, OWN, "me").values()) for odd in odds)
