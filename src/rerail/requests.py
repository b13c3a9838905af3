"""Messages that people type: read leniently, judged strictly, refused with a sentence that tells what to send."""

import re
from typing import Any, TypeVar

from pydantic import ValidationError

from rerail.records import Decision, Record, Verb

R = TypeVar("R", bound=Record)

TEXT_MAX = 500
"""Characters of a name or a reason."""
PLAN_MAX = 64
"""Characters of a plan's id, as a person repeats it."""

DECISION_FORM = '{"verdict": "approve" or "reject", "reason": "why", "by": "your name"}'
READMIT_FORM = '{"node": "gpu-02", "by": "your name", "reason": "why"}'
NODE_MAX = 253
"""Characters of a host's name."""
REQUEST_FORM = '{"by": "your name", "reason": "why"}'


JOB_FORM = '{"job_id": "41001", "by": "your name", "reason": "why"}'
JOB_ID_MAX = 64
"""Characters of a job id in any scheduler's dialect."""


class Refusal(ValueError):
    """What a person sent can't be taken. One sentence says why and what to send; it travels without a stack trace."""


class JobRequest(Record):
    """Which job a person means, who asks, and why."""

    job_id: str
    by: str = ""
    reason: str = ""


class NodeRequest(Record):
    """Which node a person means, who asks, and why."""

    node: str
    by: str
    reason: str


class Request(Record):
    """Who wants something, and why."""

    by: str
    reason: str


def read_request(message: Any) -> Request:
    """The request in a message of any shape; Refusal with a sentence."""
    fields = as_fields(message, REQUEST_FORM)
    return Request(by=text(fields, "by", REQUEST_FORM), reason=text(fields, "reason", REQUEST_FORM))


def read_node_request(message: Any) -> NodeRequest:
    """The request in a message of any shape; a node's name is letters, digits and . _ - only. Refusal with a sentence."""
    fields = as_fields(message, READMIT_FORM)
    node, by, reason = (text(fields, key, READMIT_FORM) for key in ("node", "by", "reason"))
    if len(node) > NODE_MAX or not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", node):
        raise Refusal("that is no node's name: letters, digits and . _ - only, as the scheduler prints it")
    return NodeRequest(node=node, by=by, reason=reason)


def read_job_request(message: Any) -> JobRequest:
    """The request in a message of any shape; a job id is letters, digits and . _ + - [ ] only. Refusal with a sentence."""
    fields = as_fields(message, JOB_FORM)
    job_id = text(fields, "job_id", JOB_FORM)
    if len(job_id) > JOB_ID_MAX or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+\[\]-]*", job_id):
        raise Refusal("that is no job id: letters, digits and . _ + - only, as the scheduler prints it")
    said = {key: text(fields, key, JOB_FORM) for key in ("by", "reason") if fields.get(key)}
    return JobRequest(job_id=job_id, **said)


def read_decision(message: Any, verb: Verb | None = None) -> Decision:
    """The decision in a message of any shape; `verb` is given where the message's name says it. Refusal with a sentence."""
    fields = as_fields(message, DECISION_FORM)
    said = verb or read_verb(fields)
    plan = fields.get("plan", "")
    if not isinstance(plan, str) or len(plan) > PLAN_MAX:
        raise Refusal(f"plan has to be the text shown with the proposal; send {DECISION_FORM}")
    reason, by = text(fields, "reason", DECISION_FORM), text(fields, "by", DECISION_FORM)
    return Decision(verdict=said, reason=reason, by=by, plan=printable(plan), drain=read_drain(fields, said))


def read_drain(fields: dict[str, Any], verb: Verb) -> bool:
    """A node is taken away from everybody only by a plain true in an approval."""
    drain = fields.get("drain", False)
    if not isinstance(drain, bool):
        raise Refusal(f'drain has to be true or false, without quotes; send {DECISION_FORM[:-1]}, "drain": true}}')
    if drain and verb is Verb.REJECT:
        raise Refusal("a rejection drains nothing: leave drain out")
    return drain


def only(messages: tuple[Any, ...], form: str = DECISION_FORM) -> Any:
    """The one argument of a message: people send none or several as well. ValueError with a sentence."""
    if len(messages) != 1:
        raise Refusal(f"a JSON object is needed, not {len(messages) or 'no'} arguments; send {form}")
    return messages[0]


def read_record(kind: type[R], messages: tuple[Any, ...]) -> R:
    """The record in a message between workflows; a person may send anything by the same name. Refusal with a sentence."""
    try:
        return kind.model_validate(only(messages, f"the JSON of a record {kind.__name__}"))
    except ValidationError as error:
        raise Refusal(f"that is no {kind.__name__}: {error.error_count()} fields are missing or wrong") from None


def as_fields(message: Any, form: str) -> dict[str, Any]:
    if isinstance(message, Record):
        return message.model_dump()
    if not isinstance(message, dict):
        raise Refusal(f"a JSON object is needed, not {type(message).__name__}; send {form}")
    return message


def read_verb(fields: dict[str, Any]) -> Verb:
    said = fields.get("verdict")
    if not isinstance(said, str) or said not in set(Verb):
        raise Refusal(f'verdict has to be "approve" or "reject"; send {DECISION_FORM}')
    return Verb(said)


def text(fields: dict[str, Any], key: str, form: str) -> str:
    """A required text, bounded, without control characters."""
    value = fields.get(key)
    if isinstance(value, str) and len(value) > TEXT_MAX:
        raise Refusal(f"{key} is longer than {TEXT_MAX} characters; say it shorter")
    said = printable(value) if isinstance(value, str) else ""
    if not said:
        raise Refusal(f"{key} is required; send {form}")
    return said


def printable(value: str) -> str:
    """The text without control characters, which must never reach a terminal."""
    return "".join(c if c.isprintable() else " " for c in value).strip()
