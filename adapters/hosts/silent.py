"""Where no kernel log can be had: every node is silent, which is an unknown and not health."""

from datetime import datetime


class SilentHosts:
    """Implements `rerail.ports.Hosts`."""

    def kernel_log(self, node: str, since: datetime, limit: int) -> bytes | None:
        """None: not to be had."""
        return None
