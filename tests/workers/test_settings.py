"""The settings file: safe defaults, and every mistake told with file, line and what was expected."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from rerail.errors import Misconfigured
from rerail.records import Drain, Mode
from workers.settings import CommandChannel, LocalScheduler, Settings, SlurmScheduler, WebhookChannel, find, load

ROOT = Path(__file__).parents[2]
CLUSTER = "clusters:\n  a:\n    scheduler:\n      local: {folder: x}\n"
Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a settings file and gives its path."""

    def written(text: str) -> Path:
        path = tmp_path / "rerail.yaml"
        path.write_text(text)
        return path

    return written


def test_the_example_loads() -> None:
    settings = load(ROOT / "rerail.example.yaml")
    assert set(settings.clusters) == {"workstation", "alpha"}
    assert isinstance(settings.cluster("workstation").scheduler, LocalScheduler)
    assert isinstance(settings.cluster("alpha").scheduler, SlurmScheduler)
    assert settings.cluster("alpha").scope.partitions == ("gpu*",)


def test_the_least_file_is_safe(write: Write, tmp_path: Path) -> None:
    settings = load(write(CLUSTER))
    cluster = settings.cluster("a")
    assert cluster.mode is Mode.MONITOR
    assert (cluster.approval.expires_s, cluster.approval.remind_s) == (1800, 1200)
    assert settings.state == tmp_path / "state"
    assert settings.audit_url({}).database == str(tmp_path / "state" / "audit.db")
    assert settings.kernel_log_template("a") == f"{tmp_path}/x/nodes/{{node}}/kernel.log"


def test_a_shorter_expiry_brings_an_earlier_reminder(write: Write) -> None:
    approval = load(write(CLUSTER + "    approval: {expires_s: 30}\n")).cluster("a").approval
    assert approval.remind_s == 20


def test_settings_are_frozen(write: Write) -> None:
    settings = load(write(CLUSTER))
    with pytest.raises(ValidationError):
        settings.state = Path("/elsewhere")  # type: ignore[misc]


def test_a_slurm_cluster_has_kernel_logs_only_where_told(write: Write, tmp_path: Path) -> None:
    slurm = "clusters:\n  a:\n    scheduler: {slurm: {}}\n"
    assert load(write(slurm)).kernel_log_template("a") is None
    assert load(write(slurm + "    kernel_log: logs/{node}\n")).kernel_log_template("a") == f"{tmp_path}/logs/{{node}}"


def test_channels_keep_their_kind(write: Write) -> None:
    text = "channels:\n  - webhook: {url: 'https://x.example/y', secret_env: KEY}\n  - command: {argv: [/bin/true, a]}\n"
    webhook, command = load(write(CLUSTER + text)).channels
    assert isinstance(webhook, WebhookChannel)
    assert isinstance(command, CommandChannel)
    assert webhook.secret({"KEY": "s3"}) == "s3"
    assert command.argv == ("/bin/true", "a")


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("", 1, "lacks the key 'clusters'"),
        ("- a\n", 1, "expected a section with the keys audit, channels, clusters, intake, signatures, state or temporal"),
        ("clusters:\n  a: 5\n", 2, "clusters.a is 5; expected a section"),
        ("clusters:\n  a:\n    mode: monitor\n", 2, "clusters.a lacks the key 'scheduler'"),
        (
            CLUSTER + "    modee: monitor\n",
            5,
            "unknown key 'modee' in clusters.a (did you mean 'mode'?); expected approval,",
        ),
        (CLUSTER + "    mode: auto\n", 5, "clusters.a.mode is 'auto'; expected 'monitor' or 'autonomous'"),
        (CLUSTER + "    interval_s: yes\n", 5, "clusters.a.interval_s is True; expected a number"),
        (CLUSTER + "    interval_s: .nan\n", 5, "expected a finite number"),
        (CLUSTER + "    scope:\n      users: bob\n", 6, "clusters.a.scope.users is 'bob'; expected a list"),
        (CLUSTER + "    approval: {expires_s: 9, remind_s: 9}\n", 5, "remind_s: 9 is not before expires_s 9"),
        (CLUSTER + "    kernel_log: /x\n", 5, "kernel_log: '/x' lacks {node}"),
        (CLUSTER + "    kernel_log: '/{node.__class__}'\n", 5, "expected a path with {node} in it"),
        ("clusters:\n  a:\n    scheduler: {slurm: {}}\n    kernel_log: '{folder}/{node}'\n", 4, "other braces"),
        ("clusters:\n  a:\n    scheduler: {locl: {}}\n", 3, "unknown key 'locl' in clusters.a.scheduler (did you mean 'local'?)"),
        ("clusters:\n  a:\n    scheduler: {local: {folder: x}, slurm: {}}\n", 3, "expected one key of local or slurm"),
        ("clusters:\n  a/b:\n    scheduler: {slurm: {}}\n", 2, "the name 'a/b' cannot be used"),
        (CLUSTER + "channels:\n  - webhook: {}\n", 6, "channels[0].webhook lacks the key 'url'"),
        (CLUSTER + "channels:\n  - webhook: {url: 'ftp://x/'}\n", 6, "no web address"),
        (CLUSTER + "channels:\n  - command: {argv: [page]}\n", 6, "'page' has no full path; expected a path that begins with /"),
        (CLUSTER + "audit: nonsense\n", 5, "audit: it is no SQLAlchemy URL"),
        (CLUSTER + "audit: sqlite://\n", 5, "in memory only"),
        (CLUSTER + "state: 5\n", 5, "state is 5; expected a path"),
        (CLUSTER + "  a: {}\n", 5, "the key 'a' stands twice, first on line 2"),
        (CLUSTER + "  7: {}\n", 5, "the key '7' is not text; expected text; put it in quotes"),
        (CLUSTER + "x: &a [1]\ny: *a\n", 5, "an alias (*name) is used"),
        ("a: !!python/object/apply:os.system [x]\n", 1, "no valid YAML"),
        ("a: [\n", 2, "no valid YAML"),
    ],
)
def test_a_mistake_is_told_with_file_line_and_what_was_expected(write: Write, text: str, line: int, told: str) -> None:
    path = write(text)
    with pytest.raises(Misconfigured) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}, line {line}: ")
    assert told in message
    assert message.count("\n") == 0


