"""Which jobs of a cluster are ours to watch."""

from fnmatch import fnmatchcase

from rerail.records import Job, Record


class Scope(Record):
    """Glob patterns; an empty list takes all. A job is in scope when each list takes it."""

    partitions: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def holds(self, job: Job) -> bool:
        """True when the job is ours to watch."""
        lists = (
            (self.partitions, job.partition),
            (self.accounts, job.account),
            (self.users, job.user),
            (self.qos, job.qos),
            (self.names, job.name),
        )
        return all(not patterns or any(fnmatchcase(value, p) for p in patterns) for patterns, value in lists)
