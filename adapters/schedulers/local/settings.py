"""The numbers a local cluster runs by, fixed when its folder is created."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Settings:
    """All in seconds. Defaults mirror Slurm's where Slurm has one."""

    requeue_delay_s: float = 60.0
    """A requeued job waits that long, so that an exclusion can be set; then it starts by itself (fail open). Long enough for a
    service that dies in between to be noticed and to go on (5 s each time), shorter than the 121 s of Slurm's default."""
    requeue_window_s: float = 300.0
    """How long an ended job can be requeued: Slurm's MinJobAge."""
    bad_exit_grace_s: float = 1.0
    """After one rank died badly, how long the others may take to say why before they are ended (srun --kill-on-bad-exit)."""
    kill_wait_s: float = 5.0
    """From SIGTERM to SIGKILL. Slurm's KillWait is 30 s, sized for a network."""
    idle_exit_s: float = 30.0
    """The daemon exits after that long with nothing to do; the next call starts it again."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 <= value <= 86_400:
                raise ValueError(f"{name} must lie between 0 and 86400 seconds, not {value}")

    def to_json(self) -> str:
        """One line of JSON, for the record."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        """Unknown names are ignored, so that an older release can read a newer record."""
        known = cls.__dataclass_fields__
        return cls(**{k: float(v) for k, v in json.loads(text).items() if k in known})
