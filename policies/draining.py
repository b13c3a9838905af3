"""May a node be taken away from everybody? A second and stricter decision than to keep one job away from it.

Off unless the cluster's settings say `drain: ask`; then only on what the node's own kernel says of a part that has failed for
good; and then only where a person approves the drain itself.
"""

from policies.circumstances import Circumstances
from rerail.records import Drain, Role, Step, StepKind, Verdict

DETERMINISTIC = frozenset(
    {
        "xid.48",  # double-bit memory error
        "xid.79",  # fallen off the bus
        "xid.95",  # uncontained memory error
        "xid.119",  # the GPU's system processor does not answer
        "xid.120",  # the same processor failed
        "xid.140",  # uncorrectable memory error
        "gpu.sxid_fatal",  # an NVSwitch
    }
)
"""Signatures that convict a node at the first sight of them. An Xid 31 or 13 is the program's doing and never does: nodes were
cordoned for them elsewhere (NVIDIA/NVSentinel#911)."""


def may_drain(setting: Drain, verdict: Verdict) -> bool:
    """True when a drain is on the table, so that it is worth asking whether we have the right."""
    return setting is Drain.ASK and bool(proved(verdict))


def drain_step(verdict: Verdict, around: Circumstances) -> Step | None:
    """The drain to be asked for; None where there is no ground for one."""
    if not may_drain(around.drain, verdict) or wanders(verdict, around) or around.facts.cannot_drain:
        return None
    why = f"{verdict.cause} in the node's own kernel log: no job should land there; done only if the approval says so"
    return Step(kind=StepKind.DRAIN, nodes=proved(verdict), why=why)


def not_drained(verdict: Verdict, around: Circumstances) -> str:
    """What a reader should know where a drain would be asked for and can't be had; else empty."""
    if not may_drain(around.drain, verdict) or wanders(verdict, around):
        return ""
    why = around.facts.cannot_drain
    return f"{', '.join(proved(verdict))} should be drained, and rerail can't: {why}" if why else ""


def proved(verdict: Verdict) -> tuple[str, ...]:
    """Culprits with a line of that kind in their own kernel log: what a job's log says of a node is a stranger's word."""
    lines = {
        e.node
        for e in verdict.evidence
        if e.signature in DETERMINISTIC and e.role is Role.ROOT and e.source == f"dmesg/{e.node}.log"
    }
    return tuple(node for node in verdict.culprit_nodes if node in lines)


def wanders(verdict: Verdict, around: Circumstances) -> bool:
    """True when this job has met the same failure on other nodes: that convicts the job (one drain per retry: ROCm/spur#520)."""
    met = {node for r in around.history if r.cause == verdict.cause for node in r.nodes}
    return bool(met - set(verdict.culprit_nodes))
