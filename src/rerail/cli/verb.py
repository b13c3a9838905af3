"""A verb: its own options and those of the connection, one connection, one exit code, and no stack trace in anyone's face."""

import asyncio
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from rerail.cli.screen import complain, say

if TYPE_CHECKING:
    from rerail.cli.exits import Exit

Address = Annotated[
    str | None,
    typer.Option("--address", envvar="TEMPORAL_ADDRESS", metavar="HOST:PORT", help="Temporal's address [localhost:7233]."),
]
Namespace = Annotated[str | None, typer.Option("--namespace", envvar="TEMPORAL_NAMESPACE", help="Its namespace [default].")]
Profile = Annotated[
    str | None,
    typer.Option("--profile", envvar="TEMPORAL_PROFILE", help="Profile in Temporal's TOML file: address, TLS, API key."),
]
ConfigFile = Annotated[
    str | None, typer.Option("--config-file", envvar="TEMPORAL_CONFIG_FILE", metavar="FILE", help="That TOML file.")
]

CONNECTION: dict[str, Any] = {"address": Address, "namespace": Namespace, "profile": Profile, "config_file": ConfigFile}
"""Options of every verb that speaks to Temporal. The API key has none: a command line is no place for a secret."""

DEBUG = "RERAIL_DEBUG"

Verb = Callable[..., Coroutine[Any, Any, "Exit | None"]]


def online(verb: Verb) -> Callable[..., None]:
    """The command of a verb that takes a `Rerail` first."""
    own = list(inspect.signature(verb).parameters.values())[1:]
    hints = get_type_hints(verb, localns={"Rerail": object, "Exit": object}, include_extras=True)
    options = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=o) for n, o in CONNECTION.items()]

    def command(**given: Any) -> None:
        connection = {name: given.pop(name) for name in CONNECTION}
        finish(lambda: asyncio.run(connected(verb, connection, given)))

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[p.name]) for p in own]
    command.__signature__ = inspect.Signature([*parameters, *options])  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in (*parameters, *options)}
    command.__doc__ = verb.__doc__
    return command


async def connected(verb: Verb, connection: dict[str, Any], given: dict[str, Any]) -> "Exit | None":
    from rerail.client import Rerail

    rerail: Rerail = await Rerail.connect(**connection, by=given.get("by"))
    return await verb(rerail, **given)


def finish(work: "Callable[[], Exit | None]") -> None:
    """Do it, and leave with the exit code that fits how it went."""
    from rerail.cli.exits import Exit, of_error
    from rerail.errors import RerailError

    try:
        code = work() or Exit.OK
        sys.stdout.flush()
    except RerailError as error:
        code = of_error(error)
        complain(error)
        trace()
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
        complain("stopped here; what Temporal has taken goes on")
    except BrokenPipeError:
        code = Exit.BROKEN_PIPE
        let_go_of_stdout()
    except typer.Exit:
        raise
    except Exception as error:
        code = Exit.DEFECT
        complain(
            f"something went wrong that nobody foresaw: {type(error).__name__}: {str(error)[:300]}; {DEBUG}=1 shows the trace"
        )
        trace()
    raise typer.Exit(code)


def trace() -> None:
    """The stack trace, for those who asked for it."""
    if os.environ.get(DEBUG):
        say(traceback.format_exc().splitlines(), err=True)


def let_go_of_stdout() -> None:
    """Nobody reads any more: the interpreter shall not try once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
