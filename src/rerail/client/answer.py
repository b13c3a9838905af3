"""What somebody who decided gets back."""

from rerail.records import Record, Verb


class Answer(Record):
    """A decision that was handed over: taken already (`update`), or kept until a worker returns (`signal`)."""

    incident: str
    verdict: Verb
    plan: str = ""
    """The plan that it was given for; empty for a rejection of whatever is proposed."""
    way: str
    """update or signal."""
    text: str
    """One sentence."""
