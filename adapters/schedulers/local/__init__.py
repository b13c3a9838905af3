"""The scheduler `local`: runs any command line as ranks on named nodes of this workstation, and keeps its record in a file.

Who may live here: the record (`book`), the rules over it (`rules`), what runs jobs (`daemon`, `attempt`, `rank`), and the two
ways in: the port (`scheduler`) and the command line (`__main__`).
"""

from adapters.schedulers.local.scheduler import LocalScheduler
from adapters.schedulers.local.settings import Settings

__all__ = ["LocalScheduler", "Settings"]
