"""What may stand in `rerail.yaml`: every key with its type, limits and safe default. Values are frozen; paths are absolute."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PrivateAttr,
    Tag,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from temporalio.envconfig import ClientConfig, ClientConnectConfig

from adapters.ssh.address import Address
from rerail.dialect import Dialect
from rerail.errors import Misconfigured
from rerail.readers import progress
from rerail.records import Drain, Mode
from workers.settings.references import REFERENCE, expanded, variables

DAY_S = 86_400.0
AUDIT_FILE = "audit.db"
TOKEN_LEAST, TOKEN_MOST = 32, 256
"""Letters of a token: 32 of hexadecimal are 128 bits."""
LOCAL_KERNEL_LOG = "{folder}/nodes/{node}/kernel.log"
CLUSTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
"""A cluster's name stands in workflow ids, task queues and paths, between slashes."""


def refusal(problem: str, expected: str, key: str = "") -> PydanticCustomError:
    """A value that is wrong for a reason of our own, under `key` of the place judged; the reader adds file, line and path."""
    return PydanticCustomError("rerail", "{problem}; expected {expected}", {"problem": problem, "expected": expected, "key": key})


def _beside_the_file(path: Path, info: ValidationInfo) -> Path:
    folder: Path = (info.context or {}).get("folder", Path.cwd())
    return Path(os.path.normpath(folder / path.expanduser()))


def _single(value: str) -> str:
    if not value or not value.isprintable():
        raise refusal("it is empty or has control characters in it", "one printable line")
    return value


def _in_place(value: str) -> str:
    """Refuses URLs with a name and password in them; `${NAME}` in place of the whole is fine."""
    parts = urlsplit(value)
    if not variables(value) and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise refusal("it is no web address", "https://HOST/PATH or ${NAME_OF_A_VARIABLE}")
    if "@" in parts.netloc:
        raise refusal("it carries a name or password", "an address without one, and secret_env for the signature")
    return value


def _variable(value: str) -> str:
    if not REFERENCE.fullmatch(f"${{{value}}}"):  # perhaps the secret itself: not repeated
        raise refusal("it is no name of an environment variable", "a name such as RERAIL_WEBHOOK_SECRET, never the secret itself")
    return value


def _cluster_name(name: str) -> str:
    if not CLUSTER_NAME.fullmatch(name):
        raise refusal(f"the name {name[:80]!r} cannot be used", "letters, digits, '.', '_' and '-', 63 at most")
    return name


def _audit_parts(text: str) -> URL:
    try:
        return make_url(text)
    except (ArgumentError, ValueError) as error:
        raise refusal("it is no SQLAlchemy URL", "one such as sqlite:///state/audit.db") from error


def _persistent(text: str) -> str:
    url = _audit_parts(text)
    password = None if url.password is None else str(url.password)
    hidden = [key for key in url.query if "pass" in key.lower() or "secret" in key.lower()]
    if hidden or (password is not None and REFERENCE.fullmatch(password) is None):
        raise refusal("it has a password in it", "a reference to a variable in its place, such as ${RERAIL_AUDIT_PASSWORD}")
    if url.get_backend_name() == "sqlite" and (not url.database or url.database == ":memory:"):
        raise refusal("it would be kept in memory only", "a file, such as sqlite:///state/audit.db")
    return text


def _steps(pattern: str) -> str:
    try:
        progress.check(pattern)
    except Misconfigured as error:
        raise refusal(str(error), r"RE2 syntax with a group named step, such as sweep (?P<step>\d+)") from error
    return pattern


def _ssh_host(text: str) -> str:
    try:
        Address.parse(text)
    except Misconfigured as error:
        raise refusal(f"{text[:80]!r} is no address", "HOST, HOST:PORT or [IPV6]:PORT") from error
    return text


