"""SWITCHING ON: settings, assembly, and the verbs of `python -m workers`.

Who may live here: what reads configuration and chooses adapters. Nothing here judges or acts.
"""
