"""Scripts written for AJR name their logs themselves; they are found beside the batch script's own output."""

from pathlib import Path

from activities.tail import Tails, all_paths
from adapters.logs.files import FileLogs
from rerail.ports import Chunk
from rerail.records import Job, JobState

OPT_IN = '{"APS": {"auto_resume_mode": "requeue", "max_requeue_times": 3}}'


def job(folder: Path, comment: str = OPT_IN) -> Job:
    return Job(
        cluster="alpha",
        job_id="7",
        state=JobState.RUNNING,
        output=str(folder / "slurm-7.out"),
        folder=str(folder),
        comment=comment,
    )


def log(folder: Path, when: str, number: str = "7", text: str = "line\n") -> str:
    path = folder / f"llama_{number}_date_{when}.log"
    path.write_text(text)
    return str(path)


async def gained(tails: Tails, one: Job) -> bytes:
    return b"".join([lines async for lines in tails.gained(one)])


def test_the_newest_log_of_the_job_is_found_by_its_name(tmp_path: Path) -> None:
    log(tmp_path, "26-12-01_time_10-00-00")
    newest = log(tmp_path, "26-12-01_time_11-30-00")
    log(tmp_path, "26-12-02_time_11-30-00", number="77")
    log(tmp_path, "26-12-02_time_11-30")
    assert all_paths(FileLogs(), job(tmp_path)) == {"out": str(tmp_path / "slurm-7.out"), "ajr": newest}


def test_a_job_that_does_not_speak_ajrs_words_has_no_such_log(tmp_path: Path) -> None:
    log(tmp_path, "26-12-01_time_10-00-00")
    assert set(all_paths(FileLogs(), job(tmp_path, comment=""))) == {"out"}


def test_the_batch_scripts_own_output_of_that_name_is_followed_once(tmp_path: Path) -> None:
    named = log(tmp_path, "26-12-01_time_10-00-00")
    assert all_paths(FileLogs(), job(tmp_path).model_copy(update={"output": named})) == {"out": named}


def test_a_folder_that_cannot_be_looked_through_changes_nothing(tmp_path: Path) -> None:
    class Elsewhere:
        def read(self, path: str, offset: int, limit: int, fingerprint: str = "") -> Chunk:
            return Chunk(b"", offset, offset, 0)

        def fingerprint_at(self, path: str, offset: int) -> str:
            return ""

    gone = job(tmp_path / "gone")
    assert set(all_paths(FileLogs(), gone)) == set(all_paths(Elsewhere(), gone)) == {"out"}


async def test_the_log_of_the_next_attempt_is_another_file_and_read_from_its_beginning(tmp_path: Path) -> None:
    log(tmp_path, "26-12-01_time_10-00-00", text="first attempt, step 7\n")
    tails = Tails(FileLogs(), {})
    assert await gained(tails, job(tmp_path)) == b"first attempt, step 7\n"
    log(tmp_path, "26-12-01_time_10-05-00", text="second attempt, step 8, and on\n")
    again = Tails(FileLogs(), tails.places)
    assert await gained(again, job(tmp_path)) == b"second attempt, step 8, and on\n"
    assert await gained(again, job(tmp_path)) == b""
