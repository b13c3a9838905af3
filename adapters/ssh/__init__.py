"""The way to other machines: SSH by paramiko, pinned and bounded. Who may live here: connections, and what goes through them
whatever it is for; no scheduler's words. Adapters of several rooms go over it."""
