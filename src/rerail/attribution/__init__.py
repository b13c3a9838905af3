"""Attribution: from evidence to a verdict. Pure; no clock, no exception for an expected case: `unknown` is a value.

Who may live here: whatever weighs evidence. What a line means by itself is a signature's matter, what is done a policy's.
"""

from rerail.attribution.judging import attribute

__all__ = ["attribute"]
