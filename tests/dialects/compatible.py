"""Answers as providers write them that call themselves compatible with Chat Completions: each with the oddities of its own
that were seen, streamed and whole, and what they say. Written by hand, with made-up content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from proxy.core.messages import Usage
from tests.dialects.chat_agent import DONE, chunk, ending, opening, piece, pieces, said, sse, usage

Json = dict[str, Any]
USED = {"prompt_tokens": 20, "completion_tokens": 6, "total_tokens": 26}
SPENT = Usage(20, 6)
FOUR, NINE = '{"id": 4}', '{"id": 9}'


@dataclass(frozen=True)
class Provider:
    """One provider's way of saying something."""

    stream: bytes
    whole: Json
    calls: tuple[tuple[str, str, str], ...]
    """Id (empty: none was sent), name, and arguments to the letter."""
    text: str = ""
    usage: Usage | None = SPENT
    finish: str = "tool_calls"
    whole_finish: str | None = None
    """Where it is another one when not streamed."""
    is_ended: bool = True
    """The stream ends with the provider's own mark."""


def entry(id_: str | None, name: str, arguments: Any = FOUR, **more: Any) -> Json:
    """A call of a whole answer. `...` leaves the arguments out."""
    function: Json = {"name": name} if arguments is ... else {"name": name, "arguments": arguments}
    head = {} if id_ is None else {"id": id_}
    return {**head, "type": "function", "function": function} | more


def whole(
    message: Json, finish: str | None = "tool_calls", /, *, choice: Json | None = None, **more: Any
) -> Json:
    """A whole answer with one choice."""
    head = {"id": "chatcmpl-k1", "object": "chat.completion", "created": 1790000000, "model": "maple-1"}
    said_first = {"role": "assistant", "content": None}
    one = {"index": 0, "message": said_first | message, "finish_reason": finish} | (choice or {})
    return head | {"choices": [one], "usage": USED} | more


READ = ("c1", "read_note", FOUR)
_NO_FILTER = {"hate": {"filtered": False, "severity": "safe"}}

