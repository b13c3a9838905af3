"""Nothing committed names a package registry, or the machine on which it was written; no secret, no container without a pin."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.house.checkout import ROOT, files

# Each is put together here, so that this file does not name it.
REGISTRIES = ("py" + "pi.org", "python" + "hosted.org", "npm" + "js.org", "deb." + "debian.org", "proxy.go" + "lang.org")
OUR_FOLDERS = ("/work/" + "main", "/work/" + "shared", "/work/" + ".library", "/tmp/" + "brief", "/root/" + ".pyenv")

MACHINE = re.compile("|".join(re.escape(word) for word in (*REGISTRIES, *OUR_FOLDERS)))

QUOTED = ("tests/corpus/", "tests/real_logs/", "tests/cases/")
"""Logs of other people's machines may name those machines' paths and registries."""

SECRET = re.compile(r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\n[A-Za-z0-9+/=\n]{100}")


def texts() -> Iterator[tuple[Path, str]]:
    for path in files():
        data = (ROOT / path).read_bytes()
        if b"\0" not in data[:4096]:
            yield path, data.decode("utf-8", "replace")


def test_no_file_names_a_registry_or_a_path_of_this_machine() -> None:
    ours = ((path, text) for path, text in texts() if not str(path).startswith(QUOTED))
    named = [f"{path}: {found[0]}" for path, text in ours if (found := MACHINE.search(text))]
    assert named == []


def test_no_private_key_is_committed() -> None:
    assert [str(path) for path, text in texts() if SECRET.search(text)] == []


def test_images_are_pinned_and_published_on_loopback_alone() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    services = compose["services"].values()
    assert [s["image"] for s in services if not re.search(r":\d+\.\d+", s["image"])] == []
    assert [port for s in services for port in s.get("ports", []) if not port.startswith("127.0.0.1:")] == []
    base = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert base
    assert [image for image in base if not re.search(r":\d+\.\d+\.\d+", image)] == []


def test_compose_has_no_default_for_a_password() -> None:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    secrets = re.findall(r"(?:PASSWORD|PWD|SECRET|KEY)\w*: (.*)", text)
    assert secrets
    assert [value for value in secrets if not re.fullmatch(r"\$\{\w+:\?[^}]+\}", value)] == []


def test_the_image_does_not_run_as_root() -> None:
    users = re.findall(r"^USER (\S+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert users
    assert users[-1] not in ("root", "0")


@pytest.mark.parametrize("folder", ["policies", "workflows", "activities", "adapters", "workers"])
def test_the_image_gets_every_room_and_no_more(folder: str) -> None:
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert f"!{folder}" in allowed
    assert allowed[0] == "*"
