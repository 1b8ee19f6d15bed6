"""Tools that a Chat Completions provider runs itself and that stand outside `tools`.

They are switched on by members of the body, by entries of a list, by what an SDK packs into `extra_body`, or by the model
that is asked. Whatever is switched on is a tool: policy sees it by name, and it can be taken away, but for a model's own.

| offered as | by |
|---|---|
| `web_search_options` … | that member of the body (OpenAI, xAI, Groq, Qwen, Azure and others) |
| `plugins.web` … | that entry of `plugins` (OpenRouter) or `connectors` (Mistral) |
| `mcp.<name>` | that entry of `mcp_servers` (gateways) |
| `extra_body` | anything of this kind, or tools, inside that member (gateways and Google unpack it) |
| `model.tools` | the name of a model that searches or runs code by itself |

Sources: the API references of these providers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from proxy.core import json_text
from proxy.core.json_text import Members, Splice
from proxy.core.messages import Malformed, Tool, ToolKind

from .options import options_of, server_tool
from .values import Json, dumped, text

SWITCHES = (
    "web_search_options",
    "search_parameters",
    "compound_custom",
    "search_settings",
    "enable_search",
    "enable_code_interpreter",
    "enable_enhancement",
    "web_search",
    "data_sources",
    "dataSources",
)
"""Members that switch tools on: OpenAI, xAI, Groq (two), Qwen (two), Hunyuan, Baidu, Azure (two)."""
_SERVERS = "mcp_servers"
LISTS = ("plugins", "connectors", _SERVERS)
"""Members that hold one tool an entry."""
MODEL_TOOLS = "model.tools"
"""What stands for the tools of a model."""
_PACKED = "extra_body"
_IN_PACKED = frozenset({*SWITCHES, *LISTS, "tools", "functions", "cached_content", "cachedContent"})
_PACKED_DEPTH = 4
_OWN_TOOLS = re.compile(
    r"(?:.*/)?(?:compound|sonar)(?:-.*)?"  # Groq; Perplexity
    r"|.*-search-(?:preview|api)(?:-.*)?|.*-deep-research(?:-.*)?"  # OpenAI
    r"|.*-online|.*:online(?:[:].*)?",  # Perplexity, formerly; OpenRouter
    re.IGNORECASE | re.DOTALL,
)


def switched_on(request: Json) -> Iterator[Tool]:
    """The tools that are on, in the order of the table above."""
    for key in (*SWITCHES, *LISTS):
        value = request.get(key)
        if key in LISTS and isinstance(value, list):
            yield from (_entry_tool(key, entry) for entry in value if _is_on(entry))
        elif _is_on(value):
            yield _tool(key, value)
    packed = request.get(_PACKED)
    if _packs_tools(packed):
        yield _tool(_PACKED, packed)
    for model in _models(request):
        if _OWN_TOOLS.fullmatch(model):
            yield Tool(MODEL_TOOLS, ToolKind.HOSTED, options={"model": model})


def without(body: bytes, top: Members, request: Json, keep: Collection[str]) -> tuple[set[str], list[Splice]]:
    """Members to drop, and splices in those that stay, so that only these tools are on. Raises Malformed where it is the
    model that brings them: a model's name is not changed."""
    offered = {tool.name for tool in switched_on(request)}
    if MODEL_TOOLS in offered and MODEL_TOOLS not in keep:
        raise Malformed(
            "model: this model searches the web or runs code by itself, which is not allowed here; ask for another one"
        )
    drop = {key for key in (*SWITCHES, *LISTS, _PACKED) if key in offered and key not in keep}
    splices: list[Splice] = []
    for key in LISTS:
        entries = request.get(key)
        if not isinstance(entries, list):
            continue
        gone = {
            at for at, entry in enumerate(entries) if _is_on(entry) and _entry_name(key, entry) not in keep
        }
        if gone and len(gone) == len(entries):
            drop.add(key)
        elif gone:
            splices += json_text.array_edit(json_text.elements(body, top.values[key].start), drop=gone)
    return drop, splices


def _tool(name: str, value: object) -> Tool:
    options = options_of(value if isinstance(value, dict) else {"value": value})
    return Tool(name, ToolKind.HOSTED, size=len(dumped(value)), options=options)


def _entry_tool(key: str, entry: object) -> Tool:
    tool = _tool(_entry_name(key, entry), entry)
    if key != _SERVERS or not isinstance(entry, dict):
        return tool
    url = text(entry.get("url")) or text(entry.get("server_url"))
    return replace(tool, options={**(tool.options or {}), "server_url": url})


def _entry_name(key: str, entry: object) -> str:
    """The plugin's own name behind that of the list; no function's name can hold a dot."""
    members = ("name", "server_label", "id") if key == _SERVERS else ("id", "name", "type")
    named = next(filter(None, map(entry.get, members)), "") if isinstance(entry, dict) else entry
    return server_tool(text(named)) if key == _SERVERS else f"{key}.{text(named)}"


def _is_on(value: object) -> bool:
    """Whatever is there is on, unless it says that it is off."""
    if isinstance(value, dict):
        says = (value.get("enabled"), value.get("enable"))
        return not (any(said is False for said in says) or value.get("mode") == "off")
    return not (value is None or value is False or value in ([], ""))


def _packs_tools(value: object, depth: int = 0) -> bool:
    if not isinstance(value, dict):
        return False
    if any(key in _IN_PACKED and _is_on(inner) for key, inner in value.items()):
        return True
    if depth >= _PACKED_DEPTH:
        return bool(value)
    return any(_packs_tools(inner, depth + 1) for inner in value.values())


def _models(request: Json) -> Iterator[str]:
    """The model, and those that a router may fall back on."""
    yield text(request.get("model"))
    others = request.get("models")
    yield from (text(model) for model in others) if isinstance(others, list) else ()
