"""EACH SENTENCE OF THE STORY: idempotent activities that look, act and read back.

Who may live here: classes that receive ports in their constructor and add idempotency. Which adapter stands behind a port is
chosen in `workers/assembly.py` alone.
"""
