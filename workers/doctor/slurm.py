"""Slurm as its administrator set it up: what each setting costs, and whether our identities have the rights they need."""

import getpass
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from adapters.schedulers.slurm import Runner
from adapters.schedulers.slurm.over_ssh import OverSsh
from rerail import gate
from rerail.errors import RerailError
from workers.doctor.finding import Finding, fail, ok, warn

DEADLINE_S = 15.0
OLDEST = (22, 5)
"""The oldest release that is tested."""
CLOCK_WARN = timedelta(seconds=2)
CLOCK_FAIL = timedelta(seconds=60)
LOOKS = 20
"""Reads before an ended job is forgotten; fewer, and a few missed ones lose its end."""
CRED_EXPIRE_S = 120
"""Slurm's default; a requeued job waits one second longer than this."""

Config = Mapping[str, str]
_LINE = re.compile(r"^([A-Za-z][A-Za-z0-9_]*)[ \t]*= ?(.*)$", re.MULTILINE)
_NOTHING = ("(null)", "none", "accounting_storage/none", "")


@dataclass(frozen=True)
class Check:
    """A setting that can be less than wished: how it is told when it is well, when it isn't, and what then helps."""

    key: str
    well: Callable[[str], bool]
    good: str
    lack: str
    step: str


CHECKS = (
    Check(
        "AccountingStorageType",
        lambda value: value not in _NOTHING,
        "Slurm keeps accounts",
        "Slurm keeps no accounts (no slurmdbd): there are no operators, and who cancelled a job stays unknown",
        "set up slurmdbd, or let rerail act as SlurmUser",
    ),
    Check(
        "AccountingStoreFlags",
        lambda value: "job_comment" in value.lower(),
        "job comments are kept in the accounts",
        "job comments are not kept in the accounts: once a job is purged, what rerail wrote beside it is gone",
        "AccountingStoreFlags=job_comment in slurm.conf",
    ),
    Check(
        "JobRequeue",
        lambda value: value != "0",
        "jobs may be requeued unless they say no",
        "jobs are not requeued unless they ask for it (--requeue): rerail can only tell their owners",
        "JobRequeue=1 in slurm.conf, or tell users of --requeue",
    ),
    Check(
        "JobFileAppend",
        lambda value: value == "1",
        "a restart appends to the job's log",
        "a restart truncates the job's log: rerail keeps a copy, but the owner finds the last attempt only",
        "JobFileAppend=1 in slurm.conf, or --open-mode=append in the job",
    ),
    Check(
        "EpilogSlurmctld",
        lambda value: value not in _NOTHING,
        "slurmctld runs a script when a job ends",
        "no hook tells that a job ended: it is seen at the next look, up to interval_s later",
        "EpilogSlurmctld in slurm.conf and `intake` in the settings: docs/slurm.md, Hooks",
    ),
    Check(
        "PrivateData",
        lambda value: not {"jobs", "nodes"} & set(value.split(",")),
        "everybody may read jobs and nodes",
        "jobs or nodes are private: a plain user sees only its own",
        "AdminLevel=Operator for the identity that reads (it keeps the gate's role reader)",
    ),
)


def examine(name: str, runner: Runner, interval_s: float) -> Iterator[Finding]:
    """All about one Slurm. Settings that can't be read end it."""
    try:
        said = runner.run(["scontrol", "show", "config"], DEADLINE_S)
    except RerailError as error:
        yield fail(f"cluster {name}: its settings cannot be read", str(error))
        return
    text = said.stdout.decode("utf-8", "replace")
    config = dict(_LINE.findall(text))
    yield _version(name, config)
    yield from _clock(name, text)
    yield from (_checked(name, check, config) for check in CHECKS if check.key in config)
    yield _job_age(name, config, interval_s)
    yield _delay(name, config)
    yield from _rights(name, runner, config)


def _checked(name: str, check: Check, config: Config) -> Finding:
    well = check.well(config[check.key].strip())
    return ok(f"cluster {name}: {check.good}") if well else warn(f"cluster {name}: {check.lack}", check.step)


def _version(name: str, config: Config) -> Finding:
    version = config.get("SLURM_VERSION", "")[:20]
    found = re.match(r"([0-9]+)\.([0-9]+)", version)
    if not found:
        return warn(f"cluster {name}: Slurm tells no version", "compare `scontrol --version` with docs/slurm.md")
    if (int(found[1]), int(found[2])) < OLDEST:
        return warn(f"cluster {name}: Slurm {version} is older than what is tested", "22.05 or newer is; try monitor mode first")
    return ok(f"cluster {name}: Slurm {version}")


