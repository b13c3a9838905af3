"""The client: everything that an engineer or a program asks of rerail, through Temporal alone.

Who may live here: whatever speaks to Temporal from outside. It names workflows and messages by `rerail.names` and knows
nothing of their code, so that it works where only the library is installed.
"""

from rerail.client.answer import Answer
from rerail.client.connection import DATA_CONVERTER, connect
from rerail.client.find import Explanation
from rerail.client.rerail import Rerail

__all__ = ["DATA_CONVERTER", "Answer", "Explanation", "Rerail", "connect"]
