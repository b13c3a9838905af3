"""rerail: the vocabulary and the judgement. Small frozen records, and functions from records to records.

Installed alone, it lets an engineer trigger remediations from Python and diagnose a log on a laptop.
Who may live here: whatever is pure. Only `client` and `cli` know Temporal.
"""

__version__ = "0.1.0"
