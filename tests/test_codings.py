"""Content codings, undone piece by piece and never guessed (C030)."""

import gzip
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]  # published without types
import pytest
import zstandard
from hypothesis import given, strategies as st

from proxy import codings


def raw_deflate(content: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-15)
    return deflate.compress(content) + deflate.flush()


CODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "X-GZip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "identity": bytes,
    "": bytes,
    "gzip, br": lambda content: bytes(brotli.compress(gzip.compress(content))),
}
EVERY = pytest.mark.parametrize("coding", CODERS)
COMPRESSING = pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, br"])


def fed(coding: str, content: bytes, size: int) -> list[bytes]:
    undo = codings.decoder(coding)
    assert undo
    pieces = [
        piece for start in range(0, len(content), size) for piece in undo.feed(content[start : start + size])
    ]
    undo.end()
    return pieces


@EVERY
@given(content=st.binary(max_size=2000))
def test_what_was_compressed_comes_out_again(coding: str, content: bytes) -> None:
    assert codings.decoded(CODERS[coding](content), coding, 1 << 20) == content


@COMPRESSING
@given(content=st.binary(max_size=500), size=st.integers(1, 50))
def test_it_does_not_matter_where_the_network_cuts(coding: str, content: bytes, size: int) -> None:
    assert b"".join(fed(coding, CODERS[coding](content), size)) == content


@given(content=st.binary(min_size=1, max_size=500))
def test_deflate_without_its_wrapper_is_understood(content: bytes) -> None:
    assert codings.decoded(raw_deflate(content), "deflate", 1 << 20) == content


@COMPRESSING
def test_a_bomb_comes_in_small_pieces_and_is_met_by_the_limit(coding: str) -> None:
    bomb = CODERS[coding](bytes(50_000_000))

    assert max(map(len, fed(coding, bomb, 1 << 20))) <= codings.PIECE
    with pytest.raises(codings.TooLong):
        codings.decoded(bomb, coding, 1 << 20)


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_members_in_a_row_are_one_content(coding: str) -> None:
    double = CODERS[coding](b"one ") + CODERS[coding](b"two")

    assert codings.decoded(double, coding, 100) == b"one two"
    assert b"".join(fed(coding, double, 1)) == b"one two"


@COMPRESSING
def test_content_that_ends_too_early_is_an_error(coding: str) -> None:
    whole = CODERS[coding](b"a content of some length that matters")

    for length in range(1, len(whole)):
        with pytest.raises(codings.Undecodable):
            codings.decoded(whole[:length], coding, 1 << 20)


@COMPRESSING
def test_rubbish_is_an_error(coding: str) -> None:
    for rubbish in (b"\x01\x02\x03", CODERS[coding](b"x") + b"\xffrubbish"):
        with pytest.raises(codings.Undecodable):
            codings.decoded(rubbish, coding, 1 << 20)


@COMPRESSING
def test_no_content_is_no_error(coding: str) -> None:
    assert codings.decoded(b"", coding, 10) == b""


@pytest.mark.parametrize("coding", ["x-unknown", "gzip, x-unknown", "gzip, gzip, gzip", "compress"])
def test_a_coding_that_is_not_known_is_refused(coding: str) -> None:
    with pytest.raises(codings.Undecodable, match="not known"):
        codings.decoder(coding)


def test_only_what_can_be_decoded_is_asked_for() -> None:
    assert all(codings.decoder(name) for name in codings.ACCEPTED.split(", "))
