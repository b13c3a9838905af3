"""Becomes another program without a parent, so that whoever asked for a daemon is left neither a child nor a zombie."""

import os
import sys

if __name__ == "__main__":
    if os.fork():
        os._exit(0)
    os.setsid()
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606  (argv without a shell, built in bell.py)
