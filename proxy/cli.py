"""The command line. Exit codes: 0 well, 1 something was found wrong, 2 wrong usage."""

from __future__ import annotations

import typer

from . import __version__
from .commands.approvals import approvals
from .commands.bench import bench
from .commands.bundle import bundle
from .commands.check import check
from .commands.demo import demo
from .commands.explain import explain
from .commands.learn import learn
from .commands.policy_tests import run_tests
from .commands.replay import replay
from .commands.serve import serve
from .commands.shadow import shadow
from .terminal import out

app = typer.Typer(
    help="Callgate: a policy sidecar and guard proxy for LLM agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(serve)
app.command()(check)
app.command("test")(run_tests)
app.command()(explain)
app.command()(demo)
app.command()(replay)
app.command()(shadow)
app.command()(bench)
app.command()(bundle)
app.command()(learn)
app.command()(approvals)


@app.command()
def version() -> None:
    """Print the version."""
    out.print(__version__)


def main() -> None:
    """Entry point of the command `callgate`."""
    app()
