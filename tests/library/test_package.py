"""`import rerail` is light, and `rerail.diagnose` is there all the same."""

import subprocess
import sys
from pathlib import Path

import pytest

import rerail


def test_diagnose_is_had_from_the_package(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("step=1 loss=2\nTraceback (most recent call last):\nZeroDivisionError: division by zero\n")
    assert rerail.diagnose(log).evidence


def test_the_package_alone_loads_neither_diagnosis_nor_temporal() -> None:
    code = "import sys, rerail; print(sorted({'re2', 'pydantic', 'temporalio', 'rerail.diagnosis'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert done.stdout.strip() == "[]"


def test_diagnosis_never_loads_temporal() -> None:
    code = "import sys; from rerail import diagnose; print('temporalio' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert done.stdout.strip() == "False"


def test_what_the_package_does_not_have_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'undo'"):
        _ = rerail.undo
