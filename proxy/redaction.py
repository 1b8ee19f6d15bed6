"""Secrets taken out of what is written down: arguments, results, captured messages, log lines.

Two signs give a secret away: the key it stands under (`password`, `api_key`, …) and its own look (bearer tokens,
provider keys, private keys). Redaction is best effort by nature: what must never be written is not captured at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from .printable import clipped

REDACTED = "[redacted]"
SUMMARY_LENGTH = 120
"""Characters of an argument or result summary (B4)."""
READ_AT_MOST = 16_384
"""Characters looked at; the rest of a longer text is left out, and that is said."""

DEFAULT_KEYS = (
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "secrets",
    "token",
    "authorization",
    "credential",
    "credentials",
    "api_key",
    "apikey",
    "access_key",
    "private_key",
    "signing_key",
    "cookie",
    "session_key",
    "otp",
    "pin",
    "cvv",
)

# Each alternative is linear: bounded or possessive repetition, no overlap.
_PREFIXES: tuple[str, ...] = (
    *("sk", "pk", "rk", "xai", "gsk", "hf", "glpat", "npm", "pypi"),
    *("ghp", "gho", "ghs", "ghu", "github_pat"),
    *("xoxa", "xoxb", "xoxp", "xoxr", "xoxs"),
)
_LOOKS_SECRET = re.compile(
    r"\b(?:bearer|basic)\s{1,4}[\w.~+/=-]{8,}+"
    rf"|\b(?:{'|'.join(_PREFIXES)})[-_][\w-]{{12,}}+"
    r"|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}+"
    r"|\beyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]*+"
    r"|-----BEGIN [A-Z ]{0,24}PRIVATE KEY-----[^-]*+(?:-----END [A-Z ]{0,24}PRIVATE KEY-----)?",
    re.IGNORECASE,
)
# Searching for these first is ten times as fast as the expression, and mostly there is none.
_SIGNS = (
    "bearer",
    "basic",
    "akia",
    "aiza",
    "eyj",
    "private key-",
    *(f"{word}{mark}" for word in _PREFIXES for mark in "-_"),
)
_IN_ADDRESS = re.compile(r"(://[^/\s:@]{0,128}:)[^/\s@]{1,256}(?=@)")
_E_MAIL = re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}\b")
_CARD = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-])")
_WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_ESCAPED_ASCII = re.compile(r"\\+u00([2-7][0-9a-fA-F])")
# What follows a key in JSON, in JSON inside a JSON string, in a form or in a header.
_VALUE = (
    r"""((?:\\{0,7}["'])?\s{0,8}[:=]\s{0,8})"""
    r"""(?:\\{1,7}"(?:(?!\\{1,7}")[\s\S])*+|"(?:[^"\\]|\\.)*+|'(?:[^'\\]|\\.)*+"""
    r"""|[{\[][\s\S]*+|(?:bearer|basic)\s{1,4}[^\s,;"'\\]++|[^\s,;&"'\\)}\]]++)"""
)


class Redactor:
    """Redacts by key and by look. `keys` are words or joined words; case, `_`, `-` and camelCase make no difference.

    A key is secret if it ends with one of them: `db_password`, `X-Api-Key`, `accessToken`; not `max_tokens`. With a
    `*`, which stands for anything, it has to fit as a whole: `*token*` takes `max_tokens` too.
    """

    def __init__(
        self, keys: Sequence[str] = DEFAULT_KEYS, *, e_mails: bool = False, cards: bool = False
    ) -> None:
        patterns = [
            _Pattern(key) for key in sorted(set(keys), key=lambda key: (-len(key), key)) if _words(key)
        ]
        whole = "|".join(pattern.whole for pattern in patterns) or r"(?!)"
        found = "|".join(pattern.found for pattern in patterns) or r"(?!)"
        self._key = re.compile(rf"(?:{whole})\Z", re.IGNORECASE)
        self._pair = re.compile(rf"((?:{found})){_VALUE}", re.IGNORECASE)
        self._signs = tuple({pattern.sign for pattern in patterns})
        self._e_mails = e_mails
        self._cards = cards

    def is_secret_key(self, key: str) -> bool:
        """Whether what stands under this key is a secret."""
        return self._key.match(_words(key)) is not None

    def text(self, text: str) -> str:
        """Free text without its secrets; at most `READ_AT_MOST` characters of it."""
        text = _read(text)
        if "\\u00" in text:  # a key may be spelled with escapes
            text = _ESCAPED_ASCII.sub(lambda found: chr(int(found.group(1), 16)), text)
        lower = text.lower()
        if any(sign in lower for sign in self._signs):
            text = self._pair.sub(rf"\1\2{REDACTED}", text)
        if any(sign in lower for sign in _SIGNS):
            text = _LOOKS_SECRET.sub(REDACTED, text)
        if "://" in text:
            text = _IN_ADDRESS.sub(rf"\1{REDACTED}", text)
        if self._e_mails:
            text = _E_MAIL.sub(REDACTED, text)
        return _CARD.sub(_card, text) if self._cards else text

    def json(self, text: str) -> str:
        """JSON, compact and without its secrets; what is no whole JSON is treated as free text."""
        if text.lstrip()[:1] in {"{", "["} and len(text) <= READ_AT_MOST:
            try:
                return json.dumps(self.value(json.loads(text)), ensure_ascii=False, separators=(",", ":"))
            except (ValueError, RecursionError):
                pass
        return self.text(text)

    def value(self, value: object) -> object:
        """A decoded JSON value without its secrets. Raises RecursionError where it is too deep."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                key: REDACTED if self.is_secret_key(key) else self.value(inner)
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [self.value(inner) for inner in value]
        return self.text(str(value)) if self._cards and isinstance(value, int) and value > 10**11 else value

    def summary(self, text: str, limit: int = SUMMARY_LENGTH) -> str:
        """The beginning of arguments or of a result, redacted before it is cut (B4)."""
        return clipped(self.json(text), limit)


class _Pattern:
    """A key pattern as two expressions: for whole keys, and for keys found in free text."""

    def __init__(self, key: str) -> None:
        self.sign = max(_words(key.replace("*", " ")).split("_"), key=len)
        """What has to be there, in lower case, before the expressions are worth trying."""
        parts = [re.escape(_words(part)).replace("_", "[_ .-]?") for part in key.split("*")]
        if len(parts) == 1:
            self.whole = rf".*?{parts[0]}\d*"
            self.found = rf"{parts[0]}\d{{0,4}}"
        else:
            self.whole = ".*?".join(parts)
            self.found = r"[\w.-]{0,32}?".join(parts[1:] if not parts[0] and parts[1] else parts)
            self.found = self.found.removesuffix("?")  # at the very end nothing would be taken


def _read(text: str) -> str:
    left_out = len(text) - READ_AT_MOST
    return text if left_out <= 0 else f"{text[:READ_AT_MOST]} [{left_out} more characters]"


def _words(key: str) -> str:
    return "_".join(_parts(key)).lower()


def _parts(key: str) -> Iterable[str]:
    return (part for part in _WORD_BREAK.split(key[-128:]) if part)


def _card(found: re.Match[str]) -> str:
    digits = [int(digit) for digit in found.group() if digit.isdigit()][::-1]
    total = sum(digits[::2]) + sum(sum(divmod(digit * 2, 10)) for digit in digits[1::2])
    return found.group() if total % 10 else REDACTED
