"""What Slurm's commands say when they don't do it, and which of our errors that is."""

from dataclasses import dataclass

from rerail.errors import Misconfigured, NoSuchJob, OutcomeUnknown, Refused, RerailError, Transient

LONGEST = 200
"""Characters of Slurm's own words in a message of ours."""

NOT_PENDING = "Job is no longer pending execution"
ENDED = "Job/step already completing or completed"
NOT_CANCELLED = "Kill job error"
NO_RIGHT = "Invalid user id"
NO_NODE = "Invalid node name"
UNKNOWN_NODE = " not found"
NOT_DRAINED = "Invalid node state specified"


@dataclass(frozen=True)
class Answer:
    """A piece of Slurm's text, our error, and the next step."""

    text: str
    error: type[RerailError]
    next_step: str


ANSWERS = (
    Answer("Invalid job id specified", NoSuchJob, "Slurm does not know this job (any more); `sacct -j` may"),
    Answer("Requested operation is presently disabled", Refused, "the owner or the site forbids a requeue; submit it again"),
    Answer("Only batch jobs are accepted", Refused, "an srun or salloc job can't be requeued; its owner has to start it again"),
    Answer("Job not heterogeneous job leader", Refused, "name the leader of the heterogeneous job"),
    Answer("Job is pending execution", Refused, "it waits already; read it again"),
    Answer(NOT_PENDING, Refused, "it started meanwhile; read it again"),
    Answer(ENDED, Refused, "it has ended already; read it again"),
    Answer("Job has already finished", Refused, "it has ended already; read it again"),
    Answer(NO_NODE, Refused, "a node of the list is none of this cluster; compare with `sinfo -N`"),
    Answer("Requested node configuration is not available", Refused, "too few nodes would remain for the job"),
    Answer("Access/permission denied", Misconfigured, "rerail's user needs Slurm's AdminLevel=Operator for jobs of others"),
    Answer(NO_RIGHT, Misconfigured, "rerail's user needs Slurm's AdminLevel=Operator for jobs of others"),
    Answer("Could not establish a configuration source", Misconfigured, "no slurm.conf was found; set its path"),
    Answer("Unable to process configuration file", Misconfigured, "slurm.conf can't be read"),
    Answer("Unable to contact slurm controller", Transient, "is slurmctld running? `scontrol ping` tells"),
    Answer("Slurm backup controller in standby mode", Transient, "the controllers are failing over"),
    Answer("can not be altered now, try again later", Transient, "Slurm is busy with this job"),
    Answer("Protocol authentication error", Transient, "does munge run on this host?"),
    # The request was sent and no answer came: it may have been done.
    Answer("Socket timed out", OutcomeUnknown, "slurmctld took the request and did not answer; read the job again"),
    Answer("Zero Bytes were transmitted or received", OutcomeUnknown, "slurmctld closed the connection; read the job again"),
    Answer("Transport endpoint is not connected", OutcomeUnknown, "the connection broke; read the job again"),
)


def error_of(command: str, rc: int, said: str) -> RerailError:
    """The error that a command's words stand for; words that nobody knows are a refusal, told as they are."""
    words = printable(said) or f"ended with {rc}"
    for answer in ANSWERS:
        if answer.text in said:
            return answer.error(f"{command}: {words}: {answer.next_step}")
    return Refused(f"{command}: {words}: nothing was changed as far as Slurm says; read the job again")


def printable(text: str) -> str:
    """On one line, bounded, without control characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in text[: LONGEST * 4]).split())[:LONGEST]
