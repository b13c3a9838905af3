"""Who rerail is on another machine: a user and what proves it, a key, a certificate over it, or an agent."""

import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from paramiko.pkey import UnknownKeyType

from rerail.errors import Misconfigured

MOST_AGENT_KEYS = 5
"""OpenSSH takes six tries (MaxAuthTries) and then hangs up."""


@dataclass(frozen=True)
class Identity:
    """Key and certificate are read anew for each connection, so those that are renewed each hour are taken up."""

    user: str
    key: Path | None = None
    certificate: Path | None = None
    """As `ssh-keygen -s` writes it; by default KEY-cert.pub, where there is one."""
    agent: bool = False
    """Keys of the agent at SSH_AUTH_SOCK, where no key is named."""

    @contextmanager
    def proofs(self) -> Iterator[Sequence[paramiko.PKey]]:
        """What to try, in order; Misconfigured when there is nothing, or nothing that can be used. Those of an agent are good
        while this is open."""
        if self.key:
            yield (self._own(self.key),)
            return
        if not self.agent:
            raise Misconfigured(f"nothing proves that rerail is {self.user}: set `key`, or `agent: true`")
        agent = paramiko.Agent()
        try:
            offered = agent.get_keys()[:MOST_AGENT_KEYS]
            if not offered:
                raise Misconfigured(f"nothing proves that rerail is {self.user}: the agent at SSH_AUTH_SOCK has no keys")
            yield offered
        finally:
            agent.close()

    def _own(self, file: Path) -> paramiko.PKey:
        try:
            if stat.S_IMODE(file.stat().st_mode) & 0o077:
                raise Misconfigured(f"the key {file} can be read by others than its owner; chmod 600 {file}")
            key = paramiko.PKey.from_path(file)
            if self.certificate:
                key.load_certificate(str(self.certificate))
        except OSError as error:
            raise Misconfigured(f"{error.filename or file} cannot be read ({error.strerror}); check `key`") from None
        except TypeError:  # so cryptography says that it wants a password
            raise Misconfigured(f"the key {file} has a passphrase; load it into an agent and set `agent: true`") from None
        except (paramiko.SSHException, UnknownKeyType, ValueError, UnsupportedAlgorithm):
            what = f"{file} or its certificate is" if self.certificate else f"{file} is"
            raise Misconfigured(f"{what} no private key that is understood; make one with `ssh-keygen -t ed25519`") from None
        return key

    def __str__(self) -> str:
        return f"{self.user} by {self.key or 'the agent'}"
