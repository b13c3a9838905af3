"""One performance: options, the story, the end that leaves nothing running, and the exit code.

Exit codes: 0 the story ended as it has to, 1 it did not, 2 wrong use, 130 and 143 ended by Ctrl-C and SIGTERM.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import random
import signal
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from demo.faults import SCENES, Scene, chosen
from demo.job import RANKS, SAVED_EVERY
from demo.lifeline import Lifeline, Lost
from demo.places import OWN_VARIABLES, Places, shown
from demo.story import Astray, Choice, Story
from demo.teller import Teller
from demo.terminal import Terminal
from rerail.errors import RerailError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STEPS = range(23, 29)
"""The fault comes some steps after a checkpoint and some before the next one, so that something is lost and something is kept."""


def parser() -> argparse.ArgumentParser:
    """The options; the Makefile's variables come by the environment."""
    made = argparse.ArgumentParser(
        prog="make demo",
        description=f"Tells the story of one fault: make demo [FAULT={'|'.join(SCENES)}] [YES=1] [KEEP=1] [DEMO_DIR=FOLDER]",
    )
    made.add_argument("--dir", type=Path, default=Path(os.environ.get("DEMO_DIR") or ".demo"), help="where runs are kept")
    made.add_argument("--yes", action="store_true", default=is_set("YES"), help="approve without asking")
    made.add_argument("--keep", action="store_true", default=is_set("KEEP"), help="let all run on until Ctrl-C")
    made.add_argument("--rank", type=int, choices=range(RANKS), default=random.randrange(RANKS), help="whom the fault meets")  # noqa: S311
    made.add_argument("--step", type=int, default=random.choice(STEPS), help="at about which step")  # noqa: S311
    made.add_argument("--hang-floor", type=float, default=30.0, metavar="SECONDS", help="the least silence that is a hang")
    return made


def is_set(name: str) -> bool:
    """True for YES=1, false for YES=0 and for none."""
    return os.environ.get(name, "").lower() not in ("", "0", "no", "false")


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code."""
    options = parser().parse_args(argv)
    if options.step <= SAVED_EVERY:
        parser().error(f"--step has to come after the first checkpoint, which is of step {SAVED_EVERY}")
    try:
        scene = chosen(os.environ)
        places = Places.make(options.dir, datetime.now().astimezone())
    except ValueError as error:
        print(f"make demo: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"make demo: no folder can be made in {options.dir} ({error.strerror}); choose one by DEMO_DIR=", file=sys.stderr)
        return 2
    logging.basicConfig(filename=places.log("demo"), level=logging.WARNING)
    for name in [name for name in os.environ if name.startswith(OWN_VARIABLES)]:
        del os.environ[name]
    choice = Choice(options.rank, options.step, options.yes, options.hang_floor)
    try:
        return asyncio.run(perform(scene, choice, places, keep=options.keep))
    except BrokenPipeError:  # whoever read us has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


async def perform(scene: Scene, choice: Choice, places: Places, *, keep: bool) -> int:
    """Start, tell, end; a signal ends it early, in the same order."""
    teller, lifeline = Teller(), Lifeline(places, choice.floor_s)
    telling = asyncio.create_task(tell(scene, choice, places, teller, lifeline, keep=keep))
    came: list[int] = []
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, interrupt, number, came, telling, teller)
    try:
        return await telling
    except asyncio.CancelledError:
        return 128 + came[0]
    finally:
        await end(teller, lifeline)


def interrupt(number: int, came: list[int], telling: "asyncio.Task[int]", teller: Teller) -> None:
    """The first signal ends the story; while it ends, impatience changes nothing."""
    with contextlib.suppress(OSError):
        teller.add("", "Still ending; nothing will be left." if came else "Asked to end.")
    if not came:
        came.append(number)
        telling.cancel()


async def end(teller: Teller, lifeline: Lifeline) -> None:
    """Nothing is left behind, whoever still listens."""
    with contextlib.suppress(OSError):
        teller.say("Ending the job, the workers and Temporal.")
    await lifeline.close()
    with contextlib.suppress(OSError):
        teller.say(" ".join(lifeline.left) or "Nothing is left running.")


async def tell(scene: Scene, choice: Choice, places: Places, teller: Teller, lifeline: Lifeline, *, keep: bool) -> int:
    """The story, as long as its service lives."""
    teller.say(f"The story of a fault ({scene.fault}). All that this run leaves is in {shown(places.folder)}")
    try:
        ready = await lifeline.start()
        wrong = await lifeline.during(Story(scene, choice, places, teller, ready, Terminal.here()).tell())
        code = judge(scene, wrong, teller)
        return await stay(code, teller, lifeline) if keep else code
    except (Astray, Lost, RerailError) as error:
        teller.say(f"The story broke off: {error}")
    except BrokenPipeError:
        raise
    except Exception:
        logging.exception("the story broke off")
        teller.say(f"The story broke off by an error of its own; see {shown(places.log('demo'))}")
    return 1


def judge(scene: Scene, wrong: Sequence[str], teller: Teller) -> int:
    """0 when the story ended as that of its fault has to."""
    if not wrong:
        teller.say(f"All as it has to be for the fault `{scene.fault}`.")
        return 0
    teller.say(f"NOT as it has to be for the fault `{scene.fault}`:")
    teller.add(*(f"- {difference}" for difference in wrong))
    return 1


async def stay(code: int, teller: Teller, lifeline: Lifeline) -> int:
    """Let people look around until they have seen enough."""
    teller.say("KEEP=1: Temporal, its Web UI, the workers and the job run on. Ctrl-C ends them.")
    try:
        await lifeline.during(asyncio.Event().wait())
    except asyncio.CancelledError:  # the end that was meant
        return code
    return code
