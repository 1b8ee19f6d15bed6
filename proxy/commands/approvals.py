"""`callgate approvals`: a client of the admin port's routes."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import aiohttp
import typer

from proxy.printable import clipped, escaped
from proxy.terminal import FOUND_WRONG, WRONG_USAGE, ConfigFile, out, run_loop, settings_from, stop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.settings import Settings

SECONDS = 10.0
"""The longest that the admin port may take."""
ARGUMENTS_SHOWN = 120
FOREIGN = "this is no admin port of Callgate"
_OK = 200


class Act(StrEnum):
    """What to do."""

    LIST = "list"
    SHOW = "show"
    APPROVE = "approve"
    REJECT = "reject"


class _Refused(Exception):
    """The admin port says no, or nothing; the text says why."""


def approvals(  # noqa: PLR0913, PLR0917 - each is an option
    act: Annotated[Act, typer.Argument(help="list, show, approve or reject.")],
    approval: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Which one; all but list need it.")
    ] = None,
    by: Annotated[str | None, typer.Option(help="Who decides: needed to approve or reject.")] = None,
    reason: Annotated[str, typer.Option(help="Why; the model is told the reason of a rejection.")] = "",
    every: Annotated[bool, typer.Option("--all", help="List decided ones too.")] = False,
    url: Annotated[
        str | None, typer.Option(help="Address of the admin port. Default: as in the settings.")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """List calls that wait for a person, look at one, approve it or reject it, in a running `callgate serve`.

    The token is `admin.token` of the settings, best given as the variable CALLGATE_ADMIN__TOKEN.
    """
    settings = settings_from(config)
    problems = list(_misused(act, approval, by, settings))
    if problems:
        stop(problems, WRONG_USAGE)
    base = (url or _address(settings)).rstrip("/")
    token = settings.admin.token.get_secret_value()
    try:
        match act:
            case Act.LIST:
                status = "" if every else "?status=pending"
                _print_list(run_loop(_asked(base, token, f"/approvals{status}")), every=every)
            case Act.SHOW:
                _print_one(run_loop(_asked(base, token, f"/approvals/{approval}")))
            case _:
                said = {"by": by or "", "reason": reason}
                answer = run_loop(_asked(base, token, f"/approvals/{approval}/{act.value}", said))
                out.print(_plain(f"{answer['id']} is {answer['status']}"), markup=False)
    except _Refused as refused:
        stop([str(refused)], FOUND_WRONG)
    except (KeyError, TypeError):
        stop([f"{base}: {FOREIGN}"], FOUND_WRONG)


def _misused(act: Act, approval: str | None, by: str | None, settings: Settings) -> list[str]:
    problems = []
    if act is not Act.LIST and not (approval or "").replace("_", "").isalnum():
        problems.append(f"callgate approvals {act.value} needs the id of an approval, as `list` shows it")
    if act in {Act.APPROVE, Act.REJECT} and not (by or "").strip():
        problems.append(f"callgate approvals {act.value} needs --by: who decides?")
    if not settings.admin.token.get_secret_value():
        problems.append("admin.token is not set: set it for `callgate serve` and here")
    return problems


def _address(settings: Settings) -> str:
    host = settings.admin.host
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - where to find who listens everywhere
    return f"http://[{host}]:{settings.admin.port}" if ":" in host else f"http://{host}:{settings.admin.port}"


async def _asked(base: str, token: str, path: str, said: Mapping[str, str] | None = None) -> Any:
    """The decoded answer to this, posted where there is something to say. Raises _Refused."""
    method = "GET" if said is None else "POST"
    headers = {"authorization": f"Bearer {token}"}
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as http,
            http.request(method, base + path, json=said, headers=headers, allow_redirects=False) as answer,
        ):
            status, text = answer.status, await answer.text()
    except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
        raise _Refused(f"{base}: the admin port cannot be reached ({type(error).__name__})") from None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _Refused(f"{base}: {FOREIGN} (status {status})")
    if status != _OK:
        raise _Refused(_plain(found.get("error", f"status {status}")))
    return found


def _print_list(found: Any, *, every: bool) -> None:
    """One line an approval: tables would cut ids short."""
    entries = found["approvals"]
    if not entries:
        out.print("There are no approvals." if every else "Nothing waits for a person.")
    for entry in entries:
        whose = entry["identity"]
        who = " ".join(whose[name] for name in ("team", "agent", "user") if whose[name]) or "anonymous"
        call = f"{entry['tool']} {clipped(entry['arguments'], ARGUMENTS_SHOWN)}"
        line = f"{entry['id']}  {entry['status']}  {call}  ({who}, until {entry['expires_at']})"
        out.print(_plain(line), markup=False)
    if found["left_out"]:
        out.print(f"and {found['left_out']} more")


def _print_one(entry: Any) -> None:
    """Everything, one line a field; what came from outside cannot steer the terminal."""
    for name, value in entry.items():
        if isinstance(value, str | int | float) or value is None:
            out.print(f"{name}: {_plain(value)}", markup=False)
        else:
            out.print(f"{name}: {_plain(json.dumps(value))}", markup=False)


def _plain(value: object) -> str:
    return escaped(str(value))
