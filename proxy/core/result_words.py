"""The words by which results say what they are: field names of envelopes, and patterns of texts.

Patterns are for text in lower case, white space folded, `_` and `-` as spaces. They are anchored or bounded so
that each runs in time linear in a text of a few hundred characters.
"""

from __future__ import annotations

import re

_NAME = re.compile(r"\w+")


def _names(text: str) -> tuple[str, ...]:
    return tuple(_NAME.findall(text))


# --- fields of JSON objects -------------------------------------------------------------------------------------

EMPTY_WORDS = frozenset({"", "null", "none", "undefined"})
NO_ERROR = frozenset({"", "none", "null", "no", "no error", "ok", "false", "0", "success"})
"""Values of an error field that report none."""
ERROR_FIELDS = _names("error errors exception fault")
SUCCESS_FIELDS = _names("success ok succeeded found")
ERROR_FLAGS = _names("isError is_error failed")
NUMBER_FIELDS = _names("status_code statusCode http_status httpStatus http_code status")
"""Where an HTTP status may stand whatever else the object holds."""
REASON_FIELDS = _names("code type status reason message msg detail details title description")
PAYLOAD_FIELDS = frozenset(
    _names(
        "content contents data docs documents edges entries entities entry events files hits item items list match"
        " matches nodes objects output payload records record response result results rows row value values"
    )
)
"""Where an object keeps what was asked for."""
SIZE_FIELDS = frozenset(
    _names(
        "count cursor found has_more hasMore hitsCount limit max_score message msg next next_cursor nextCursor"
        " next_page next_page_token nextPageToken num_results numResults object offset ok page page_size pageSize"
        " pages per_page prev previous q query reason relation size status success took total total_count"
        " total_pages total_results totalCount totalResults type"
    )
)
"""What stands beside the payload and is none."""
ENVELOPE_FIELDS = (
    frozenset(ERROR_FIELDS + SUCCESS_FIELDS + ERROR_FLAGS + NUMBER_FIELDS + REASON_FIELDS)
    | SIZE_FIELDS
    | frozenset(
        _names("data hint instance path request_id requestId result retry_after retryAfter retryable")
    )
    | frozenset(_names("timestamp trace_id traceId"))
)
"""An object of nothing but these speaks about the call, not about the world."""

# --- words in the text of an error --------------------------------------------------------------------------------

FORBIDDEN = re.compile(
    r"\b(forbidden|unauthori[sz]ed|unauthenticated|(access|permission|privileges?)( was| is|s)? denied"
    r"|not (authori[sz]ed|permitted)|no permission|(insufficient|missing) (permission|privilege|scope|right)s?)\b"
)
PASSING = re.compile(
    r"\b(time ?out|timed out|temporar(il)?y|(service|server|system|database|db|upstream|backend) (is )?"
    r"(unavailable|down|busy|overloaded)|unavailable$|rate limit(ed)?|too many requests|overloaded"
    r"|throttl(ed|ing)|try again later|deadline exceeded|connection (reset|refused|aborted|error)"
    r"|econn(reset|refused|aborted)|internal server error|bad gateway)\b"
)
NOT_FOUND = re.compile(
    r"\b(not ?found|no such|does ?n[o']?t exist|do not exist|unknown (id|key|object|record))\b"
)
NUMBER_IN_TEXT = re.compile(
    r"\b(?:http|status|code|error)(?: status| code| error){0,3}[\" :=/(]*(?:\d\.\d )?([1-5]\d\d)\b"
)
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")

# --- how a text begins that is no content -------------------------------------------------------------------------

ERROR_START = re.compile(
    r"(?:an? |the )?(?:[a-z_.]{1,60}[ .])?(?:"
    r"(?:error|exception|failure|failed)(?: \d+| \(\d+\)| code \d+)?(?::|\.|!|$| -)"
    r"|[a-z_.]{0,60}(?:error|exception): "
    r"|error (?:executing|calling|running|invoking|while|in tool|occurred|fetching|reading)\b"
    r"|failed (?:to|with)\b"
    r"|(?:tool|call|tool call|execution|request|command) failed\b"
    r"|traceback \(most recent call last\)"
    r"|fatal: )"
    r"|an (?:unexpected )?error (?:has )?occurr?ed\b"
    r"|http (?:status |error )?[45]\d\d\b"
)
FORBIDDEN_START = re.compile(
    r"(?:40[13] )?(?:forbidden|unauthori[sz]ed|access denied|permission denied)(?:[.:!,]|$| to\b| for\b)"
)
PASSING_START = re.compile(
    r"(?:the )?(?:(?:request|connection|query|operation|tool|call) )?"
    r"(?:timed out|timeout(?=$|[.!]| while| after))"
    r"|(?:50[234] )?(?:service (?:is )?(?:temporarily )?unavailable|bad gateway|gateway timeout)(?:[.:!,]|$)"
    r"|(?:429 )?(?:too many requests|rate limit exceeded)"
    r"|temporarily unavailable"
)
NOT_FOUND_START = re.compile(
    r"(?:404 )?not found(?:[.:!,]|$)"
    r"|no (?:[a-z-]{1,30} ){0,3}(?:was |were )?(?:found|available)\b"
    r"|no (?:results?|match(?:es)?|hits|records?|rows|entries|items|documents?)(?:[.:!,]|$| for\b| match)"
    r"|(?:0|zero) (?:results?|match(?:es)?|hits|records|rows|entries|items|documents)\b"
    r"|nothing (?:was )?found\b|found (?:0|no) "
)
