"""One command on the other side: its exit status and all that it printed, or the honest word that nobody knows."""

from dataclasses import dataclass

import paramiko

from adapters.ssh.connection import Connection, Session
from adapters.ssh.deadline import Deadline, Guard
from adapters.ssh.link import reason
from rerail.errors import OutcomeUnknown

MOST_OUTPUT = 256 * 1024 * 1024
"""Bytes of one command; 10,000 jobs are about 40 MB of Slurm's JSON, more is a mistake or an attack."""
LOOK_S = 0.25
"""Seconds between looks at standard error while standard output is silent; so nothing waits for room there for longer."""
PIECE = 1 << 20
LOST = -1
"""paramiko's exit status when the channel closed and told none: sshd died, or a signal ended the command."""


@dataclass(frozen=True)
class Ended:
    """A command that ran to its end."""

    status: int
    stdout: bytes
    stderr: bytes


def run(connection: Connection, line: str, deadline_s: float, most_output: int = MOST_OUTPUT) -> Ended:
    """`line` is what SSH carries: one string, which the other side's shell or gate cuts into words.

    Transient when it surely did not start; OutcomeUnknown when it may have: no answer by the deadline, the link lost, no status.
    """
    deadline = Deadline.after(deadline_s)
    with connection.session(deadline) as session:
        try:
            _start(session, line, deadline)
            stdout, stderr = _printed(session.channel, deadline, most_output)
            status = _status(session.channel, deadline)
        except TimeoutError:
            connection.distrust(session.link)
            raise OutcomeUnknown(f"no answer from {session.link.address} within {deadline_s:g} s") from None
        except (paramiko.SSHException, EOFError, OSError) as error:
            connection.distrust(session.link)
            raise OutcomeUnknown(f"the link to {session.link.address} broke in mid-command: {reason(error)}") from None
        if status == LOST:
            raise OutcomeUnknown(f"{session.link.address} told no exit status: the link broke, or the command was killed")
        return Ended(status, stdout, stderr)


def _start(session: Session, line: str, deadline: Deadline) -> None:
    try:
        with Guard(deadline, session.link.close):  # exec_command waits for ever
            session.channel.exec_command(line)
            session.channel.shutdown_write()
    except (paramiko.SSHException, EOFError, OSError):
        if deadline.passed:
            raise TimeoutError from None
        raise


def _printed(channel: paramiko.Channel, deadline: Deadline, most: int) -> tuple[bytes, bytes]:
    """Both streams to their end; TimeoutError at the deadline."""
    stdout, stderr = bytearray(), bytearray()
    over = False
    while not over:
        if deadline.passed:
            raise TimeoutError
        channel.settimeout(deadline.left(LOOK_S))
        try:
            piece = channel.recv(PIECE)
            stdout += piece
            over = not piece
        except TimeoutError:
            pass
        while channel.recv_stderr_ready() and len(stderr) <= most:
            stderr += channel.recv_stderr(PIECE)
        if len(stdout) + len(stderr) > most:
            raise OutcomeUnknown(f"a command printed more than {most} bytes and was left")
    channel.settimeout(deadline.left())
    while (piece := channel.recv_stderr(PIECE)) and len(stderr) <= most:
        stderr += piece
    return bytes(stdout), bytes(stderr)


def _status(channel: paramiko.Channel, deadline: Deadline) -> int:
    if not channel.status_event.wait(deadline.left()):
        raise TimeoutError
    return channel.recv_exit_status()
