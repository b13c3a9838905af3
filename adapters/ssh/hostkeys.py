"""Pinned host keys: a known_hosts file of rerail's own. A host that is not in it, or shows another key, is never spoken to."""

from pathlib import Path

import paramiko

from adapters.ssh.address import Address
from rerail.errors import Misconfigured

MOST_BYTES = 1 << 20
_ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}
"""An RSA key is used by these algorithms; others are named as their keys are."""


class HostKeys:
    """The keys of one file, read anew for each connection: a key that was added there holds at once."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def algorithms(self, address: Address) -> tuple[str, ...]:
        """Those of the host's pinned keys, which are to be preferred: a host has keys of several kinds."""
        pinned = self._read().lookup(address.known_as) or ()
        return tuple(name for kind in pinned for name in _ALGORITHMS.get(kind, (kind,)))

    def check(self, address: Address, key: paramiko.PKey) -> None:
        """Misconfigured, with the fingerprint and what to do, unless it is a pinned key of that host."""
        pinned = self._read().lookup(address.known_as)
        shown = f"{address} shows the host key {key.get_name()} {key.fingerprint}"
        if not pinned:
            raise Misconfigured(
                f"{shown}, and {self._file} has no key of {address.known_as}: compare it with `ssh-keygen -lf FILE.pub` over "
                f"/etc/ssh on that host; if it is the same, add its line from `ssh-keyscan -p {address.port} {address.host}`"
            )
        if all(bytes(one) != bytes(key) for one in pinned.values()):
            kept = ", ".join(f"{one.get_name()} {one.fingerprint}" for one in pinned.values())
            raise Misconfigured(
                f"{shown}, and {self._file} has another one ({kept}): somebody may stand in between. Nothing was sent; ask the "
                f"host's administrator, and only if its key was changed take the old line out with "
                f"`ssh-keygen -f {self._file} -R '{address.known_as}'` and add the new one"
            )

    def _read(self) -> paramiko.HostKeys:
        try:
            with self._file.open("rb") as stream:
                text = stream.read(MOST_BYTES + 1)
        except OSError as error:
            why = f"known_hosts {self._file} cannot be read ({error.strerror})"
            raise Misconfigured(f"{why}; pin the hosts' keys there") from None
        if len(text) > MOST_BYTES:
            raise Misconfigured(f"known_hosts {self._file} is larger than {MOST_BYTES} bytes; give a file of rerail's own")
        keys = paramiko.HostKeys()
        for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1):
            self._add(keys, line.strip(), number)
        return keys

    def _add(self, keys: paramiko.HostKeys, line: str, number: int) -> None:
        if not line or line.startswith("#"):
            return
        if line.startswith("@"):  # to pass over @revoked would be to trust the key
            raise Misconfigured(
                f"{self._file}, line {number}: {line.partition(' ')[0]} is not understood; pin the hosts' own keys"
            )
        try:
            entry = paramiko.hostkeys.HostKeyEntry.from_line(line, number)
        except paramiko.SSHException:
            entry = None
        if entry is None or entry.key is None:
            raise Misconfigured(f"{self._file}, line {number}: no host key that is understood; expected HOST TYPE KEY")
        for name in entry.hostnames or ():
            keys.add(name, entry.key.get_name(), entry.key)
