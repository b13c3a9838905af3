"""THE STORY: order, waiting, compensation; nothing else.

Who may live here: workflows, and the pages that they show.
An `if` on anything but a plan's field or a message belongs in policies.
"""
