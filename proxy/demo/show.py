"""`callgate demo`: plays the scenes with the agents of both SDKs and shows what came of each (D14)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from proxy.demo.agents import SDKS
from proxy.demo.expectations import HIDDEN, mismatches
from proxy.demo.scenes import SCENES, Scene
from proxy.demo.shop import CUSTOMER, TOOLS
from proxy.demo.stage import AGENT, Performance, Stage, on_stage
from proxy.demo.table import decision_table, mismatch_lines, rows, words_table
from proxy.demo.trace_tree import trees

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

WIDEST = 100
PACE = 0.001
"""Seconds between the provider's stream events, so that spans have a length to look at."""


async def play_scenes(
    out: Console,
    only: str | None = None,
    *,
    with_trace: bool = True,
    scenes: Sequence[Scene] = SCENES,
    pace: float = PACE,
) -> int:
    """Plays the scenes whose name contains `only` and prints them.

    Returns the exit code: 0 if every scene came out right with every SDK, 1 if not, 2 if there is no such scene.
    """
    chosen = [scene for scene in scenes if only is None or only in scene.name]
    screen = Screen(out)
    if not chosen:
        screen.show(
            Text(f"There is no scene {only!r}. Scenes: {', '.join(scene.name for scene in scenes)}", "red")
        )
        return 2
    played: list[list[Performance]] = []
    async with on_stage(pace) as stage:
        screen.header(stage, len(chosen))
        for number, scene in enumerate(chosen, 1):
            performances = [await stage.play(scene, sdk) for sdk in SDKS]
            screen.scene(f"{number}/{len(chosen)}", performances, with_trace=with_trace)
            played.append(performances)
    screen.summary(played)
    return 1 if any(mismatches(each) for performances in played for each in performances) else 0


class Screen:
    """Where it is shown: never wider than is pleasant, wrapped by words."""

    def __init__(self, out: Console) -> None:
        """`out` may be a terminal or a pipe."""
        self._out = out
        self._width = min(out.width, WIDEST)

    def show(self, *parts: RenderableType, indent: int = 0) -> None:
        """Prints the parts below each other."""
        for part in parts:
            shown = Padding(part, (0, 0, 0, indent), expand=False) if indent else part
            self._out.print(shown, width=self._width, soft_wrap=False)

    def header(self, stage: Stage, count: int) -> None:
        """What runs, and where."""
        described = stage.callgate.policies.describe()
        facts = Table.grid(padding=(0, 2))
        facts.add_column(style="bold", no_wrap=True)
        facts.add_column()
        sdks = " and ".join(f"{sdk.name} {version(sdk.name)}" for sdk in SDKS)
        layers = [layer for layer in ("org", f"agent.{AGENT}") if layer in described.layers]
        tools = ", ".join(
            f"{each.name} (hidden by policy)" if each.name == HIDDEN else each.name for each in TOOLS
        )
        facts.add_row("agents", f"official SDKs {sdks}, streamed; told a URL and a key")
        facts.add_row("Callgate", f"{stage.callgate.url}; the key says: agent {AGENT}, user {CUSTOMER}")
        facts.add_row("policies", f"{', '.join(layers)}; revision {described.revision}")
        facts.add_row("provider", f"{stage.provider.url}; scripted, and as strict as the real ones")
        facts.add_row("tools", tools)
        facts.add_row("limits", "get_order 1, search_policy 2, 3 calls in all for each question")
        self.show(
            Text(f"Callgate demo: the refund story in {count} scene{'s' * (count != 1)}", "bold"),
            Text(),
            facts,
        )

    def scene(self, number: str, performances: Sequence[Performance], *, with_trace: bool) -> None:
        """One scene: told once where all SDKs came to the same, else once for each."""
        scene = performances[0].scene
        self.show(Text(), Text(f"{'=' * self._width}", "dim"))
        self.show(Text.assemble((f"{number}  ", "dim"), (scene.title, "bold"), (f"  [{scene.name}]", "dim")))
        self.show(Text.assemble(("The customer: ", "bold"), scene.user))
        told = [(rows(each), each.text) for each in performances]
        same = all(each == told[0] for each in told)
        for performance, (found, text) in zip(performances, told, strict=True):
            if not same:
                self.show(Text(f"With the SDK of {performance.sdk}:", "bold yellow"))
            if performance is performances[0] or not same:
                self.show(decision_table(found), words_table(found), Text())
                self.show(Text.assemble(("The answer: ", "bold"), text))
                if with_trace:
                    self.show(Text(f"The trace ({performance.sdk}):", "bold"))
                    for tree in trees(performance.spans):
                        self.show(tree, indent=1)
        if same:
            others = " and ".join(each.sdk for each in performances)
            self.show(Text(f"{others}: the same decisions, the same answer.", "dim"))
        for performance in performances:
            self.show(*mismatch_lines(performance.sdk, mismatches(performance)))

    def summary(self, played: Sequence[Sequence[Performance]]) -> None:
        """Scene by SDK: did it come out right?"""
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
        table.add_column("Scene", no_wrap=True)
        table.add_column("Outcome", overflow="fold")
        for title in ("Requests", "Calls", "Refused"):
            table.add_column(title, justify="right", no_wrap=True)
        for sdk in SDKS:
            table.add_column(sdk.name, no_wrap=True)
        for performances in played:
            first = performances[0]
            ended = first.end["outcome"] if first.end else "no end"
            figures = (len(first.seen), len(first.shop.executed), len(first.refused))
            verdicts = [
                Text("WRONG", "bold red") if mismatches(each) else Text("right", "green")
                for each in performances
            ]
            table.add_row(first.scene.name, ended, *map(str, figures), *verdicts)
        everyone = [each for performances in played for each in performances]
        wrong = sum(bool(mismatches(each)) for each in everyone)
        self.show(Text(), Text(f"{'=' * self._width}", "dim"), table)
        if wrong:
            self.show(Text(f"{wrong} of {len(everyone)} runs came out WRONG.", "bold red"))
        else:
            self.show(
                Text(
                    f"All {len(everyone)} runs came out right; no refused call reached an agent.",
                    "bold green",
                )
            )
