"""What owners write in a job's comment, on a real Slurm: AJR's scripts as they are, and our line beside their words."""

from pathlib import Path

from activities.tail import all_paths
from adapters.logs.files import FileLogs
from adapters.schedulers.slurm import SlurmScheduler
from policies.comment import with_word, without_word
from policies.wishes import wishes
from rerail.records import JobState
from tests.slurm.conftest import Until
from tests.testbed.cluster import Cluster

AJR_SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=llama
#SBATCH --nodes=2
#SBATCH --comment='{"APS": {"auto_resume_mode": "requeue", "max_requeue_times": 3}}'
DATETIME=$(date +'date_%y-%m-%d_time_%H-%M-%S')
srun --output=%x_%j_$DATETIME.log sh -c 'echo "step 1 loss 2.0"; sleep 600'
"""
"""In the manner of NVIDIA's example for autonomous job recovery."""


def test_a_script_written_for_ajr_runs_unchanged_and_its_log_is_found(
    cluster: Cluster, scheduler: SlurmScheduler, until: Until
) -> None:
    folder = cluster.folder("ajr")
    script = folder / "train.sbatch"
    script.write_text(AJR_SCRIPT)
    job_id = cluster.sbatch(f"--chdir={folder}", str(script))

    def found() -> str:
        return all_paths(FileLogs(), scheduler.job(job_id)).get("ajr", "")

    job = until(job_id, lambda job: job.state is JobState.RUNNING and bool(found()) and b"step 1" in Path(found()).read_bytes())
    assert Path(found()).parent == folder
    wished = wishes(job.comment)
    assert (wished.ajr, wished.max_restarts, wished.told) == (True, 3, ())


def test_our_line_stands_beside_the_owners_words_and_goes_without_a_trace(
    scheduler: SlurmScheduler, until: Until, cluster: Cluster
) -> None:
    theirs = '{"APS": {"auto_resume_mode": "requeue"}, "team": "vision"}'
    job_id = cluster.sbatch("--hold", f"--comment={theirs}", "--wrap=true")
    made = with_word(theirs, 'crash, hardware: "Xid 79" on gpu-02')
    assert made is not None
    scheduler.annotate(job_id, made, instead_of=theirs)
    said = until(job_id, lambda job: job.comment != theirs).comment
    assert said == made
    assert without_word(said) == theirs
    assert wishes(said) == wishes(theirs)
