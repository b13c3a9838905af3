"""The verb `doctor`: says what is missing, one line a finding, each with the next step. It changes nothing but its own probes."""

from workers.doctor.examination import add_parser, run

__all__ = ["add_parser", "run"]
