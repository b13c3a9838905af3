"""Where one run of the demonstration keeps its things: a folder of its own, so that nothing older is ever overwritten."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import rerail

ROOT = Path(__file__).resolve().parents[1]
"""The checkout: the flat folders are imported from here."""

CLUSTER = "workstation"
NODES = tuple(f"gpu-{number:02d}" for number in range(1, 7))

OWN_VARIABLES = ("TEMPORAL_", "RERAIL_", "PYTHON", "FAULT")
"""Variables of the person's shell that would lead the service elsewhere (another Temporal, other settings, other code), and the
name of the fault, which the service must not know."""


@dataclass(frozen=True)
class Places:
    """The files of one run."""

    folder: Path

    @classmethod
    def make(cls, home: Path, now: datetime) -> "Places":
        """A new folder in the demo's home; OSError when it can't be made."""
        home.mkdir(parents=True, exist_ok=True)
        stem = now.strftime("%Y%m%d-%H%M%S")
        for name in (stem, *(f"{stem}-{number}" for number in range(2, 100))):
            try:
                (home / name).mkdir(mode=0o700)
            except FileExistsError:  # another demo of the same second
                continue
            places = cls((home / name).resolve())
            places.job.mkdir()
            return places
        raise FileExistsError(f"{home} holds 99 runs of this second")

    @property
    def settings(self) -> Path:
        return self.folder / "rerail.yaml"

    @property
    def profile(self) -> Path:
        """Temporal's own settings file, so that a person's does not count here."""
        return self.folder / "temporal.toml"

    @property
    def database(self) -> Path:
        return self.folder / "temporal.db"

    @property
    def cluster(self) -> Path:
        return self.folder / "cluster"

    @property
    def state(self) -> Path:
        """Evidence bundles and the audit file."""
        return self.folder / "state"

    @property
    def job(self) -> Path:
        """The training job's folder: its checkpoints and its log."""
        return self.folder / "job"

    @property
    def job_log(self) -> Path:
        return self.job / "train.log"

    def log(self, name: str) -> Path:
        """Where a process of the service writes."""
        return self.folder / f"{name}.log"

    def environment(self, outer: Mapping[str, str]) -> dict[str, str]:
        """Of the service's processes: the person's, less what would lead them elsewhere."""
        kept = {name: value for name, value in outer.items() if not name.startswith(OWN_VARIABLES)}
        roots = dict.fromkeys([str(ROOT), str(Path(rerail.__file__).resolve().parents[1])])
        return {**kept, "PYTHONPATH": os.pathsep.join(roots), "TEMPORAL_CONFIG_FILE": str(self.profile)}


def shown(path: Path) -> str:
    """A path as a person in the working folder would type it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def python() -> str:
    """The interpreter as a person would type it."""
    return shown(Path(sys.executable))
