"""Addresses of pages in Temporal's Web UI, and the commands that a person may type instead."""

import shlex
from urllib.parse import quote, urlencode

from demo.places import Places, python, shown
from rerail import names
from rerail.records import Stage

NAMESPACE = "default"
USUAL_ADDRESS = "127.0.0.1:7233"
"""Where `rerail` looks without being told (localhost)."""


def workflows(ui: str) -> str:
    """All workflows."""
    return f"{ui}/namespaces/{NAMESPACE}/workflows"


def incident(ui: str, workflow_id: str, run_id: str) -> str:
    """The page with the proposal and the instructions of one incident."""
    return f"{workflows(ui)}/{quote(workflow_id, safe='')}/{run_id}/user-metadata"


def waiting(ui: str) -> str:
    """The list of what waits for a person: worth a bookmark."""
    query = f'{names.SA_STAGE}="{Stage.AWAITING_APPROVAL}"'
    return f"{workflows(ui)}?{urlencode({'query': query}, quote_via=quote)}"


def answer(verb: str, incident_id: str, address: str) -> str:
    """The command for another shell."""
    where = [] if address == USUAL_ADDRESS else ["--address", address]
    return shlex.join([str(_beside_python("rerail")), verb, incident_id, "--reason", "WHY", *where])


def audit(places: Places) -> str:
    """The command that shows the audit trail."""
    return shlex.join([python(), "-m", "workers", "--settings", shown(places.settings), "audit", "list"])


def _beside_python(name: str) -> str:
    return python().rpartition("/")[0] + "/" + name