FilePath = Annotated[Path, AfterValidator(_beside_the_file)]
SshHost = Annotated[str, AfterValidator(_ssh_host)]
UserName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,31}$")]
Text = Annotated[str, AfterValidator(_single)]
WebAddress = Annotated[Text, AfterValidator(_in_place)]
Variable = Annotated[str, AfterValidator(_variable)]
ClusterName = Annotated[str, AfterValidator(_cluster_name)]
AuditAddress = Annotated[Text, AfterValidator(_persistent)]
Steps = Annotated[str, AfterValidator(_steps)]
Seconds = Annotated[float, Field(gt=0, le=7 * DAY_S, strict=True, allow_inf_nan=False)]
ShortSeconds = Annotated[float, Field(gt=0, le=600, strict=True, allow_inf_nan=False)]


class Section(BaseModel):
    """The form of every part of the file: frozen, and an unknown key is refused with the keys that would be known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        if value is None:  # `temporal:` with nothing under it
            value = {}
        if not isinstance(value, Mapping):
            raise PydanticCustomError("section", "no section", {"keys": sorted(cls.model_fields)})
        for key in value:
            if key not in cls.model_fields:
                raise PydanticCustomError("unknown_key", "unknown key", {"key": str(key), "keys": sorted(cls.model_fields)})
        return value


class LocalScheduler(Section):
    """Rerail's own scheduler for one workstation."""

    folder: FilePath


class SshIdentity(Section):
    """A user on the login nodes and what proves it: a key, with a certificate or without, or an agent."""

    user: UserName
    key: FilePath | None = None
    certificate: FilePath | None = None
    """By default KEY-cert.pub, where there is one."""
    agent: bool = False
    """The agent at SSH_AUTH_SOCK."""

    @model_validator(mode="after")
    def _one_proof(self) -> Self:
        if (self.key is None) != self.agent:
            raise refusal("it needs one proof of who it is", "either `key: FILE` or `agent: true`", "key")
        return self


class SshJump(SshIdentity):
    """A host on the way."""

    host: SshHost


class Ssh(Section):
    """The way to Slurm's commands over SSH. Who reads, who acts on jobs and who drains nodes are three identities, and the last
    two can be left out."""

    hosts: Annotated[tuple[SshHost, ...], Field(min_length=1, max_length=16)]
    """Login nodes, HOST or HOST:PORT; the next one takes over when one is gone."""
    known_hosts: FilePath
    """Their keys, and the jump host's, in a file of rerail's own."""
    jump: SshJump | None = None
    gate: bool = True
    """The keys are bound to rerail-gate in authorized_keys. Without it the login shell starts the commands."""
    reader: SshIdentity
    operator: SshIdentity | None = None
    admin: SshIdentity | None = None
    sessions: Annotated[int, Field(gt=2, le=100, strict=True)] = 8
    """Commands at once over one connection; below sshd's MaxSessions, which is 10 by default."""
    connect_s: ShortSeconds = 5.0
    """For one host."""


class SlurmScheduler(Section):
    """Slurm, driven by its own commands."""

    bin: FilePath = Path("/usr/bin")
    """Folder of squeue, scontrol, sacct ..."""
    conf: FilePath | None = None
    """slurm.conf, where it is not where the commands look for it."""
    deadline_s: ShortSeconds = 10.0
    """For each command; a slurmctld under load answers within seconds or not at all."""
    ssh: Ssh | None = None
    """None runs the commands on this host."""


class WebhookChannel(Section):
    """A signed HTTP POST."""

    url: WebAddress
    secret_env: Variable | None = None
    """The variable that holds the key of the signature."""
    deadline_s: ShortSeconds = 10.0

    def address(self, environ: Mapping[str, str] | None = None) -> str:
        """The address, references replaced; Misconfigured when a variable is missing or the result is no web address."""
        found = expanded(self.url, os.environ if environ is None else environ, "channels.webhook.url")
        parts = urlsplit(found)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise Misconfigured("channels.webhook.url is no web address without a password once its variable is filled in.")
        return found

    def secret(self, environ: Mapping[str, str] | None = None) -> str:
        """The key of the signature, empty when none is wanted; Misconfigured when its variable is not set."""
        if self.secret_env is None:
            return ""
        return expanded(f"${{{self.secret_env}}}", os.environ if environ is None else environ, "channels.webhook.secret_env")


