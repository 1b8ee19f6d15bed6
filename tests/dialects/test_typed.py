"""Members of a request, read with their types."""

import pytest

from proxy.core.messages import Malformed
from proxy.dialects.typed import flag, listed, number, typed, whole_object


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'{"a":1,"a":2}', b'{"a":{"b":1,"b":2}}', b"\xff"])
def test_what_is_no_single_object_is_malformed(body: bytes) -> None:
    """Readers differ about a key that occurs twice: nothing is guessed (C027)."""
    with pytest.raises(Malformed):
        whole_object(body)


def test_members_are_what_they_have_to_be() -> None:
    holder = whole_object(b'{"on":true,"list":[{}],"n":3.0,"text":"x","nothing":null}')
    assert (flag(holder, "on"), flag(holder, "nothing"), flag(holder, "gone")) == (True, False, False)
    assert (listed(holder, "list"), listed(holder, "gone")) == ([{}], [])
    assert (number(holder, "n", least=0), number(holder, "gone", least=0)) == (3, None)
    assert (typed(holder, "text", str, "text"), typed(holder, "gone", str, "text")) == ("x", None)


def test_other_types_are_said() -> None:
    holder = whole_object(b'{"on":"yes","list":[1],"n":-1,"text":{}}')
    with pytest.raises(Malformed, match="on has to be true or false"):
        flag(holder, "on")
    with pytest.raises(Malformed, match=r"list\[0\] has to be an object"):
        listed(holder, "list")
    with pytest.raises(Malformed, match="gone is missing"):
        listed(holder, "gone", needed=True)
    with pytest.raises(Malformed, match="n has to be a whole number from 0"):
        number(holder, "n", least=0)
    with pytest.raises(Malformed, match="text has to be text"):
        typed(holder, "text", str, "text")
