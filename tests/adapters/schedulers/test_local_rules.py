"""The pure decisions of `local`: who goes where, when an attempt is over, what may be requeued."""

from dataclasses import replace

from adapters.schedulers.local.attempt import Sight
from adapters.schedulers.local.book import Entry, Place
from adapters.schedulers.local.rules import judge, place_all, requeue_refusal
from adapters.schedulers.local.settings import Settings
from rerail.records import JobState

NOW = 1_000_000.0
PENDING = Entry(
    id=1, name="", user="", argv=("true",), env={}, folder="/", output="/log", append=False, nodes_needed=1, ranks_per_node=1,
    requeue=True, excluded=(), comment="", state=JobState.PENDING, reason="", restarts=0, submitted_at=NOW - 10, begins_at=None,
    started_at=None, ended_at=None, exit_code=None, exit_signal=None, nodes=(), cancelled_by="", live=None, token="", port=0,
)  # fmt: skip
PLACES = tuple(Place(name, 2, drained=False, reason="") for name in "abc")
FINE = Sight(0, "a", claimed=True, ended_at=NOW, exit_code=0)
ALIVE = Sight(1, "b", claimed=True, guarded=True)
KILLED = Sight(2, "c", claimed=True, ended_at=NOW, exit_signal=9)
LOST = Sight(3, "d", claimed=True)


def place(*pending: Entry, busy: dict[str, int] | None = None) -> list[tuple[tuple[str, ...], str]]:
    return [(p.nodes, p.reason) for p in place_all(pending, PLACES, busy or {}, NOW)]


def test_nodes_are_given_in_order_and_only_with_room_for_all_ranks_of_a_node() -> None:
    assert place(replace(PENDING, nodes_needed=2)) == [(("a", "b"), "")]
    assert place(replace(PENDING, nodes_needed=2, ranks_per_node=2), busy={"a": 1}) == [(("b", "c"), "")]


def test_an_earlier_job_that_waits_for_nodes_is_not_overtaken_on_them() -> None:
    wide = replace(PENDING, id=1, nodes_needed=3, ranks_per_node=2)
    narrow = replace(PENDING, id=2, submitted_at=NOW - 5)
    assert place(narrow, wide, busy={"a": 2}) == [((), "Resources"), ((), "Resources")]
    elsewhere = replace(wide, nodes_needed=2, excluded=("c",))
    assert place(narrow, elsewhere, busy={"a": 2}) == [((), "Resources"), (("c",), "")]


def test_a_job_that_can_never_start_blocks_nobody() -> None:
    never = replace(PENDING, nodes_needed=3, excluded=("a",))
    assert place(never, replace(PENDING, id=2)) == [((), "BadConstraints"), (("a",), "")]


def test_a_job_waits_for_its_begin_time_and_for_the_end_of_its_old_attempt() -> None:
    assert place(replace(PENDING, begins_at=NOW + 1)) == [((), "BeginTime")]
    assert place(replace(PENDING, live=0)) == [((), "BeginTime")]
    assert place(replace(PENDING, begins_at=NOW)) == [(("a",), "")]


def test_an_attempt_runs_until_all_ranks_ended_well() -> None:
    assert judge((FINE, ALIVE), NOW, 1) is None
    ending = judge((FINE, FINE), NOW, 1)
    assert ending
    assert (ending.state, ending.exit_code) == (JobState.COMPLETED, 0)


def test_a_bad_rank_ends_the_attempt_after_the_grace_or_when_all_have_spoken() -> None:
    assert judge((ALIVE, KILLED), NOW + 0.5, 1) is None
    late, full = judge((ALIVE, KILLED), NOW + 1, 1), judge((FINE, KILLED), NOW, 1)
    assert late == full
    assert late
    assert (late.state, late.exit_signal, late.reason) == (JobState.FAILED, 9, "RaisedSignal")


def test_the_first_to_die_is_named_even_beside_a_lost_rank() -> None:
    later = replace(KILLED, exit_signal=None, exit_code=1, ended_at=NOW + 0.1)
    ending = judge((LOST, later, KILLED), NOW + 5, 1)
    assert ending
    assert ending.exit_signal == 9
    lost = judge((LOST, ALIVE), NOW, 1)
    assert lost
    assert lost.reason == "RankLost"


def test_a_clock_that_jumped_back_does_not_keep_a_dead_attempt_alive() -> None:
    assert judge((ALIVE, KILLED), NOW - 3600, 1) is not None


def test_only_what_ended_lately_and_was_not_cancelled_may_be_requeued() -> None:
    def refusal(running: bool, **changes: object) -> str:
        return requeue_refusal(replace(PENDING, **changes), running=running, now=NOW, settings=Settings(requeue_window_s=300))  # type: ignore[arg-type]

    assert refusal(False, state=JobState.FAILED, ended_at=NOW - 300) == ""
    assert refusal(False, state=JobState.COMPLETED, ended_at=NOW) == ""
    assert refusal(True, state=JobState.RUNNING, live=0) == ""
    assert "too long" in refusal(False, state=JobState.FAILED, ended_at=NOW - 301)
    assert "runs again" in refusal(False, state=JobState.RUNNING, live=0)
    assert "cancelled" in refusal(False, state=JobState.CANCELLED, ended_at=NOW)
    assert "--no-requeue" in refusal(True, state=JobState.RUNNING, live=0, requeue=False)
    assert "pending" in refusal(True)