class CommandChannel(Section):
    """A program that gets the notice as JSON on its standard input."""

    argv: Annotated[tuple[Text, ...], Field(min_length=1, max_length=64)]
    timeout_s: ShortSeconds = 10.0

    @model_validator(mode="after")
    def _absolute(self) -> Self:
        if not Path(self.argv[0]).is_absolute():
            raise refusal(f"the program {self.argv[0]!r} has no full path", "a path that begins with /", "argv")
        return self


def _shown_channel(channel: WebhookChannel | CommandChannel) -> dict[str, Any]:
    if isinstance(channel, CommandChannel):
        return {"command": {"argv": [channel.argv[0], *("***" for _ in channel.argv[1:])]}}
    parts = urlsplit(channel.url)
    url = channel.url if parts.hostname is None else f"{parts.scheme}://{parts.hostname}/***"
    return {"webhook": {"url": url, "secret_env": channel.secret_env}}


def _one_key(known: list[str]) -> BeforeValidator:
    """Refuses all but a mapping of one known key, such as `local: {...}`."""

    def check(value: Any) -> Any:
        if not isinstance(value, Mapping) or len(value) != 1:
            raise PydanticCustomError("section", "no choice", {"keys": known, "choice": True})
        key = str(next(iter(value)))
        if key not in known:
            raise PydanticCustomError("unknown_key", "unknown key", {"key": key, "keys": known})
        return value

    return BeforeValidator(check)


def _under(key: str) -> BeforeValidator:
    return BeforeValidator(lambda value: value[key])


_only_key = Discriminator(lambda value: str(next(iter(value))))

SchedulerSettings = Annotated[
    Annotated[LocalScheduler, _under("local"), Tag("local")] | Annotated[SlurmScheduler, _under("slurm"), Tag("slurm")],
    _only_key,
    _one_key(["local", "slurm"]),
    PlainSerializer(lambda one: {"local" if isinstance(one, LocalScheduler) else "slurm": one.model_dump(mode="json")}),
]
ChannelSettings = Annotated[
    Annotated[WebhookChannel, _under("webhook"), Tag("webhook")] | Annotated[CommandChannel, _under("command"), Tag("command")],
    _only_key,
    _one_key(["command", "webhook"]),
    PlainSerializer(_shown_channel),
]


class Scope(Section):
    """Which jobs rerail looks after: glob patterns, case counts; an empty list lets all pass."""

    partitions: tuple[Text, ...] = ()
    accounts: tuple[Text, ...] = ()
    users: tuple[Text, ...] = ()
    qos: tuple[Text, ...] = ()
    names: tuple[Text, ...] = ()


class Approval(Section):
    """How long a proposal waits for a person. Nothing is done when nobody answers."""

    expires_s: Seconds = 1800.0
    remind_s: Seconds = Field(default_factory=lambda seen: seen.get("expires_s", 1800.0) * 2 / 3)

    @model_validator(mode="after")
    def _reminder_first(self) -> Self:
        if self.remind_s >= self.expires_s:
            problem = f"{self.remind_s:g} is not before expires_s {self.expires_s:g}"
            raise refusal(problem, "a reminder before the expiry", "remind_s")
        return self


class Restart(Section):
    """What rerail may override when it restarts a job."""

    lift_no_requeue: Annotated[bool, Field(strict=True)] = False
    """True: an owner's --no-requeue is lifted for an approved restart. False: refused, with the command that lifts it."""


class Hang(Section):
    """Settings of the detector `stalled`."""

    floor_s: Seconds = 30.0
    """Silence shorter than this is never a hang."""


