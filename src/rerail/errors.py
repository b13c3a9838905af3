"""Two kinds of error; what is foreign stops at the adapter.

    RerailError
    ├── Transient            try again later: the world did not answer
    │   ├── Unreachable      Temporal or its workers do not answer
    │   ├── NotYet           what was waited for did not happen in time
    │   ├── Unreadable       a source could not be read; nothing is known, and nothing is "gone"
    │   └── OutcomeUnknown   an effect may or may not have happened: look, never repeat blindly
    └── Permanent            trying again will not help: a person or a policy has to act
        ├── Malformed        what was asked for can't be understood; the message shows the form
        ├── NotFound         nothing goes by that name
        │   └── NoSuchJob    the scheduler does not know the job (any more)
        ├── Refused          the scheduler said no, and why
        └── Misconfigured    settings, rights or tools are missing; the message says which

Messages are one bounded sentence that tells the next step, and never carry a secret.
"""


class RerailError(Exception):
    """What rerail raises."""


class Transient(RerailError):
    """The world did not answer; a retry may help."""


class Unreachable(Transient):
    """Temporal or its workers do not answer."""


class NotYet(Transient):
    """What was waited for did not happen in time."""


class Unreadable(Transient):
    """A source could not be read: unknown, never "gone"."""


class OutcomeUnknown(Transient):
    """An effect may have happened; look before anything is repeated."""


class Permanent(RerailError):
    """A retry will not help."""


class Malformed(Permanent):
    """What was asked for can't be understood."""


class NotFound(Permanent):
    """Nothing goes by that name."""


class NoSuchJob(NotFound):
    """The scheduler does not know the job."""


class Refused(Permanent):
    """The scheduler refused, with its reason."""


class Misconfigured(Permanent):
    """Settings, rights or tools are missing."""
