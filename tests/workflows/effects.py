"""The real effects on a cluster on paper, played in a theatre."""

from activities.acting import Acting
from activities.messaging import Messaging
from activities.nodes import Nodes
from tests.activities.paper import PaperAudit, PaperScheduler, failed_job
from tests.workflows.players import ACT, Theatre


def real_acting(theatre: Theatre) -> tuple[PaperScheduler, PaperAudit]:
    """The real effects on a cluster on paper, and the real word of the guard."""
    scheduler, audit = PaperScheduler({"41001": failed_job()}), PaperAudit()
    acting = Acting({"alpha": scheduler}, audit, theatre.client)
    nodes = Nodes({"alpha": scheduler}, audit, theatre.client)
    theatre.players.answers |= {name: getattr(acting if hasattr(acting, name) else nodes, name) for name in ACT}
    theatre.players.answers["ask_guard"] = Messaging(theatre.client).ask_guard
    return scheduler, audit


def commands(scheduler: PaperScheduler) -> list[str]:
    return [command[0] for command in scheduler.commands]
