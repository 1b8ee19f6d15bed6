"""The path of a request about an answer that the provider keeps."""

import pytest

from proxy.errors import ClientFault
from proxy.kept_paths import renamed, unstreamed


@pytest.mark.parametrize(
    ("shown", "actual", "path"),
    [
        ("resp_1", "resp_2", "/v1/responses/resp_2/input_items?after=resp_1"),
        ("resp_1", "../a?b#", "/v1/responses/..%2Fa%3Fb%23/input_items?after=resp_1"),
        ("resp_1", "resp_1", "/v1/responses/resp_1/input_items?after=resp_1"),
    ],
)
def test_the_provider_s_own_id_stands_where_the_agent_s_stood(shown: str, actual: str, path: str) -> None:
    """C11: whatever the provider calls it, it stays one segment."""
    assert renamed("/v1/responses/resp_1/input_items?after=resp_1", shown, actual) == path


def test_an_id_is_found_however_it_was_encoded() -> None:
    assert renamed("/v1/responses/a%3D", "a=", "b=") == "/v1/responses/b%3D"


@pytest.mark.parametrize(
    "query", ["stream=true", "stream=1", "STREAM=True", "a=b&stre%61m=yes", "stream=0&stream=true"]
)
def test_a_kept_answer_is_not_streamed(query: str) -> None:
    """C6: nobody could judge it in pieces."""
    with pytest.raises(ClientFault, match="fetched as a whole") as refused:
        unstreamed(f"/v1/responses/resp_1?{query}", "stream")
    assert refused.value.status == 400


@pytest.mark.parametrize("query", ["", "?stream=false", "?stream=", "?streams=true", "?include=stream"])
def test_anything_else_may_be_asked_for(query: str) -> None:
    unstreamed(f"/v1/responses/resp_1{query}", "stream")
    unstreamed("/v1/responses/resp_1?stream=true", "")