class ClusterSettings(Section):
    """One cluster and how rerail treats it."""

    scheduler: SchedulerSettings
    mode: Mode = Mode.MONITOR
    scope: Scope = Scope()
    interval_s: ShortSeconds = 1.0
    """Between two cluster-wide reads."""
    kernel_log: Text | None = None
    """Path of a node's kernel log with {node} in it; see `kernel_log_template`."""
    approval: Approval = Approval()
    restart: Restart = Restart()
    drain: Drain = Drain.NEVER
    """ask: a plan may hold a drain of a node that is proved broken, and a person says in the approval whether it is done."""
    comment: bool = False
    """on: the verdict in one line stands in the job's comment, too, beside what its owner wrote there."""
    hang: Hang = Hang()
    signatures: FilePath | None = None
    """A file of signatures for this cluster alone, on top of those for all."""
    steps: Steps = ""
    """How the site's own loops print a step, where no reader knows it."""

    @model_validator(mode="after")
    def _template(self) -> Self:
        if self.kernel_log is not None:
            _check_template(self.kernel_log, local=isinstance(self.scheduler, LocalScheduler))
        return self


def _check_template(template: str, *, local: bool) -> None:
    allowed = {"node", "folder"} if local else {"node"}
    expected = "a path with {node} in it" + (", and {folder} for the scheduler's folder" if local else "")
    try:
        fields = {(name, spec, conversion) for _, name, spec, conversion in Formatter().parse(template) if name is not None}
    except ValueError as error:
        raise refusal(f"{template!r} is no template", expected, "kernel_log") from error
    if ("node", "", None) not in fields or not fields <= {(name, "", None) for name in allowed}:
        raise refusal(f"{template!r} lacks {{node}} or has other braces", expected, "kernel_log")


class TemporalSettings(Section):
    """Where Temporal is, as far as Temporal's own environment configuration and profiles don't say it."""

    profile: Text | None = None
    address: Text | None = None
    namespace: Text | None = None
    ui: WebAddress | None = None
    """Address of the Web UI, for links; None makes no links."""

    def connect_config(self, environ: Mapping[str, str] | None = None) -> ClientConnectConfig:
        """Keyword arguments of `Client.connect`. The environment wins over this file, and this file over the profile."""
        environ = os.environ if environ is None else environ
        profile = None if environ.get("TEMPORAL_PROFILE") else self.profile
        try:
            config = ClientConfig.load_client_connect_config(profile, override_env_vars=dict(environ))
        except Exception as error:  # the SDK raises what its core found: RuntimeError, ValueError, FileNotFoundError
            raise Misconfigured(f"Temporal's configuration cannot be read: {str(error)[:200]}; see temporal.profile.") from error
        if self.address and not environ.get("TEMPORAL_ADDRESS"):
            config["target_host"] = self.address
        if self.namespace and not environ.get("TEMPORAL_NAMESPACE"):
            config["namespace"] = self.namespace
        config.setdefault("target_host", "localhost:7233")
        return config


class IntakeSettings(Section):
    """Where a scheduler's hooks say that something happened: a unix socket, HTTP on loopback, or both."""

    socket: FilePath | None = None
    """Made anew at each start, mode 0660; its folder has to be there."""
    group: Text | None = None
    """Whose members may send by the socket; None: the group that rerail runs as."""
    port: Annotated[int, Field(ge=1, le=65_535, strict=True)] | None = None
    """On 127.0.0.1 alone."""
    token_env: Variable | None = None
    token_file: FilePath | None = None
    """The variable or the file with what a sender over HTTP has to know; one of them goes with `port`."""

    @model_validator(mode="after")
    def _some_way(self) -> Self:
        if self.socket is None and self.port is None:
            raise refusal("there is no way in", "a socket, a port, or both", "")
        if (self.port is not None) != ((self.token_env is None) != (self.token_file is None)):
            raise refusal("port and token belong together", "one of token_env and token_file beside a port", "port")
        return self

    def token(self, environ: Mapping[str, str] | None = None) -> str:
        """The token; Misconfigured where it can't be had or could be guessed."""
        if self.token_file is None:
            found = expanded(f"${{{self.token_env}}}", os.environ if environ is None else environ, "intake.token_env")
        else:
            try:
                with self.token_file.open(encoding="ascii") as stream:
                    found = stream.read(TOKEN_MOST + 1).strip()
            except (OSError, UnicodeDecodeError) as error:
                raise Misconfigured(f"intake.token_file {self.token_file} cannot be read: {error}.") from None
        if not (TOKEN_LEAST <= len(found) <= TOKEN_MOST and found.isascii() and found.isprintable() and " " not in found):
            raise Misconfigured(f"the intake's token is no {TOKEN_LEAST} to {TOKEN_MOST} letters; make one: openssl rand -hex 32")
        return found


