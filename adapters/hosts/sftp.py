"""Kernel logs of nodes, as files under a path with the node's name in it, on a login node."""

from datetime import tzinfo

from adapters.hosts.files import KernelLogFiles
from adapters.ssh.files import RemoteFiles


class SftpKernelLogs(KernelLogFiles):
    """Implements `rerail.ports.Hosts`; `zone` is that of times without a zone in the logs, None for this machine's own."""

    def __init__(self, template: str, files: RemoteFiles, zone: tzinfo | None = None) -> None:
        super().__init__(template, zone, files.opened)
