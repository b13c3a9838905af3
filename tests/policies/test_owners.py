"""A second owner of a job's restarts is known by its sign, and then rerail only advises."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from policies.circumstances import Circumstances
from policies.owners import CHAIN, LIGHTNING, NVRX, SELF, SIGNS, SUBMITIT, Place, Sign, owner_of, script_code
from policies.plan import SECOND_OWNER, plan
from rerail.records import (
    Advice,
    Anomaly,
    Attempt,
    Facts,
    FaultClass,
    Habits,
    Job,
    JobKey,
    JobState,
    Kind,
    Mode,
    Owner,
    Recovery,
    Result,
    StepKind,
    Verdict,
)

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


def job(**more: Any) -> Job:
    said = {"cluster": "alpha", "job_id": "41001", "name": "train", "user": "alice", "state": JobState.FAILED, "exit_code": 1}
    return Job(**(said | more))


def found(**given: Any) -> str:
    owner = owner_of(given.pop("job", job()), **given)
    return owner.name if owner else ""


@pytest.mark.parametrize("sign", SIGNS, ids=lambda sign: f"{sign.owner}-{sign.place.name}")
def test_each_sign_is_found_in_its_example_and_quoted_as_evidence(sign: Sign) -> None:
    script = "#!/bin/sh\n#SBATCH --signal=SIGUSR1@90\n" + (sign.example if sign.place is Place.SCRIPT else "srun train") + "\n"
    log = f"step=1\n{sign.example}\nstep=2\n" if sign.place is Place.LOG else ""
    owner = owner_of(job(), script=script, log=log)
    assert owner
    assert owner.name == sign.owner
    assert sign.example[:40] in owner.evidence


def test_a_plain_training_has_no_second_owner() -> None:
    script = "#!/bin/bash\n#SBATCH --requeue\nsrun python -m torch.distributed.run train.py # scontrol requeue would be wrong\n"
    log = "step=1 loss=2\nrequeue of batch 3 in the data loader\nsrun: error: node3: task 2: Exited with exit code 1\n"
    assert found(script=script.replace(" # scontrol", "\n# scontrol"), log=log, habits=Habits(requeue_exits=(99,))) == ""


def test_what_a_comment_says_of_requeues_counts_for_nothing() -> None:
    assert script_code("# scontrol requeue 1\n  # sbatch $0\n#SBATCH -N4\nsrun x") == "#SBATCH -N4\nsrun x"


def test_lightning_that_no_signal_can_set_off_is_no_owner_where_the_script_can_be_read() -> None:
    log = "SLURM auto-requeueing enabled. Setting signal handlers."
    assert found(log=log, script="#!/bin/sh\nsrun python train.py") == ""
    assert found(log=log, script="#!/bin/sh\n#SBATCH --signal=SIGUSR1@90\nsrun python train.py") == LIGHTNING
    assert found(log=log, script="") == LIGHTNING  # unreadable is unknown, and unknown is not "nobody"


def test_exit_codes_that_the_site_requeues_belong_to_the_site() -> None:
    habits = Habits(requeue_exits=(17, 18), hold_exits=(99,))
    assert found(job=job(exit_code=17), habits=habits) == "RequeueExit in slurm.conf"
    assert found(job=job(exit_code=99), habits=habits) == "RequeueExitHold in slurm.conf"
    assert found(job=job(exit_code=1), habits=habits) == ""
    assert found(job=job(exit_code=17, state=JobState.RUNNING), habits=habits) == ""


def test_exit_93_is_ft_launchers_word_only_where_ft_launcher_ran() -> None:
    assert found(job=job(exit_code=93), script="#!/bin/sh\nsrun ft_launcher --nnodes=4 train.py") == NVRX
    assert found(job=job(exit_code=93), script="#!/bin/sh\nsrun train.py") == ""
    assert found(job=job(exit_code=1), script="#!/bin/sh\nsrun ft_launcher --nnodes=4 train.py") == ""


def test_a_successor_of_the_same_name_that_waits_as_a_singleton_is_a_chain() -> None:
    successor = job(job_id="41002", state=JobState.PENDING, dependency="singleton(unfulfilled)")
    assert found(queue=(job(), successor)) == CHAIN
    assert found(queue=(job(), successor.model_copy(update={"user": "bob"}))) == ""
    assert found(queue=(job(), successor.model_copy(update={"state": JobState.RUNNING}))) == ""
    assert found(job=job(dependency="singleton"), queue=(job(dependency="singleton"),)) == ""


def test_who_restarted_it_while_a_proposal_waited_owns_it_from_then_on() -> None:
    took = Recovery(attempt=1, kind=Kind.CRASH, fault=FaultClass.UNKNOWN, result=Result.VOIDED, at=NOW, owner="somebody")
    assert found(history=(took,)) == "somebody"
    assert found(history=(took.model_copy(update={"owner": ""}),)) == ""


@pytest.mark.parametrize("mode", Mode)
def test_beside_a_second_owner_rerail_says_what_it_would_have_proposed_and_does_nothing(mode: Mode) -> None:
    attempt = Attempt(job=JobKey(cluster="alpha", job_id="41001", submitted_at=NOW), number=1)
    facts = Facts(
        job=job(nodes_needed=1), read_at=NOW, eligible_nodes=("a", "b"), owner=Owner(name=SUBMITIT, evidence="the script")
    )
    anomaly = Anomaly(id="a", attempt=attempt, kind=Kind.CRASH, detector="exited", seen_at=NOW)
    around = Circumstances(anomaly=anomaly, facts=facts, mode=mode, now=NOW)
    verdict = Verdict(
        kind=Kind.CRASH, fault=FaultClass.HARDWARE, culprit_nodes=("a",), advice=Advice.RESTART_EXCLUDING_NODES, why="an Xid"
    )
    made = plan(verdict, around)
    assert (made.rule, made.steps, made.ask) == (SECOND_OWNER, (), False)
    assert made.refusal == (
        "submitit looks after this job's restarts (the script); rerail only advises: "
        "it would have proposed exclude a, then restart"
    )
    calm = plan(Verdict(kind=Kind.NONE, fault=FaultClass.NONE, advice=Advice.NO_ACTION), around)
    assert calm.has(StepKind.NOTHING)


def test_signs_are_looked_for_without_much_ado() -> None:
    """A log is a stranger's: no pattern may take long on it."""
    hostile = "sbatch " + "a" * 100_000 + "\n" + "requeing job " * 10_000 + "scontrol" + " " * 100_000
    assert owner_of(job(), script=hostile, log=hostile) is None
    assert all(not re.search(r"\)[*+]", sign.pattern) for sign in SIGNS)


def test_the_names_of_owners_are_those_of_the_field() -> None:
    assert {sign.owner for sign in SIGNS} >= {LIGHTNING, SUBMITIT, SELF, CHAIN}