class Settings(Section):
    """All of `rerail.yaml`."""

    state: FilePath = Field(default=Path("state"), validate_default=True)
    """Folder of evidence bundles and of the audit file."""
    audit: AuditAddress | None = None
    """SQLAlchemy URL as written, `${NAME}` unexpanded; see `audit_url`."""
    temporal: TemporalSettings = TemporalSettings()
    channels: Annotated[tuple[ChannelSettings, ...], Field(max_length=32)] = ()
    signatures: FilePath | None = None
    """A site's own signatures (docs/diagnosis.md), for all clusters."""
    intake: IntakeSettings | None = None
    """None: nobody is told of a job's end but by looking."""
    clusters: Annotated[dict[ClusterName, ClusterSettings], Field(min_length=1, max_length=256)]

    _folder: Path = PrivateAttr(default_factory=Path.cwd)
    """The settings file's own, which relative paths start from."""

    def model_post_init(self, context: Any) -> None:
        self._folder = (context or {}).get("folder", self._folder)

    def cluster(self, name: str) -> ClusterSettings:
        """One cluster; Misconfigured, with the names known, when there is none of that name."""
        if name not in self.clusters:
            raise Misconfigured(f"no cluster {name[:80]!r} in the settings; known are {', '.join(sorted(self.clusters))}.")
        return self.clusters[name]

    def dialect(self, cluster: str) -> Dialect:
        """What this cluster's logs are read with. Misconfigured, with file and line, when a file of signatures can't be used."""
        one = self.cluster(cluster)
        return Dialect.load([file for file in (self.signatures, one.signatures) if file is not None], one.steps)

    def kernel_log_template(self, cluster: str) -> str | None:
        """Absolute path with `{node}` in it, or None where the cluster has no kernel logs as files."""
        one = self.cluster(cluster)
        template = one.kernel_log
        if isinstance(one.scheduler, LocalScheduler):
            template = (template or LOCAL_KERNEL_LOG).replace("{folder}", str(one.scheduler.folder))
        return None if template is None else os.path.normpath(self._folder / Path(template).expanduser())

    def audit_url(self, environ: Mapping[str, str] | None = None) -> URL:
        """Where the audit is kept; a file `audit.db` in the state folder by default. Misconfigured when a variable is missing."""
        if self.audit is None:
            return URL.create("sqlite", database=str(self.state / AUDIT_FILE))
        url = _audit_parts(self.audit)
        if url.password is not None:
            password = expanded(str(url.password), os.environ if environ is None else environ, "audit")
            url = url.set(password=password)
        if url.get_backend_name() == "sqlite" and url.database:
            url = url.set(database=os.path.normpath(self._folder / Path(url.database).expanduser()))
        return url

    def shown(self) -> dict[str, Any]:
        """The settings as plain values for printing: passwords masked, of web addresses only the host."""
        plain = self.model_dump(mode="json", exclude={"audit"})
        audit = self.audit_url(dict.fromkeys(variables(self.audit or ""), "***"))
        plain["audit"] = audit.render_as_string(hide_password=True)
        return plain
