"""Commands over a real sshd: what they said comes back whole, or it is said that nobody knows."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import paramiko
import pytest

from adapters.ssh import command
from adapters.ssh.command import Ended, run
from adapters.ssh.connection import Connection
from adapters.ssh.deadline import Deadline
from adapters.ssh.hostkeys import HostKeys
from adapters.ssh.link import Jump
from rerail.errors import Misconfigured, OutcomeUnknown, Transient
from tests import sshd
from tests.testbed.processes import wait_until


def test_status_and_both_streams_come_back_whole(login: sshd.Start) -> None:
    way = login().connection()
    assert run(way, "printf out; printf wrong >&2; exit 3", 10) == Ended(3, b"out", b"wrong")
    flood = "head -c 3000000 /dev/zero >&2; head -c 5000000 /dev/zero; exit 1"  # more than a window on either stream
    ended = run(way, flood, 20)
    assert (ended.status, len(ended.stdout), len(ended.stderr)) == (1, 5_000_000, 3_000_000)


def test_a_command_gets_no_input_and_no_terminal(login: sshd.Start) -> None:
    assert run(login().connection(), "cat; tty; echo $SSH_AUTH_SOCK", 10).stdout == b"not a tty\n\n"


def test_one_connection_serves_many_commands_at_once_below_max_sessions(login: sshd.Start) -> None:
    host = login(extra="MaxSessions 3")
    way = host.connection(sessions=3)
    with ThreadPoolExecutor(12) as pool:
        said = list(pool.map(lambda n: run(way, f"sleep 0.05; echo {n}", 20).stdout, range(24)))
    assert said == [b"%d\n" % n for n in range(24)]
    assert len([line for line in log(host) if "Accepted" in line]) == 1


def test_fewer_sessions_than_believed_are_waited_for_and_then_named(login: sshd.Start) -> None:
    way = login(extra="MaxSessions 1").connection()
    with ThreadPoolExecutor(2) as pool:
        assert [ended.status for ended in pool.map(lambda _: run(way, "sleep 0.2", 20), range(4))] == [0] * 4
        slow = pool.submit(run, way, "sleep 2", 20)
        wait_until(lambda: refused(way), 10, "a refusal")
        with pytest.raises(Transient, match=r"opens no more sessions .* lower `sessions`") as caught:
            run(way, "true", 0.5)
        assert not isinstance(caught.value, OutcomeUnknown)
        assert slow.result().status == 0


def refused(way: Connection) -> bool:
    try:
        run(way, "true", 0.1)
    except OutcomeUnknown:
        return False
    except Transient as error:
        return "opens no more" in str(error)
    return False


def test_sshd_killed_in_mid_command_leaves_the_outcome_unknown(login: sshd.Start, tmp_path: Path) -> None:
    host = login()
    way = host.connection()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(run, way, f"touch {tmp_path}/begun; sleep 600", 30)
        wait_until((tmp_path / "begun").exists, 10, "the command")
        began = time.monotonic()
        host.stop()
        with pytest.raises(OutcomeUnknown, match=r"told no exit status|broke in mid-command"):
            asked.result()
    assert time.monotonic() - began < 5


def test_after_a_restart_of_sshd_the_next_command_connects_again(login: sshd.Start) -> None:
    host = login()
    way = host.connection()
    run(way, "true", 10)
    host.restart()
    assert run(way, "echo again", 10).stdout == b"again\n"


def test_a_frozen_login_node_is_noticed_by_the_deadline_of_a_running_command(login: sshd.Start, tmp_path: Path) -> None:
    host = login()
    way = host.connection()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(run, way, f"touch {tmp_path}/begun; sleep 600", 1.5)
        wait_until((tmp_path / "begun").exists, 10, "the command")
        host.freeze()
        with pytest.raises(OutcomeUnknown, match=r"no answer from .* within 1\.5 s"):
            asked.result(10)
    host.thaw()
    assert run(way, "echo back", 10).stdout == b"back\n"


def test_on_a_link_that_froze_before_nothing_is_started(login: sshd.Start) -> None:
    host = login()
    way = host.connection()
    run(way, "true", 10)
    host.freeze()
    began = time.monotonic()
    with pytest.raises(Transient, match="nothing was started") as caught:
        run(way, "true", 1.5)
    assert not isinstance(caught.value, OutcomeUnknown)
    assert time.monotonic() - began < 4
    host.thaw()


def test_a_command_frozen_between_its_channel_and_its_start_does_not_wait_for_ever(login: sshd.Start) -> None:
    """paramiko's exec_command knows no time-out."""
    host = login()
    way = host.connection()
    with way.session(Deadline.after(10)) as session:
        host.freeze()
        with pytest.raises(TimeoutError):
            command._start(session, "true", Deadline.after(1))
    host.thaw()


