"""The command by which a person submits a job again says all that the record shows, quoted."""

import shlex
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from policies.resubmission import LONGEST, command
from rerail.records import Job


def job(**more: Any) -> Job:
    said = {"cluster": "alpha", "job_id": "7", "name": "train", "partition": "gpu", "nodes_needed": 4, "folder": "/home/alice"}
    return Job(**(said | {"command": "/home/alice/run.sh --lr 3", "time_limit_s": 5400, "excluded_nodes": ("n1",)} | more))


def test_options_script_and_arguments_are_said_again_with_both_lists_of_nodes() -> None:
    assert command(job(), "/bundles/7/batch.sh", ["n2"]) == (
        "sbatch \\\n  --job-name=train \\\n  --partition=gpu \\\n  --nodes=4 \\\n  --time=90 \\\n  --chdir=/home/alice \\\n"
        "  '--exclude=n[1-2]' \\\n  /bundles/7/batch.sh --lr 3"
    )


def test_without_a_copy_the_scripts_own_path_stands_there() -> None:
    assert command(job()).endswith("\n  /home/alice/run.sh --lr 3")


def test_what_is_no_batch_job_has_no_such_command() -> None:
    assert command(job(batch=False)) == ""
    assert command(job(command="")) == ""


@given(
    name=some.text(max_size=30), words=some.lists(some.text(min_size=1, max_size=20), max_size=5), folder=some.text(max_size=9)
)
def test_no_word_of_a_stranger_becomes_a_command(name: str, words: list[str], folder: str) -> None:
    made = command(job(name=name, command=shlex.join(["/x.sh", *words]), folder=folder), "/b.sh")
    assert len(made) <= LONGEST
    said = shlex.split(made.replace(" \\\n  ", " "))
    assert said[0] == "sbatch"
    assert said[-len(words) - 1 :] == ["/b.sh", *words] if all(w.isprintable() for w in words) else "/b.sh" in said
    assert all(word.startswith("--") for word in said[1 : said.index("/b.sh")])
