"""Log files on a login node, read by offset over SFTP: what is true of files here is true of them."""

from adapters.logs.files import FileLogs
from adapters.ssh.files import RemoteFiles


class SftpLogs(FileLogs):
    """Implements `rerail.ports.Logs`."""

    def __init__(self, files: RemoteFiles) -> None:
        super().__init__(files.opened)