COMPATIBLE = {
    "openai, a forced tool": Provider(
        opening()
        + pieces(piece(0, "", "c1", "read_note"))
        + pieces(piece(0, FOUR))
        + ending("stop")
        + usage(20, 6)
        + DONE,
        whole({"tool_calls": [entry("c1", "read_note")]}, "stop"),
        (READ,),
        finish="stop",
    ),
    "mistral": Provider(
        chunk({"role": "assistant", "content": ""})
        + chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]})
        + chunk({"content": [{"type": "text", "text": "Let me see."}]})
        + chunk(
            {
                "content": None,
                "tool_calls": [
                    {"id": "c1", "function": {"name": "read_note", "arguments": FOUR}},
                    {"id": "c2", "function": {"name": "read_note", "arguments": NINE}},
                ],
            },
            "tool_calls",
            usage=USED,
            p="abcdef",
        )
        + DONE,
        whole(
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                    {"type": "text", "text": "Let me see."},
                ],
                "tool_calls": [entry("c1", "read_note", index=0), entry("c2", "read_note", NINE, index=1)],
            }
        ),
        (READ, ("c2", "read_note", NINE)),
        "Let me see.",
    ),
    "qwen": Provider(
        chunk({"role": "assistant", "content": None, "tool_calls": [piece(0, "", "c1", "read_note")]})
        + pieces(piece(0, '{"id"', ""))
        + pieces(piece(0, ": 4}", "", ""))
        + pieces(piece(0, "", ""))
        + ending()
        + usage(20, 6)
        + DONE,
        whole({"content": "", "tool_calls": [entry("c1", "read_note", index=0)]}),
        (READ,),
    ),
    "an index that begins anywhere": Provider(
        opening()
        + pieces(piece(1, FOUR, "c1", "read_note"))
        + pieces(piece(4, NINE, "c2", "drop"))
        + ending()
        + usage(20, 6)
        + DONE,
        whole({"tool_calls": [entry("c1", "read_note", index=1), entry("c2", "drop", NINE, index=4)]}),
        (READ, ("c2", "drop", NINE)),
    ),
    "groq": Provider(
        chunk({"role": "assistant", "content": ""}, x_groq={"id": "req_1"})
        + chunk({"reasoning": "hm", "channel": "analysis"})
        + pieces(piece(0, FOUR, "c1", "read_note"))
        + chunk({}, "tool_calls", x_groq={"id": "req_1", "usage": USED})
        + DONE,
        whole({"reasoning": "hm", "tool_calls": [entry("c1", "read_note")]}, x_groq={"id": "req_1"}),
        (READ,),
    ),
    "xai": Provider(
        chunk({"role": "assistant", "reasoning_content": "hm"})
        + chunk({"role": "assistant", "content": "", "tool_calls": [piece(0, FOUR, "c1", "read_note")]})
        + ending()
        + usage(20, 6)
        + DONE,
        whole({"content": "", "reasoning_content": "hm", "tool_calls": [entry("c1", "read_note")]}),
        (READ,),
    ),
    "deepseek": Provider(
        chunk({"role": "assistant", "content": None, "reasoning_content": "hm"})
        + chunk({"content": "Let me see.", "reasoning_content": None})
        + pieces(piece(0, "", "c1", "read_note"))
        + pieces(piece(0, FOUR))
        + chunk(
            {"content": "", "reasoning_content": None},
            "tool_calls",
            usage={**USED, "prompt_cache_hit_tokens": 8},
        )
        + DONE,
        whole(
            {
                "content": "Let me see.",
                "reasoning_content": "hm",
                "tool_calls": [entry("c1", "read_note", index=0)],
            },
            usage={**USED, "prompt_cache_hit_tokens": 8},
        ),
        (READ,),
        "Let me see.",
        Usage(20, 6, 8),
    ),
    "databricks": Provider(
        chunk(
            {"role": "assistant", "content": "Let me "},
            usage={"prompt_tokens": 20, "completion_tokens": None},
        )
        + chunk(
            {"role": "assistant", "content": "see."}, usage={"prompt_tokens": 20, "completion_tokens": None}
        )
        + chunk(
            {"role": "assistant", "content": "", "tool_calls": [piece(0, "", "c1", "now")]},
            usage={"prompt_tokens": 20, "completion_tokens": None},
        )
        + chunk(
            {"role": "assistant", "content": "", "tool_calls": [piece(0, "")]}, usage={"prompt_tokens": 20}
        )
        + chunk({"role": "assistant", "content": ""}, "tool_calls", usage=USED)
        + DONE,
        whole({"content": "Let me see.", "tool_calls": [entry("c1", "now", "")]}),
        (("c1", "now", ""),),
        "Let me see.",
    ),
    "openrouter": Provider(
        b": OPENROUTER PROCESSING\n\n" * 2
        + chunk(
            {
                "role": "assistant",
                "content": "",
                "reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}],
            },
            provider="P",
        )
        + chunk(
            {"role": "assistant", "content": None, "tool_calls": [piece(0, None, "c1", "now")]}, provider="P"
        )
        + chunk({"role": "assistant", "content": ""}, "tool_calls", provider="P")
        + b": OPENROUTER PROCESSING\n\n"
        + chunk(
            {"role": "assistant", "content": ""}, "tool_calls", provider="P", usage={**USED, "cost": 0.0007}
        )
        + DONE,
        whole(
            {
                "reasoning": None,
                "reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}],
                "refusal": None,
                "tool_calls": [entry("c1", "now", ..., index=0)],
            },
            provider="P",
        ),
        (("c1", "now", ""),),
    ),
    "cohere": Provider(
        opening()
        + pieces(piece(0, None, "now_1", "now"))
        + pieces(piece(0, "null"))
        + chunk({}, "TOOL_CALL", usage=USED)
        + DONE,
        whole(
            {"tool_plan": "I ask for the time.", "tool_calls": [entry("now_1", "now", "null")]}, "TOOL_CALL"
        ),
        (("now_1", "now", "null"),),
        finish="TOOL_CALL",
    ),
    "google": Provider(
        chunk({"role": "assistant", "content": "", "extra_content": {"google": {"thought_signature": "S"}}})
        + pieces(piece(0, FOUR, "", "read_note") | {"extra_content": {"google": {"thought_signature": "T"}}})
        + chunk({"role": "assistant"}, "stop", usage=USED)
        + DONE,
        whole(
            {
                "extra_content": {"google": {"thought": True, "thought_signature": "S"}},
                "tool_calls": [entry("", "read_note", extra_content={"google": {"thought_signature": "T"}})],
            }
        ),
        (("", "read_note", FOUR),),
        finish="stop",
        whole_finish="tool_calls",
    ),
    "azure": Provider(
        sse(
            {
                "choices": [],
                "created": 0,
                "id": "",
                "model": "",
                "object": "",
                "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": _NO_FILTER}],
            }
        )
        + opening()
        + pieces(piece(0, "", "c1", "read_note"))
        + sse(
            {
                "id": "chatcmpl-k1",
                "model": "maple-1",
                "choices": [
                    {
                        "index": 0,
                        "delta": {"tool_calls": [piece(0, FOUR)]},
                        "content_filter_results": _NO_FILTER,
                    }
                ],
                "obfuscation": "xyz",
            }
        )
        + ending()
        + usage(20, 6)
        + DONE,
        whole(
            {"tool_calls": [entry("c1", "read_note")]},
            choice={"content_filter_results": _NO_FILTER},
            prompt_filter_results=[{"prompt_index": 0, "content_filter_results": _NO_FILTER}],
        ),
        (READ,),
    ),
    "snowflake": Provider(
        chunk(
            {
                "role": "assistant",
                "content": "",
                "refusal": "",
                "function_call": {"name": "", "arguments": ""},
                "tool_calls": [
                    piece(0, "", "c1", "read_note") | {"custom": {"name": "", "input": ""}},
                ],
            },
            "",
        )
        + chunk({"tool_calls": [piece(0, FOUR) | {"custom": {"name": "", "input": ""}}]}, "")
        + chunk({"content": ""}, "")
        + usage(20, 6)
        + DONE,
        whole(
            {
                "content": "",
                "refusal": "",
                "audio": {"data": "", "id": ""},
                "function_call": {"name": "", "arguments": ""},
                "tool_calls": [entry("c1", "read_note", custom={"name": "", "input": ""})],
            },
            "",
        ),
        (READ,),
        finish="",
    ),
    "huggingface": Provider(
        opening()
        + pieces(piece(0, FOUR, "c1", "read_note"))
        + chunk({"content": "", "name": None}, "tool_calls", usage=USED),
        whole(
            {"tool_calls": [entry("c1", "read_note")], "name": None},
            prompt=[],
            metadata={"weight_version": "1"},
        ),
        (READ,),
        is_ended=False,
    ),
    "ollama and gpustack": Provider(
        chunk({"role": "assistant", "content": "", "reasoning": "hm"})
        + chunk({"role": "assistant", "content": "", "tool_calls": [piece(0, FOUR, "call_1", "read_note")]})
        + chunk({"role": "assistant", "content": ""}, "tool_calls")
        + usage(20, 6)
        + DONE,
        whole({"content": "", "reasoning": "hm", "tool_calls": [entry("call_1", "read_note", index=0)]}),
        (("call_1", "read_note", FOUR),),
    ),
    "no calls, said in every way": Provider(
        chunk({"role": "assistant", "content": "Blue", "tool_calls": None, "function_call": None})
        + chunk({"content": ".", "tool_calls": []})
        + chunk(
            {"tool_calls": []}, "stop", usage=USED, citations=["https://a.example.test"], search_results=[]
        )
        + DONE,
        whole(
            {"content": "Blue.", "tool_calls": [], "function_call": None},
            "stop",
            citations=["https://a.example.test"],
        ),
        (),
        "Blue.",
        finish="stop",
    ),
    "the old functions": Provider(
        chunk({"role": "assistant", "content": None, "function_call": {"name": "read_note", "arguments": ""}})
        + chunk({"function_call": {"arguments": '{"id"'}})
        + chunk({"function_call": {"arguments": ": 4}"}})
        + ending("function_call")
        + usage(20, 6)
        + DONE,
        whole({"function_call": {"name": "read_note", "arguments": FOUR}}, "function_call"),
        (("", "read_note", FOUR),),
        finish="function_call",
    ),
    "no usage at all": Provider(
        opening() + said("Let me see.") + pieces(piece(0, FOUR, "c1", "read_note")) + ending() + DONE,
        whole({"content": "Let me see.", "tool_calls": [entry("c1", "read_note")]}, usage=None),
        (READ,),
        "Let me see.",
        None,
    ),
}
