"""Who is let in, and whom we speak to: a host that isn't the pinned one never learns who we are."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.ssh.address import Address
from adapters.ssh.command import run
from adapters.ssh.hostkeys import HostKeys
from adapters.ssh.identity import Identity
from adapters.ssh.link import Jump
from rerail.errors import Misconfigured, Transient
from tests import sshd
from tests.testbed.processes import wait_until


def fingerprint(public: Path) -> str:
    said = subprocess.run(["ssh-keygen", "-lf", str(public)], capture_output=True, text=True, check=True).stdout
    return said.split()[1]


def log(host: sshd.Sshd) -> str:
    return (host.folder / "sshd.log").read_text(errors="replace")


def test_an_unknown_host_is_refused_with_its_fingerprint_and_what_to_do(login: sshd.Start) -> None:
    host = login()
    (host.folder / "known_hosts").write_text("# nobody yet\n\nelsewhere.example.org " + (host.folder / "host.pub").read_text())
    with pytest.raises(Misconfigured) as refusal:
        run(host.connection(), "true", 10)
    said = str(refusal.value)
    assert fingerprint(host.folder / "host.pub") in said
    assert f"no key of [127.0.0.1]:{host.port}" in said
    assert f"ssh-keyscan -p {host.port} 127.0.0.1" in said
    assert f"user {host.user}" not in log(host)  # nobody told it who we are


def test_a_changed_host_key_stops_everything_though_another_host_would_answer(login: sshd.Start, tmp_path: Path) -> None:
    host, other = login(), login()
    pinned = sshd.key(tmp_path / "old").with_suffix(".pub")
    both = tmp_path / "both"
    host.pin(pinned.read_text().rsplit(" ", 1)[0])
    both.write_text((host.folder / "known_hosts").read_text() + (other.folder / "known_hosts").read_text())
    with pytest.raises(Misconfigured) as refusal:
        run(host.connection(hosts=[host.address, other.address], keys=HostKeys(both)), "true", 10)
    said = str(refusal.value)
    assert fingerprint(host.folder / "host.pub") in said
    assert fingerprint(pinned) in said
    assert "Nothing was sent" in said
    assert f"user {host.user}" not in log(host)


def test_what_the_message_says_to_do_helps(login: sshd.Start) -> None:
    host = login()
    known = host.folder / "known_hosts"
    known.write_text("")
    way = host.connection()
    with pytest.raises(Misconfigured):
        run(way, "true", 10)
    scan = subprocess.run(["ssh-keyscan", "-p", str(host.port), "127.0.0.1"], capture_output=True, text=True, check=True)
    known.write_text(scan.stdout)
    assert run(way, "true", 10).status == 0


def test_a_host_with_keys_of_several_kinds_is_known_by_the_pinned_one(login: sshd.Start, tmp_path: Path) -> None:
    other = sshd.key(tmp_path / "rsa", "rsa")
    host = login(extra=f"HostKey {other}")
    host.pin(other.with_suffix(".pub").read_text().rsplit(" ", 1)[0])
    assert run(host.connection(), "true", 10).status == 0


def test_hashed_names_are_understood(login: sshd.Start) -> None:
    host = login()
    known = host.folder / "known_hosts"
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known)], capture_output=True, check=True)
    assert "127.0.0.1" not in known.read_text()
    assert run(host.connection(), "true", 10).status == 0


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("@revoked * ssh-ed25519 AAAA", "@revoked is not understood"),
        ("@cert-authority * ssh-ed25519 AAAA", "@cert-authority is not understood"),
        ("host ssh-ed25519 ????", "no host key that is understood"),
        ("\x1b[31m nonsense", "no host key that is understood"),
    ],
)
def test_a_known_hosts_file_that_is_not_understood_trusts_nobody(login: sshd.Start, line: str, why: str) -> None:
    host = login()
    with (host.folder / "known_hosts").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(Misconfigured, match=rf"line 2: {why}") as refusal:
        run(host.connection(), "true", 10)
    assert str(refusal.value).isprintable()


def test_a_missing_known_hosts_file_is_named(login: sshd.Start, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"nowhere cannot be read .* pin the hosts' keys there"):
        run(login().connection(keys=HostKeys(tmp_path / "nowhere")), "true", 10)


def test_a_key_that_is_not_let_in_is_named_with_user_and_file(login: sshd.Start, tmp_path: Path) -> None:
    host = login()
    key = sshd.key(tmp_path / "stranger")
    with pytest.raises(Misconfigured, match=rf"does not let {host.user} by {key} in: put the public key"):
        run(host.connection(identity=Identity(host.user, key)), "true", 10)


def test_a_login_node_that_lets_nobody_in_is_passed_over_for_one_that_does(login: sshd.Start, tmp_path: Path) -> None:
    closed, open_ = login(), login()
    both = tmp_path / "both"
    both.write_text((closed.folder / "known_hosts").read_text() + (open_.folder / "known_hosts").read_text())
    way = open_.connection(hosts=[closed.address, open_.address], keys=HostKeys(both))
    assert run(way, "echo $SSH_CONNECTION", 10).stdout.split()[-1] == b"%d" % open_.port


def test_a_certificate_lets_in_and_a_new_one_is_taken_up_without_a_restart(login: sshd.Start, tmp_path: Path) -> None:
    authority, key = sshd.key(tmp_path / "authority"), sshd.key(tmp_path / "mine")
    host = login(extra=f"TrustedUserCAKeys {authority}.pub")
    way = host.connection(identity=Identity(host.user, key, tmp_path / "mine-cert.pub"))

    def sign(validity: str) -> None:
        words = ["ssh-keygen", "-q", "-s", str(authority), "-I", "rerail", "-n", host.user, "-V", validity, f"{key}.pub"]
        subprocess.run(words, check=True, capture_output=True)

    sign("20200101:20200102")
    with pytest.raises(Misconfigured, match="certificate and account have not run out"):
        run(way, "true", 10)
    sign("-1m:+1h")
    assert run(host.connection(identity=Identity(host.user, key)), "true", 10).status == 0  # found beside the key
    way.close()
    again = host.connection(identity=Identity(host.user, key, tmp_path / "mine-cert.pub"))
    assert run(again, "true", 10).status == 0


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A running ssh-agent without keys; its socket."""
    place = Path("/tmp") / f"rerail-agent-{os.getpid()}"  # a socket's path has room for 107 bytes only
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(place)], stdout=subprocess.DEVNULL)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(place))
    wait_until(place.exists, 10, "the agent")
    yield place
    process.terminate()
    process.wait(10)
    place.unlink(missing_ok=True)