def test_the_first_mistake_comes_first_and_the_rest_are_counted(write: Write) -> None:
    with pytest.raises(Misconfigured, match=r"line 5: .*interval_s.*\(1 more after that\.\)$"):
        load(write(CLUSTER + "    interval_s: 0\n    mode: auto\n"))


@pytest.mark.parametrize(
    "text",
    [
        CLUSTER + "audit: postgresql://u:hunter2@h/d\n",
        CLUSTER + "audit: postgresql://h/d?password=hunter2\n",
        CLUSTER + "audit: postgresql://u:${A}hunter2@h/d\n",
        CLUSTER + "channels:\n  - webhook: {url: 'https://u:hunter2@h/'}\n",
        CLUSTER + "channels:\n  - webhook: {url: 'https://h/', secret_env: 'hunter2!'}\n",
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(write: Write, text: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        load(write(text))
    assert "hunter2" not in str(caught.value)


def test_secrets_come_from_the_environment_and_are_never_shown(write: Write) -> None:
    settings = load(
        write(CLUSTER + "audit: postgresql://u:${PW}@h/d\nchannels:\n  - webhook: {url: 'https://hooks.example/T1/hunter2'}\n")
    )
    assert settings.audit_url({"PW": "p@ss/word"}).password == "p@ss/word"
    shown = str(settings.shown())
    assert "hunter2" not in shown
    assert "hooks.example" in shown
    assert "postgresql://u:***@h/d" in shown


def test_a_variable_that_is_not_set_is_named(write: Write) -> None:
    settings = load(write(CLUSTER + "audit: postgresql://u:${PW}@h/d\nchannels:\n  - webhook: {url: '${HOOK}'}\n"))
    with pytest.raises(Misconfigured, match="PW, which is not set"):
        settings.audit_url({})
    webhook = settings.channels[0]
    assert isinstance(webhook, WebhookChannel)
    with pytest.raises(Misconfigured, match="HOOK, which is not set"):
        webhook.address({})
    assert webhook.address({"HOOK": "https://h/x"}) == "https://h/x"
    with pytest.raises(Misconfigured, match="no web address"):
        webhook.address({"HOOK": "file:///etc/passwd"})


def test_the_flag_wins_over_the_environment_and_that_over_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("rerail.yaml", "flag.yaml", "variable.yaml"):
        (tmp_path / name).write_text(CLUSTER)
    variable = {"RERAIL_SETTINGS": "variable.yaml"}
    assert find(Path("flag.yaml"), variable) == tmp_path / "flag.yaml"
    assert find(None, variable) == tmp_path / "variable.yaml"
    assert find(None, {}) == tmp_path / "rerail.yaml"


def test_without_a_file_the_next_step_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Misconfigured, match=r"copy rerail\.example\.yaml"):
        load(None, {})
    with pytest.raises(Misconfigured, match="named by RERAIL_SETTINGS, is not there"):
        load(None, {"RERAIL_SETTINGS": "gone.yaml"})


@pytest.mark.parametrize("raw", [b"#" * 300_000, b"\xff\xfe\xfd", b"[" * 100_000, b"a: 2026-13-45", b"\x00", b"a: 1\xe2\x80"])
def test_a_file_of_another_kind_ends_in_a_sentence(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "rerail.yaml"
    path.write_bytes(raw)
    with pytest.raises(Misconfigured) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_an_unknown_cluster_is_told_with_the_known_ones(write: Write) -> None:
    with pytest.raises(Misconfigured, match="known are a"):
        load(write(CLUSTER)).cluster("b")


def test_the_environment_wins_over_the_file_for_temporal(write: Write, tmp_path: Path) -> None:
    temporal = load(write(CLUSTER + "temporal: {address: 'file:1', namespace: from-file}\n")).temporal
    nothing = {"TEMPORAL_CONFIG_FILE": str(tmp_path / "none.toml")}
    config = temporal.connect_config(nothing)
    assert (config["target_host"], config["namespace"]) == ("file:1", "from-file")
    config = temporal.connect_config(nothing | {"TEMPORAL_ADDRESS": "env:1", "TEMPORAL_NAMESPACE": "from-env"})
    assert (config["target_host"], config["namespace"]) == ("env:1", "from-env")


def test_a_profile_of_temporal_is_used(write: Write, tmp_path: Path) -> None:
    profiles = tmp_path / "temporal.toml"
    profiles.write_text('[profile.prod]\naddress = "prod:7233"\nnamespace = "n"\n')
    temporal = load(write(CLUSTER + "temporal: {profile: prod}\n")).temporal
    assert temporal.connect_config({"TEMPORAL_CONFIG_FILE": str(profiles)})["target_host"] == "prod:7233"


def test_a_profile_that_is_not_there_is_told(write: Write, tmp_path: Path) -> None:
    profiles = tmp_path / "temporal.toml"
    profiles.write_text('[profile.prod]\naddress = "prod:7233"\n')
    temporal = load(write(CLUSTER + "temporal: {profile: nonesuch}\n")).temporal
    with pytest.raises(Misconfigured, match="nonesuch"):
        temporal.connect_config({"TEMPORAL_CONFIG_FILE": str(profiles)})


def test_what_is_shown_names_every_setting(write: Write) -> None:
    assert set(load(write(CLUSTER)).shown()) == set(Settings.model_fields)


ROW = """\
- id: site.{name}
  pattern: '{name}: cannot reach the server'
  role: root
  fault: system
  scope: service
  cause: {name}_down
  advice: restart
  kind: crash
  why: A server did not answer.
  source: our own
  example: '{name}: cannot reach the server'
"""


def test_a_sites_signatures_hold_for_all_clusters_and_a_clusters_own_for_it_alone(write: Write, tmp_path: Path) -> None:
    for name in ("licences", "tokens"):
        (tmp_path / f"{name}.yaml").write_text(ROW.format(name=name))
    other = CLUSTER.partition("\n")[2].replace("  a:", "  b:")
    settings = load(
        write(f"signatures: licences.yaml\n{CLUSTER}    signatures: tokens.yaml\n    steps: 'sweep (?P<step>\\d+)'\n{other}")
    )
    own = {n: [row.id for row in settings.dialect(n).rows if row.id.startswith("site.")] for n in ("a", "b")}
    assert own == {"a": ["site.licences", "site.tokens"], "b": ["site.licences"]}
    assert [settings.dialect(n).steps for n in ("a", "b")] == [r"sweep (?P<step>\d+)", ""]


def test_the_same_signature_in_both_files_is_refused_with_its_line(write: Write, tmp_path: Path) -> None:
    (tmp_path / "rows.yaml").write_text("# ours\n" + ROW.format(name="licences"))
    settings = load(write(f"signatures: rows.yaml\n{CLUSTER}    signatures: rows.yaml\n"))
    with pytest.raises(Misconfigured, match=r"rows\.yaml:2: id 'site\.licences' exists already"):
        settings.dialect("a")


def test_a_pattern_of_steps_without_a_step_is_refused_with_its_line(write: Write) -> None:
    with pytest.raises(Misconfigured, match=r"line 5: clusters\.a\.steps: .*group named step"):
        load(write(CLUSTER + "    steps: 'sweep \\d+'\n"))


def test_nothing_is_drained_and_no_comment_written_unless_the_file_says_so(write: Write) -> None:
    quiet = load(write(CLUSTER)).cluster("a")
    assert (quiet.drain, quiet.comment) == (Drain.NEVER, False)


def test_drains_and_comments_are_switched_on_in_plain_words(write: Write) -> None:
    text = "clusters:\n  a:\n    scheduler: {local: {folder: x}}\n    drain: ask\n    comment: on\n    scope: {qos: [high]}\n"
    loud = load(write(text)).cluster("a")
    assert (loud.drain, loud.comment, loud.scope.qos) == (Drain.ASK, True, ("high",))
    with pytest.raises(Misconfigured, match="drain"):
        load(write(text.replace("ask", "always")))
