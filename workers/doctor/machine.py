"""This machine: Python, the state folder, the audit, the channels."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from adapters.audit.store import AuditStore
from rerail.dialect import Dialect
from rerail.errors import Misconfigured
from workers.doctor.finding import Finding, fail, ok, warn
from workers.settings import CommandChannel, Settings, WebhookChannel

OLDEST_PYTHON = (3, 11)
LOW_DISK_BYTES = 2**30
"""Evidence of an incident is some 10 MB; below this a bad night fills the disk."""


def python(_settings: Settings) -> Iterator[Finding]:
    """Is Python new enough?"""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        yield fail(f"Python {version}", "install Python 3.11 or newer")
    else:
        yield ok(f"Python {version}")


def state_folder(settings: Settings) -> Iterator[Finding]:
    """Can evidence be kept?"""
    folder = settings.state
    if not folder.exists():
        there = next(parent for parent in folder.parents if parent.exists())
        if os.access(there, os.W_OK | os.X_OK):
            yield ok(f"state folder {folder}: will be made at the first start")
        else:
            yield fail(f"state folder {folder} is not there", f"create it, or let this user write in {there}")
        return
    try:
        with tempfile.TemporaryFile(dir=folder):
            yield ok(f"state folder {folder}: can be written")
    except OSError as error:
        yield fail(f"state folder {folder} cannot be written ({error.strerror})", "let the user that runs rerail write there")
        return
    if folder.stat().st_mode & 0o002:
        yield warn(f"state folder {folder} can be written by everybody", f"chmod o-w {folder}")
    free = shutil.disk_usage(folder).free
    if free < LOW_DISK_BYTES:
        yield warn(f"state folder {folder}: {free // 2**20} MiB free", "make room: evidence is copied there")


def audit(settings: Settings) -> Iterator[Finding]:
    """Would the trail take a row?"""
    url = settings.audit_url()
    shown = url.render_as_string(hide_password=True)
    if url.get_backend_name() == "sqlite" and not settings.state.exists() and Path(str(url.database)).parent == settings.state:
        yield ok(f"audit {shown}: will be made at the first start")
        return
    AuditStore(url).check()
    yield ok(f"audit {shown}: takes rows")


def signatures(settings: Settings) -> Iterator[Finding]:
    """Can a site's own rows be used?"""
    for name, cluster in settings.clusters.items():
        if settings.signatures is None and cluster.signatures is None:
            continue
        try:
            own = len(settings.dialect(name).rows) - len(Dialect().rows)
            yield ok(f"cluster {name}: {own} signatures of the site's own")
        except Misconfigured as error:
            yield fail(f"cluster {name}: the site's signatures cannot be used", str(error))


def channels(settings: Settings) -> Iterator[Finding]:
    """Would anybody be told? No message is sent."""
    if not settings.channels:
        yield warn("no notification channel: nobody is told of an incident", "add a webhook or a command under `channels`")
    for channel in settings.channels:
        try:
            yield from _webhook(channel) if isinstance(channel, WebhookChannel) else _command(channel)
        except Misconfigured as error:
            yield fail("channel webhook", str(error))


def _webhook(channel: WebhookChannel) -> Iterator[Finding]:
    parts = urlsplit(channel.address())
    signed = bool(channel.secret())
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        yield warn(f"channel webhook to {parts.hostname}: without encryption", "use https")
    elif not signed:
        yield warn(f"channel webhook to {parts.hostname}: not signed", "set secret_env, unless the receiver needs none")
    else:
        yield ok(f"channel webhook to {parts.hostname}: configured, signed")


def _command(channel: CommandChannel) -> Iterator[Finding]:
    program = channel.argv[0]
    if os.path.isfile(program) and os.access(program, os.X_OK):
        yield ok(f"channel command {program}: can be run")
    else:
        yield fail(f"channel command {program}: not there, or may not be run by this user", "mend channels.command.argv")
