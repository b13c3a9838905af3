"""What the demonstration runs on: Temporal, workers and local cluster, in a process that ends them all when its input ends.

It lives apart from the story, in a session of its own: whatever becomes of the story (Ctrl-C, SIGTERM, SIGKILL, an error), the
pipe between them closes, and this process ends what it started, in an order in which nobody restarts what another has ended.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from adapters.schedulers.local import LocalScheduler
from demo import listening
from demo.places import CLUSTER, NODES, Places
from rerail.errors import RerailError

START_S = 60.0
"""Temporal needs 0.3 s; a loaded machine may need many times that."""
TRIES = 5
"""Ports may be taken between our look and the server's bind."""
TICK_S = 0.05
TERM_S = 15.0
"""From SIGTERM to SIGKILL: the workers give an effect under way 5 s, and Temporal needs about 1 s."""

SETTINGS = """\
# Made by the demonstration.
state: {state}
temporal: {{address: {address}, namespace: default, ui: {ui}}}
clusters:
  {cluster}:
    scheduler:
      local: {{folder: {folder}}}
    hang: {{floor_s: {floor_s}}}
"""


class Leave(Exception):
    """Nobody wants the service any more."""


class Broken(Exception):
    """The service can't go on; the message is a sentence for a person."""


@dataclass
class Service:
    """All processes of one demonstration."""

    places: Places
    floor_s: float
    children: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    scheduler: LocalScheduler | None = None
    leaving: bool = False

    def run(self) -> int:
        """Until the input ends, SIGTERM comes, or a child is lost. Whatever happens, nothing is left."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: setattr(self, "leaving", True))
        try:
            self.start()
            while True:
                self.pause()
                self.check()
        except Leave:
            return 0
        except (Broken, RerailError, OSError) as error:
            say(broken=str(error))
            return 1
        finally:
            self.end()

    def start(self) -> None:
        """Temporal first: its ports are part of the settings."""
        self.scheduler = LocalScheduler.create(self.places.cluster, CLUSTER, NODES)
        port, ui_port = self.start_temporal()
        address, ui = f"{listening.HOST}:{port}", f"http://{listening.HOST}:{ui_port}"
        self.places.settings.write_text(settings(self.places, address, ui, self.floor_s), encoding="utf-8")
        self.places.profile.write_text("# Empty, so that Temporal's profiles of this user do not count in the demonstration.\n")
        self.spawn("workers", [sys.executable, "-m", "workers", "--settings", str(self.places.settings), "up"])
        say(address=address, ui=ui)

    def start_temporal(self) -> tuple[int, int]:
        """The ports at which it listens: gRPC and Web UI."""
        binary = temporal_binary()
        for _ in range(TRIES):
            port, ui_port = listening.ports()
            server = self.spawn("temporal", temporal_command(binary, self.places.database, port, ui_port))
            if self.came_up(server, (port, ui_port)):
                return port, ui_port
        raise Broken(f"Temporal did not start: {self.last_words('temporal')}")

    def came_up(self, server: "subprocess.Popen[bytes]", ports: Sequence[int]) -> bool:
        """True once the server listens; False when it ended, as it does when a port is taken."""
        deadline = time.monotonic() + START_S
        while not all(listening.listens(server.pid, port) for port in ports):
            if server.poll() is not None:
                return False
            if time.monotonic() > deadline:
                raise Broken(f"Temporal was not up within {START_S:.0f} s: {self.last_words('temporal')}")
            self.pause()
        return True

    def spawn(self, name: str, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        """Start a child that writes into a log of its own."""
        with self.places.log(name).open("ab") as log:
            self.children[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.places.environment(os.environ)
            )
        return self.children[name]

    def pause(self) -> None:
        """A moment; Leave when the story has ended."""
        ready, _, _ = select.select([sys.stdin], [], [], TICK_S)
        if self.leaving or (ready and not os.read(sys.stdin.fileno(), 1024)):
            raise Leave

    def check(self) -> None:
        for name, child in self.children.items():
            if child.poll() is not None:
                raise Broken(f"{name} ended unexpectedly (exit code {child.returncode}): {self.last_words(name)}")

    def last_words(self, name: str) -> str:
        """Where its log is, and the last line there."""
        path = self.places.log(name)
        with contextlib.suppress(OSError), path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - 4096))
            lines = log.read().decode(errors="replace").split("\n")
            said = next((line for line in reversed(lines) if line.strip()), "it wrote nothing")
            return f"{said[-300:].strip()} (see {path})"
        return f"see {path}"

    # The end

    def end(self) -> None:
        """Workers first, so that nobody restarts what is ended; then jobs and their daemon; Temporal last."""
        self.end_child("workers")
        try:
            if self.scheduler:
                self.scheduler.shut_down()
        except RerailError as error:
            say(left=f"the local cluster could not be ended: {error}")
        self.end_child("temporal")

    def end_child(self, name: str) -> None:
        child = self.children.pop(name, None)
        if child is None or child.poll() is not None:
            return
        child.terminate()
        try:
            child.wait(TERM_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def settings(places: Places, address: str, ui: str, floor_s: float) -> str:
    """The settings file; JSON's quotes are YAML's, so that any path may stand there."""
    texts = {"state": str(places.state), "folder": str(places.cluster), "address": address, "ui": ui}
    quoted = {name: json.dumps(text) for name, text in texts.items()}
    return SETTINGS.format(cluster=CLUSTER, floor_s=floor_s, **quoted)


def temporal_binary() -> str:
    """The server that came with the demo's packages, else one on the PATH."""
    found = shutil.which("temporal", path=sysconfig.get_path("scripts")) or shutil.which("temporal")
    if not found:
        raise Broken("there is no `temporal` program here; `make setup` installs it")
    return found


def temporal_command(binary: str, database: Path, port: int, ui_port: int) -> list[str]:
    """The dev server with its Web UI, for this machine alone. WAL and NORMAL give 1.6 times the throughput (measured)."""
    options = {
        "--ip": listening.HOST,
        "--port": str(port),
        "--ui-port": str(ui_port),
        "--db-filename": str(database),
        "--log-level": "error",
    }
    words = [word for option in options.items() for word in option]
    pragmas = ["--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL"]
    return [binary, "server", "start-dev", *words, *pragmas, "--ui-disable-news-fetch"]


def say(**news: str) -> None:
    """One line to the story; it may be gone."""
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), (json.dumps(news) + "\n").encode())


if __name__ == "__main__":
    sys.exit(Service(Places(Path(sys.argv[1])), float(sys.argv[2])).run())
