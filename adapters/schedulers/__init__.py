"""Schedulers: each dialect of `rerail.ports.Scheduler` is one module here; all of them pass the same contract suite."""
