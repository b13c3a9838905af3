"""How a cluster is reached, by its settings: on this host or over SSH, as one user or as three."""

from pathlib import Path

import pytest

from adapters.hosts.files import KernelLogFiles
from adapters.hosts.sftp import SftpKernelLogs
from adapters.hosts.silent import SilentHosts
from adapters.logs.sftp import SftpLogs
from adapters.schedulers.slurm import InCluster
from adapters.schedulers.slurm.over_ssh import OverSsh
from rerail.errors import Misconfigured, Transient, Unreadable
from rerail.ports import ALL_RIGHTS, Right
from workers.settings import Settings, load
from workers.way import Way, way

READER = "reader: {user: rerail, key: keys/reader}"


def settled(folder: Path, slurm: str) -> Settings:
    path = folder / "rerail.yaml"
    path.write_text(f"clusters:\n  alpha:\n    scheduler:\n      slurm: {slurm}\n    kernel_log: /kern/{{node}}.log\n")
    return load(path)


def reached(folder: Path, slurm: str) -> Way:
    return way("alpha", settled(folder, slurm).cluster("alpha"))


def ssh(more: str = READER, hosts: str = "[login1]") -> str:
    return f"{{ssh: {{hosts: {hosts}, known_hosts: known_hosts, {more}}}}}"


def test_without_ssh_commands_and_files_are_this_hosts(tmp_path: Path) -> None:
    found = reached(tmp_path, "{}")
    assert isinstance(found.runner, InCluster)
    assert found.scheduler.rights() == ALL_RIGHTS
    assert isinstance(found.hosts("/kern/{node}.log"), KernelLogFiles)
    assert not isinstance(found.hosts("/kern/{node}.log"), SftpKernelLogs)


def test_with_ssh_all_go_over_it(tmp_path: Path) -> None:
    found = reached(tmp_path, ssh())
    assert isinstance(found.runner, OverSsh)
    assert isinstance(found.logs, SftpLogs)
    assert isinstance(found.hosts("/kern/{node}.log"), SftpKernelLogs)
    assert isinstance(found.hosts(None), SilentHosts)


def test_rights_are_the_identities_that_are_set_up(tmp_path: Path) -> None:
    operator, admin = "operator: {user: op, key: keys/op}", "admin: {user: ad, agent: true}"
    assert reached(tmp_path, ssh()).scheduler.rights() == {Right.READ}
    assert reached(tmp_path, ssh(f"{READER}, {operator}")).scheduler.rights() == {Right.READ, Right.OPERATE}
    assert reached(tmp_path, ssh(f"{READER}, {operator}, {admin}")).scheduler.rights() == ALL_RIGHTS


def test_one_user_for_all_has_one_connection(tmp_path: Path) -> None:
    runner = reached(tmp_path, ssh(f"{READER}, operator: {{user: rerail, key: keys/reader}}")).runner
    assert isinstance(runner, OverSsh)
    assert runner._ways["reader"] is runner._ways["operator"]


def test_paths_start_from_the_settings_file(tmp_path: Path) -> None:
    found = settled(tmp_path, ssh()).cluster("alpha").scheduler
    assert found.ssh.known_hosts == tmp_path / "known_hosts"  # type: ignore[union-attr]
    assert found.ssh.reader.key == tmp_path / "keys/reader"  # type: ignore[union-attr]


def test_nothing_is_connected_before_it_is_needed_and_what_is_missing_is_named_then(tmp_path: Path) -> None:
    found = reached(tmp_path, ssh(hosts="['127.0.0.1:1']"))
    (tmp_path / "known_hosts").touch()
    with pytest.raises(Unreadable, match=r"127\.0\.0\.1:1 cannot be reached: Connection refused"):
        found.scheduler.read()
    with pytest.raises((Unreadable, Transient), match=r"127\.0\.0\.1:1"):
        found.logs.read("/scratch/job.log", 0, 10)


@pytest.mark.parametrize(
    ("slurm", "why"),
    [
        ("{ssh: {hosts: [login1], known_hosts: k}}", "lacks the key 'reader'"),
        (ssh(hosts="[]"), "1 or more entries"),
        (ssh(hosts="['-oProxyCommand=x']"), "is no address"),
        (ssh(hosts="['a b']"), "is no address"),
        (ssh(hosts="['login1:99999']"), "is no address"),
        (ssh("reader: {user: rerail}"), "it needs one proof of who it is"),
        (ssh("reader: {user: rerail, key: a, agent: true}"), "it needs one proof of who it is"),
        (ssh("reader: {user: '-x', key: a}"), "text of the form"),
        (ssh("reader: {user: rerail, key: a, password: secret}"), "unknown key 'password'"),
        (ssh(f"{READER}, sessions: 1"), "a number above 2"),
        (ssh(f"{READER}, jump: {{user: j, key: a}}"), "lacks the key 'host'"),
    ],
)
def test_wrong_settings_are_told_with_their_place(tmp_path: Path, slurm: str, why: str) -> None:
    with pytest.raises(Misconfigured, match=why) as refusal:
        settled(tmp_path, slurm)
    assert "line 4" in str(refusal.value)
