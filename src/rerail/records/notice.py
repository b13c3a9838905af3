"""What people are told over a notification channel."""

from datetime import datetime

from rerail.records.record import Record
from rerail.records.words import NoticeKind


class Notice(Record):
    """One message. `key` is the same over retries, so that a channel can say it once."""

    key: str
    kind: NoticeKind
    cluster: str
    job_id: str = ""
    incident: str = ""
    title: str
    text: str = ""
    link: str = ""
    at: datetime
