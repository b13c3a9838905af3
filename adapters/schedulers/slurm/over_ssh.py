"""Commands on a login node, over SSH, as up to three users: who reads does not act, who acts on jobs does not touch nodes.

What may be sent at all is the table of `rerail.gate`, whether or not a gate stands on the other side.
"""

import math
import shlex
from collections.abc import Mapping, Sequence

from adapters.schedulers.slurm.answers import printable
from adapters.schedulers.slurm.in_cluster import SEARCH_PATH
from adapters.schedulers.slurm.runner import ENVIRONMENT, Ran
from adapters.ssh.command import Ended, run
from adapters.ssh.connection import Connection
from rerail import gate
from rerail.errors import Misconfigured, OutcomeUnknown, Refused
from rerail.ports import Right

RIGHTS = {gate.READER: Right.READ, gate.OPERATOR: Right.OPERATE, gate.ADMIN: Right.ADMINISTER}
"""A role of the gate, and what it is good for."""

NO_TIME = (124, 137)
"""How `timeout` ends when it had to stop the command, the second time by force."""


class OverSsh:
    """Implements `Runner`. `ways` has a connection for each role that is set up; `gated` tells that their keys are bound to
    rerail-gate. Without a gate the login shell starts the commands, in an environment of ours."""

    def __init__(
        self, ways: Mapping[str, Connection], *, gated: bool, slurm_conf: str = "", search_path: str = SEARCH_PATH
    ) -> None:
        self._ways = dict(ways)
        self._gated = gated
        self._environment = [f"PATH={search_path}", *(f"{name}={value}" for name, value in ENVIRONMENT.items())]
        self._environment += [f"SLURM_CONF={slurm_conf}"] if slurm_conf else []

    def rights(self) -> frozenset[Right]:
        """Those whose identity is set up."""
        return frozenset(RIGHTS[role] for role in self._ways)

    def users(self) -> dict[str, str]:
        """Who each role is on the login nodes."""
        return {role: way.identity.user for role, way in self._ways.items()}

    def probe(self, role: str, deadline_s: float) -> None:
        """Misconfigured or Transient unless the role's key opens the way; nothing else happens."""
        way = self._ways[role]
        ended = run(way, gate.WHO if self._gated else "true", deadline_s)
        roles = self._gate_said(ended, way).stdout.decode("utf-8", "replace").split() if self._gated else [role]
        if ended.status or role not in roles:
            raise Misconfigured(f"the key of {way.identity.user} is not bound to `rerail-gate --role {role}` in authorized_keys")

    def run(self, argv: Sequence[str], deadline_s: float) -> Ran:
        """As the port says."""
        asked = gate.understood(tuple(argv))
        if asked is None:
            raise Refused(f"{shlex.join(argv)[:120]!r} is no command that rerail sends over SSH; see the table of rerail-gate")
        way = self._ways.get(asked.role)
        if way is None:
            raise Misconfigured(f"this takes the identity `{asked.role}`, which is not set up; add it under scheduler.slurm.ssh")
        ended = run(way, self.line(argv, deadline_s), deadline_s)
        return self._gate_said(ended, way) if self._gated else self._shell_said(argv[0], ended, way)

    def line(self, argv: Sequence[str], deadline_s: float) -> str:
        """The one string that SSH carries: quoted words, which a shell cuts into the same words again. Refused when too long."""
        apart = [] if self._gated else ["env", "-i", *self._environment, "timeout", "-k", "1", f"{math.ceil(deadline_s)}"]
        made = shlex.join([*apart, *argv])
        if len(made.encode()) > gate.MOST_REQUEST:
            raise Refused(f"{argv[0]}: a request of more than {gate.MOST_REQUEST} bytes; fewer nodes at once")
        return made

    def _gate_said(self, ended: Ended, way: Connection) -> Ran:
        said = printable(ended.stderr[:600].decode("utf-8", "replace"))
        if ended.status == gate.REFUSED and said.startswith(gate.SAYS):
            raise Misconfigured(f"{way.identity.user}: {said}; the key in authorized_keys needs another --role, or a newer gate")
        if ended.status in (gate.REFUSED, gate.MISSING):
            what = said if said.startswith(gate.SAYS) else "the forced command could not be started; is rerail-gate there?"
            raise Misconfigured(f"{way.identity.user}: {what}")
        return Ran(ended.status, ended.stdout, ended.stderr)

    def _shell_said(self, command: str, ended: Ended, way: Connection) -> Ran:
        if ended.status in (gate.REFUSED, gate.MISSING):
            raise Misconfigured(f"{way.identity.user} finds no command {command} on the login node; set `bin`, or see its shell")
        if ended.status in NO_TIME:
            raise OutcomeUnknown(f"{command} did not end in time on the login node and was stopped there")
        return Ran(ended.status, ended.stdout, ended.stderr)
