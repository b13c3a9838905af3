"""A host and the port of its sshd."""

import re
from dataclasses import dataclass

from rerail.errors import Misconfigured

SSH_PORT = 22
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.%]{2,60})\]|([A-Za-z0-9][A-Za-z0-9._-]{0,252}))(?::([0-9]{1,5}))?")


@dataclass(frozen=True)
class Address:
    """Where to connect to."""

    host: str
    port: int = SSH_PORT

    @classmethod
    def parse(cls, text: str) -> "Address":
        """`login1`, `login1:2222`, `[2001:db8::7]:22`; Misconfigured for what is none of these."""
        found = _ADDRESS.fullmatch(text)
        port = int(found[3] or SSH_PORT) if found else 0
        if not found or not 0 < port < 65_536:
            raise Misconfigured(f"{text[:80]!r} is no address; expected HOST, HOST:PORT or [IPV6]:PORT")
        return cls(found[1] or found[2], port)

    @property
    def known_as(self) -> str:
        """Its name in a known_hosts file."""
        return self.host if self.port == SSH_PORT else f"[{self.host}]:{self.port}"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
