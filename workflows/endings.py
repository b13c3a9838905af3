"""How incidents end, in sentences."""

from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.exceptions import TimeoutError as TimedOut

from rerail.records import Plan, Recorded, Result, StepKind

HARMLESS = frozenset({StepKind.TELL, StepKind.NOTHING})


def without_action(plan: Plan) -> tuple[Result, str] | None:
    """The ending of a plan that does nothing to the scheduler."""
    if plan.refusal:
        return Result.REFUSED, f"nothing was done: {plan.refusal}"
    if {step.kind for step in plan.steps} <= HARMLESS:
        return Result.NO_ACTION, "; ".join(plan.reasons)
    return None


def not_approved(decided: Recorded | None) -> tuple[Result, str]:
    """The ending of a plan that nobody approved."""
    if decided is None:
        return Result.EXPIRED, "expired, nothing done: nobody decided in time"
    decision = decided.decision
    return Result.REJECTED, f"rejected by {decision.by}, nothing done: {decision.reason}"


def called_off(decided: Recorded | None) -> tuple[Result, str]:
    """The ending of an approved plan that a person cancelled before its first effect."""
    by = f" that {decided.decision.by} approved" if decided else ""
    return Result.REJECTED, f"nothing was done: the workflow was cancelled before the plan{by} was begun"


def restart_failed(error: ActivityError, too_late: str) -> tuple[Result, str]:
    """The ending of a restart that could not be brought about."""
    result = Result.VOIDED if type_of(error) == too_late else Result.REFUSED
    return result, f"nothing was done: {cause_of(error)}"


def cause_of(error: BaseException) -> str:
    """The innermost sentence of a failure: a timeout's is the failure that was tried again until then."""
    cause = error.__cause__
    if isinstance(error, ActivityError | TimedOut) and cause is not None:
        return cause_of(cause)
    return error.message if isinstance(error, ApplicationError) else str(error)


def not_found(error: ActivityError, cluster: str) -> ApplicationError:
    """Why a job could not be found for a person: there is none, the scheduler can't be read, or nobody is there to read it."""
    said = type_of(error)
    if said:
        return ApplicationError(cause_of(error), type=said)
    nobody = f"nobody reads the scheduler of {cluster} now; on the service's host `python -m workers detect` (or `up`) does"
    return ApplicationError(nobody, type="Unreadable")


def type_of(error: ActivityError) -> str:
    """The type that the activity gave its failure."""
    cause = error.__cause__
    return (cause.type or "") if isinstance(cause, ApplicationError) else ""