def test_an_agent_proves_who_we_are(login: sshd.Start, agent: Path) -> None:
    host = login()
    way = Identity(host.user, agent=True)
    with pytest.raises(Misconfigured, match="the agent at SSH_AUTH_SOCK has no keys"):
        run(host.connection(identity=way), "true", 10)
    subprocess.run(["ssh-add", "-q", str(host.folder / "user")], check=True)
    assert run(host.connection(identity=way), "true", 10).status == 0
    assert run(host.connection(identity=way, jump=Jump(host.address, way)), "true", 10).status == 0


def test_keys_that_cannot_be_used_are_named_with_what_helps(login: sshd.Start, tmp_path: Path) -> None:
    host = login()
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(tmp_path / "locked")]
    subprocess.run(words, check=True)
    shutil.copy(host.folder / "user", tmp_path / "wide")
    (tmp_path / "wide").chmod(0o644)
    (tmp_path / "nonsense").write_text("nonsense")
    (tmp_path / "nonsense").chmod(0o600)
    for name, why in {
        "locked": "has a passphrase; load it into an agent",
        "wide": "can be read by others than its owner; chmod 600",
        "nonsense": "no private key that is understood",
        "missing": r"cannot be read \(No such file or directory\)",
    }.items():
        with pytest.raises(Misconfigured, match=why):
            run(host.connection(identity=Identity(host.user, tmp_path / name)), "true", 10)


def test_what_listens_and_is_no_sshd_is_told(tmp_path: Path, login: sshd.Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host = login()
        address = Address("127.0.0.1", server.getsockname()[1])
        with pytest.raises(Transient, match="does not speak SSH with us") as error:
            run(host.connection(hosts=[address], connect_s=0.5), "true", 10)
        assert str(error.value).isprintable()
