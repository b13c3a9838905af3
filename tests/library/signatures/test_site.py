"""A site's own rows: good ones join, bad ones are refused with their line."""

from pathlib import Path

import pytest

from rerail.errors import Misconfigured
from rerail.records import FaultClass
from rerail.signatures import ALL, load_site_rows, scan

GOOD = """\
# our own rows
- id: site.cooling_door
  pattern: 'RACK-DOOR (?P<node>[a-z0-9-]+) OPEN'
  role: root
  fault: hardware
  scope: node
  cause: cooling_door_open
  advice: restart_excluding_nodes
  kind: straggler
  why: An open door lets the rack run hot.
  source: our building management
  example: 'bms: RACK-DOOR r7-n03 OPEN'
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "signatures.yaml"
    path.write_text(text)
    return path


def test_a_good_row_joins_the_scan(tmp_path: Path) -> None:
    rows = load_site_rows(write(tmp_path, GOOD))
    assert [row.fault for row in rows] == [FaultClass.HARDWARE]
    assert [hit.id for hit in scan(b"x\nbms: RACK-DOOR r7-n03 OPEN", ALL + rows)] == ["site.cooling_door"]


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    assert load_site_rows(write(tmp_path, "# nothing yet\n")) == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("id: site.cooling_door", "id: xid.79"), ":2: id 'xid.79' exists already"),
        (("  role: root\n", ""), ":2: missing role"),
        (("role: root", "rolle: root"), ":2: unknown 'rolle'; missing role"),
        (("role: root", "role: culprit"), ":2: role: Input should be"),
        (("(?P<node>", "(?=x)(?P<node>"), ":2: signature pattern refused"),
        (("(?P<node>[a-z0-9-]+)", "((((("), ":2: signature pattern refused"),
        (("RACK-DOOR (", "TÜR ("), ":2: signature pattern refused"),
        (("'RACK-DOOR (?P<node>[a-z0-9-]+) OPEN'", "'.*'"), ":2: pattern matches an empty line"),
        (("r7-n03 OPEN", "r7-n03 SHUT"), ":2: pattern does not match its own example"),
        (("- id", "id"), "not YAML"),
        ((GOOD, "rows: 3"), ":1: expected a list of rows"),
        ((GOOD, "- just text"), ":1: expected a mapping"),
        ((GOOD, "- [a, b"), "not YAML"),
        ((GOOD, "- !!python/object/apply:os.system ['true']"), ":1: expected a mapping"),
        ((GOOD, "- {id: !!python/name:os.system x}"), ":1: "),
        (("RACK-DOOR (", "R" * 1100 + "|RACK-DOOR ("), ":2: pattern longer than 1000"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_bad_row_is_refused_with_its_line_and_the_keys(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    path = write(tmp_path, GOOD.replace(*change))
    with pytest.raises(Misconfigured) as refused:
        load_site_rows(path)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 1500


def test_the_second_of_two_rows_is_named_by_its_own_line(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r":13: id 'site\.cooling_door' exists already"):
        load_site_rows(write(tmp_path, GOOD + GOOD.split("\n", 1)[1]))


def test_a_huge_or_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="larger than"):
        load_site_rows(write(tmp_path, "#" * (1 << 20) + "\n\n"))
    with pytest.raises(Misconfigured, match="cannot be read"):
        load_site_rows(tmp_path / "absent.yaml")


def test_deeply_nested_or_repeating_yaml_does_no_harm(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured):
        load_site_rows(write(tmp_path, "[" * 5000))
    bomb = "- &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"- &{chr(98 + n)} [{','.join('*' + chr(97 + n) for _ in range(9))}]\n" for n in range(9)
    )
    with pytest.raises(Misconfigured, match="expected a mapping"):
        load_site_rows(write(tmp_path, bomb))
