"""A content with another text in it."""

import json

import pytest

from proxy.core.json_text import Span
from proxy.dialects.texts import content_with


def replaced(content: object, text: str, *, keep_empty: bool = False) -> object:
    body = json.dumps(content).encode()
    made = content_with(
        body,
        Span(0, len(body)),
        text,
        lambda part: isinstance(part, dict) and part.get("type") == "text",
        lambda said: json.dumps({"type": "text", "text": said}).encode(),
        keep_empty=keep_empty,
    )
    return json.loads(made)


TEXT, PICTURE = {"type": "text", "text": "old"}, {"type": "image", "url": "x"}
NEW = {"type": "text", "text": "new"}


@pytest.mark.parametrize(
    ("content", "made"),
    [
        ("old", "new"),
        ([TEXT, TEXT], [NEW]),
        ([PICTURE, TEXT, PICTURE, TEXT], [PICTURE, NEW, PICTURE]),
        ([PICTURE], [NEW, PICTURE]),
        ([], [NEW]),
    ],
)
def test_the_text_gives_way_and_the_rest_stays_in_order(content: object, made: object) -> None:
    """B5: pictures in a result stay."""
    assert replaced(content, "new") == made


def test_a_list_without_text_has_no_empty_part() -> None:
    assert replaced([TEXT, PICTURE], "") == [PICTURE]
    assert replaced([TEXT], "") == []
    assert replaced([TEXT], "", keep_empty=True) == [{"type": "text", "text": ""}]
