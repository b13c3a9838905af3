"""What a site lets rerail override. All of it is off unless the settings say otherwise."""

from rerail.records import Record


class Permits(Record):
    """`lift_no_requeue`: an owner's --no-requeue is lifted for a restart that a person or the policy approved."""

    lift_no_requeue: bool = False