def _clock(name: str, text: str) -> Iterator[Finding]:
    """slurmctld's own clock, which begin times and exclusions are judged by."""
    found = re.match(r"Configuration data as of ([0-9]{1,12})\b", text)
    if not found:
        return
    apart = abs(datetime.now(UTC) - datetime.fromtimestamp(int(found[1]), UTC))
    if apart > CLOCK_WARN:
        make = fail if apart > CLOCK_FAIL else warn
        what = f"cluster {name}: slurmctld's clock and ours are {apart.total_seconds():.0f} s apart"
        yield make(what, "let both follow one NTP server")
    else:
        yield ok(f"cluster {name}: slurmctld's clock agrees with ours")


def _job_age(name: str, config: Config, interval_s: float) -> Finding:
    found = re.match(r"[0-9]+", config.get("MinJobAge", ""))
    age_s = int(found[0]) if found else 0
    if age_s and age_s < LOOKS * interval_s:
        what = f"cluster {name}: Slurm forgets ended jobs after {age_s} s: after an outage of that length they can't be requeued"
        return warn(what, "MinJobAge=300 or more in slurm.conf, or a shorter interval_s")
    return ok(f"cluster {name}: ended jobs can be requeued for {age_s or 'any number of'} s")


def _delay(name: str, config: Config) -> Finding:
    """What a requeue waits where rerail dies before it lets the job start."""
    asked = re.search(r"\brequeue_delay=([0-9]+)", config.get("SchedulerParameters", ""))
    expire = re.search(r"\bcred_expire=([0-9]+)", config.get("AuthInfo", ""))
    wait_s = int(asked[1]) if asked else int(expire[1] if expire else CRED_EXPIRE_S) + 1
    return ok(f"cluster {name}: a requeued job starts by itself after {wait_s} s, should rerail not be there to start it")


def _rights(name: str, runner: Runner, config: Config) -> Iterator[Finding]:
    users = runner.users() if isinstance(runner, OverSsh) else dict.fromkeys(gate.ROLES, getpass.getuser())
    for role, lack in LACKS.items():
        if role not in users:
            yield warn(f"cluster {name}: no identity `{role}`: {lack}", f"scheduler.slurm.ssh.{role}, where that is wanted")
            continue
        if isinstance(runner, OverSsh):
            try:
                runner.probe(role, DEADLINE_S)
            except RerailError as error:
                yield fail(f"cluster {name}: the way of `{role}` is closed", str(error))
                continue
        yield _level(name, runner, config, role, users[role])


LACKS = {
    gate.READER: "nothing can be seen",
    gate.OPERATOR: "rerail can't requeue, exclude nodes from or cancel jobs, and only tells",
    gate.ADMIN: "rerail can't drain or resume nodes, and only excludes them job by job",
}
"""What can't be done without each identity."""

LEVELS = {
    gate.READER: ("None", "Operator", "Administrator"),
    gate.OPERATOR: ("Operator", "Administrator"),
    gate.ADMIN: ("Administrator",),
}
"""Slurm's AdminLevels that are enough for a role."""


def _level(name: str, runner: Runner, config: Config, role: str, user: str) -> Finding:
    """By what slurmdbd says; root and SlurmUser may do everything."""
    if user in ("root", config.get("SlurmUser", "").partition("(")[0]):
        return ok(f"cluster {name}: `{role}` is {user}, who may do all")
    level = _admin_level(runner, user)
    if level in LEVELS[role] or (role == gate.READER and not level):
        return ok(f"cluster {name}: `{role}` is {user}" + (f" with AdminLevel {level}" if level else ""))
    what = f"cluster {name}: `{role}` is {user} with AdminLevel {level or 'unknown'}: {LACKS[role]}"
    return warn(what, f"sacctmgr modify user {user} set AdminLevel={LEVELS[role][0]}")


def _admin_level(runner: Runner, user: str) -> str:
    """Empty where nobody tells."""
    try:
        asked = ["sacctmgr", "--noheader", "--parsable2", "show", "user", user, "format=AdminLevel"]
        said = runner.run(asked, DEADLINE_S)
    except RerailError:
        return ""
    word = said.stdout[:100].decode("utf-8", "replace").strip()
    return word if not said.rc and word.isalpha() else ""
