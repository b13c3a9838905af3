"""The settings file `rerail.yaml`, read once at the edge into a frozen, typed value: `load(path) -> Settings`."""

from workers.settings.reader import DEFAULT_NAME, ENVIRONMENT_NAME, find, load
from workers.settings.shape import (
    Approval,
    ChannelSettings,
    ClusterSettings,
    CommandChannel,
    Hang,
    IntakeSettings,
    LocalScheduler,
    SchedulerSettings,
    Scope,
    Settings,
    SlurmScheduler,
    Ssh,
    SshIdentity,
    SshJump,
    TemporalSettings,
    WebhookChannel,
)

__all__ = [
    "DEFAULT_NAME",
    "ENVIRONMENT_NAME",
    "Approval",
    "ChannelSettings",
    "ClusterSettings",
    "CommandChannel",
    "Hang",
    "IntakeSettings",
    "LocalScheduler",
    "SchedulerSettings",
    "Scope",
    "Settings",
    "SlurmScheduler",
    "Ssh",
    "SshIdentity",
    "SshJump",
    "TemporalSettings",
    "WebhookChannel",
    "find",
    "load",
]
