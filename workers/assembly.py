"""The only place that chooses adapters: from settings to ports, from ports to activities, from activities to workers."""

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker

from activities.acting import Acting
from activities.evidence import Sources
from activities.judging import Judging, Terms
from activities.messaging import Messaging
from activities.nodes import Nodes
from activities.recording import Recording
from activities.scope import Scope
from activities.verifying import Verifying
from activities.view import ClusterView
from activities.watching import Watching
from adapters.audit.store import AuditStore
from adapters.channels.command import Command
from adapters.channels.webhook import Webhook
from policies.permits import Permits
from rerail import names
from rerail.ports import Channel, Scheduler
from workers.settings import CommandChannel, Settings
from workers.way import Way, way
from workflows.guard_cluster import GuardCluster
from workflows.remediate_job import RemediateJob
from workflows.watch_cluster import WatchCluster
from workflows.watch_job import WatchJob

WORKFLOWS = (WatchCluster, WatchJob, RemediateJob, GuardCluster)

BUILD = "rerail"
"""What marks our workers in histories. Temporal's default is a digest of 32 letters, of all that is imported, in most events."""

FOLLOWED_MAX = 2000
"""Jobs that one detect process follows at once. The detectors of 1,000 cost 0.4 of a core at 20 lines a second each
(bench/live.py)."""

GRACE = timedelta(seconds=5)
"""How long an effect under way may go on at a shutdown. Reads get no grace: they are cut off and go on elsewhere."""

THREADS = 32
"""Activities of one queue that block at once; those that watch are coroutines and need none."""


def channels(settings: Settings) -> tuple[Channel, ...]:
    """The ways to tell people."""
    made: list[Channel] = []
    for number, channel in enumerate(settings.channels):
        if isinstance(channel, CommandChannel):
            made.append(Command(channel.argv, name=f"command-{number}", timeout_s=channel.timeout_s))
        else:
            webhook = Webhook(channel.address(), channel.secret(), name=f"webhook-{number}", deadline_s=channel.deadline_s)
            made.append(webhook)
    return tuple(made)


@dataclass(frozen=True)
class Assembly:
    """Everything that the roles need, built once from the settings."""

    settings: Settings
    client: Client

    @cached_property
    def ways(self) -> dict[str, Way]:
        return {name: way(name, cluster) for name, cluster in self.settings.clusters.items()}

    @cached_property
    def schedulers(self) -> dict[str, Scheduler]:
        return {name: one.scheduler for name, one in self.ways.items()}

    @cached_property
    def views(self) -> dict[str, ClusterView]:
        return {name: ClusterView(s, self.settings.clusters[name].interval_s) for name, s in self.schedulers.items()}

    @cached_property
    def audit(self) -> AuditStore:
        self.settings.state.mkdir(parents=True, exist_ok=True)
        return AuditStore(self.settings.audit_url())

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        return channels(self.settings)

    @cached_property
    def sources(self) -> dict[str, Sources]:
        return {n: Sources(w.scheduler, w.logs, w.hosts(self.settings.kernel_log_template(n))) for n, w in self.ways.items()}

    @property
    def ui(self) -> str:
        return self.settings.temporal.ui or ""

    # Roles

    def control(self) -> list[Worker]:
        """Workflows, the record, telling, and acting."""
        recording = Recording(self.audit, self.channels, self.client, self.ui)
        messaging = Messaging(self.client, tells=bool(self.channels))
        acting = Acting(self.schedulers, self.audit, self.client)
        acts = [*methods(acting), *methods(Nodes(self.schedulers, self.audit, self.client))]
        activities = [*methods(recording), *methods(messaging)]
        control = self.worker(names.CONTROL_QUEUE, activities, workflows=WORKFLOWS, grace=GRACE)
        return [control, *(self.worker(names.act_queue(c), acts, grace=GRACE) for c in self.schedulers)]

    def detect(self) -> list[Worker]:
        """Watching, judging and verifying: all that reads the clusters."""
        scopes = {n: Scope(**c.scope.model_dump()) for n, c in self.settings.clusters.items()}
        floors = {n: c.hang.floor_s for n, c in self.settings.clusters.items()}
        dialects = {n: self.settings.dialect(n) for n in self.settings.clusters}
        steps = {n: dialect.steps for n, dialect in dialects.items()}
        watching = Watching(self.views, {n: s.logs for n, s in self.sources.items()}, scopes, floors, steps)
        judging = Judging(self.sources, self.terms(), self.audit, self.settings.state / "bundles", dialects)
        verifying = Verifying(self.views, self.sources, steps)
        activities = [*methods(watching), *methods(judging), *methods(verifying)]
        return [self.worker(names.detect_queue(c), activities, slots=FOLLOWED_MAX) for c in self.schedulers]

    def terms(self) -> dict[str, Terms]:
        return {
            name: Terms(
                mode=c.mode,
                expires_s=c.approval.expires_s,
                remind_s=c.approval.remind_s,
                permits=Permits(**c.restart.model_dump()),
                drain=c.drain,
                comment=c.comment,
            )
            for name, c in self.settings.clusters.items()
        }

    def worker(
        self,
        queue: str,
        activities: Sequence[Callable[..., Any]],
        *,
        workflows: Sequence[type] = (),
        slots: int = THREADS,
        grace: timedelta = timedelta(0),
    ) -> Worker:
        with warnings.catch_warnings():  # more slots than threads are meant: watching needs none
            warnings.filterwarnings("ignore", "Worker max_concurrent_activities", UserWarning)
            return Worker(
                self.client,
                task_queue=queue,
                activities=activities,
                workflows=workflows,
                activity_executor=ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix=queue),
                max_concurrent_activities=slots,
                graceful_shutdown_timeout=grace,
                max_heartbeat_throttle_interval=timedelta(seconds=5),
                build_id=BUILD,
            )


def methods(activities: object) -> list[Callable[..., Any]]:
    """The activities of a class, bound to one object."""
    bound = (getattr(activities, name) for name in dir(type(activities)) if not name.startswith("_"))
    return [method for method in bound if hasattr(method, "__temporal_activity_definition")]
