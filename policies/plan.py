"""From verdict and circumstances to a plan."""

import hashlib
import json

from policies import resubmission
from policies.circumstances import Circumstances
from policies.rules import RULES, Proposal
from policies.wishes import wishes
from rerail.records import Mode, Owner, Plan, StepKind, Verdict

HARMLESS = frozenset({StepKind.TELL, StepKind.NOTHING, StepKind.WATCH})
"""Steps that change nothing: nobody has to approve them."""

SECOND_OWNER = "second-owner"


def plan(verdict: Verdict, around: Circumstances) -> Plan:
    """The plan of the first rule that applies; the last one always does."""
    name, proposal = next((rule.name, p) for rule in RULES if (p := rule.propose(verdict, around)))
    if around.facts.owner and changes(proposal):
        name, proposal = SECOND_OWNER, advice(proposal, around.facts.owner)
    kinds = {step.kind for step in proposal.steps}
    excluded = {n for step in proposal.steps if step.kind is StepKind.EXCLUDE for n in step.nodes}
    return Plan(
        id=digest(verdict, around, proposal),
        rule=name,
        steps=proposal.steps,
        ask=asks(around) and not kinds <= HARMLESS,
        reasons=tuple(r for r in proposal.reasons if r),
        refusal=proposal.refusal,
        requeue_until=around.facts.job.requeue_until,
        nodes_needed=around.facts.job.nodes_needed,
        nodes_eligible=len(set(around.facts.eligible_nodes) - excluded),
        lifts=StepKind.RESTART in kinds and not around.facts.job.requeue and around.permits.lift_no_requeue,
        again=resubmission.command(around.facts.job, around.script, excluded or verdict.culprit_nodes),
    )


def changes(proposal: Proposal) -> bool:
    """True when a step of it would change something."""
    return not {step.kind for step in proposal.steps} <= HARMLESS


def advice(proposal: Proposal, owner: Owner) -> Proposal:
    """What would have been proposed, as a refusal: two owners of restarts are one too many."""
    would = ", then ".join(" ".join([step.kind, *step.nodes]) for step in proposal.steps if step.kind not in HARMLESS)
    text = f"{owner.name} looks after this job's restarts ({owner.evidence}); rerail only advises: it would have proposed {would}"
    return Proposal(refusal=text, reasons=proposal.reasons)


def asks(around: Circumstances) -> bool:
    """A job may wish that a person is asked where the cluster's mode would not; never the other way round."""
    return around.mode is Mode.MONITOR or wishes(around.facts.job.comment).asks


def digest(verdict: Verdict, around: Circumstances, proposal: Proposal) -> str:
    """Eight hex digits over what an approval is given for: attempt, verdict and steps."""
    facts = [
        str(around.anomaly.attempt),
        verdict.kind,
        verdict.fault,
        verdict.cause,
        [[step.kind, *step.nodes] for step in proposal.steps],
        proposal.refusal,
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:8]