def test_a_slow_command_is_given_up_and_others_on_the_link_end_well(login: sshd.Start, tmp_path: Path) -> None:
    way = login().connection()
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(run, way, f"touch {tmp_path}/begun; sleep 2; echo well", 20)
        wait_until((tmp_path / "begun").exists, 10, "the command")
        with pytest.raises(OutcomeUnknown):
            run(way, "sleep 600", 0.5)
        assert other.result().stdout == b"well\n"


def test_output_without_end_is_cut(login: sshd.Start) -> None:
    with pytest.raises(OutcomeUnknown, match="more than 1000000 bytes"):
        run(login().connection(), "cat /dev/zero", 20, most_output=1_000_000)
    with pytest.raises(OutcomeUnknown, match="more than 1000000 bytes"):
        run(login().connection(), "cat /dev/zero >&2", 20, most_output=1_000_000)


def test_a_command_killed_by_a_signal_is_no_success_and_no_failure(login: sshd.Start) -> None:
    way = login().connection()
    with pytest.raises(OutcomeUnknown, match="told no exit status"):
        run(way, "kill -9 $$", 10)


def test_the_next_login_node_takes_over(login: sshd.Start, tmp_path: Path) -> None:
    one, two = login(), login()
    both = tmp_path / "both"
    both.write_text((one.folder / "known_hosts").read_text() + (two.folder / "known_hosts").read_text())
    (two.folder / "authorized" / two.user).write_text((one.folder / "user.pub").read_text())
    way = one.connection(hosts=[one.address, two.address], keys=HostKeys(both), connect_s=2.0)
    where = "echo $SSH_CONNECTION"
    assert run(way, where, 10).stdout.split()[-1] == b"%d" % one.port
    one.stop()
    assert run(way, where, 10).stdout.split()[-1] == b"%d" % two.port
    one.start()
    two.freeze()
    with pytest.raises(Transient):
        run(way, where, 1.0)
    assert run(way, where, 10).stdout.split()[-1] == b"%d" % one.port
    two.thaw()


def test_when_all_are_gone_it_is_tried_again_after_a_pause(login: sshd.Start) -> None:
    host = login()
    now = [100.0]
    way = host.connection(clock=lambda: now[0])
    host.stop()
    with pytest.raises(Transient, match=r"cannot be reached: Connection refused; nothing was started"):
        run(way, "true", 5)
    host.start()
    with pytest.raises(Transient, match=r"not tried again for 0\.5 s"):
        run(way, "true", 5)
    now[0] += 0.6
    assert run(way, "true", 5).status == 0


def test_a_jump_host_is_passed_and_its_key_checked_too(login: sshd.Start, tmp_path: Path) -> None:
    bastion, inside = login(), login()
    both = tmp_path / "both"
    both.write_text((bastion.folder / "known_hosts").read_text() + (inside.folder / "known_hosts").read_text())
    jump = Jump(bastion.address, bastion.identity)
    way = inside.connection(keys=HostKeys(both), jump=jump)
    assert run(way, "echo $SSH_CONNECTION", 10).stdout.split()[-1] == b"%d" % inside.port
    assert any("Accepted" in line for line in log(bastion))
    stranger = inside.connection(keys=inside.keys, jump=jump)
    with pytest.raises(Misconfigured, match=rf"127\.0\.0\.1:{bastion.port} shows the host key"):
        run(stranger, "true", 10)


def test_a_machine_that_listens_and_says_nothing_is_left_in_time(login: sshd.Start) -> None:
    host = login()
    way = host.connection(connect_s=1.0)
    host.freeze()  # the kernel still takes the connection
    began = time.monotonic()
    with pytest.raises(Transient, match="does not speak SSH with us"):
        run(way, "true", 10)
    assert time.monotonic() - began < 5
    host.thaw()


def test_no_thread_and_no_connection_is_left_behind(login: sshd.Start) -> None:
    host = login()
    before = threading.active_count()
    for _ in range(5):
        way = host.connection()
        run(way, "true", 10)
        with pytest.raises(OutcomeUnknown):
            run(way, "sleep 600", 0.2)
        way.close()
    wait_until(lambda: threading.active_count() <= before, 15, "an end of the threads")
    wait_until(lambda: host.sessions() == 0, 15, "an end of the connections")


def test_each_packet_goes_out_at_once(login: sshd.Start) -> None:
    way = login().connection()
    with way.session(Deadline.after(10)) as session:
        transport = session.channel.get_transport()
        assert isinstance(transport, paramiko.Transport)
        assert isinstance(transport.sock, socket.socket)
        assert transport.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def log(host: sshd.Sshd) -> list[str]:
    return (host.folder / "sshd.log").read_text(errors="replace").splitlines()


def test_somebody_with_too_little_time_does_not_keep_others_from_connecting(login: sshd.Start) -> None:
    host = login()
    way = host.connection()
    with pytest.raises(Transient):
        run(way, "true", 0.0001)
    assert run(way, "true", 10).status == 0
