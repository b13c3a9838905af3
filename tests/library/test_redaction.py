"""Secrets go; what an operator needs stays."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.redaction import MASK, names_secret, redacted

SECRET = "hunter2hunter2hunter2"


@pytest.mark.parametrize(
    "text",
    [
        f"password={SECRET}",
        f"password: {SECRET}",
        f'{{"password": "{SECRET}"}}',
        f"DB_PASSWORD='{SECRET} with spaces'",
        f"PGPASSWORD={SECRET}",
        f"authToken: {SECRET}",
        f"api_key={SECRET}&x=1",
        f"client-secret = {SECRET}",
        f"--wandb-api-key {SECRET} --lr 0.1",
        f"--password={SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"authorization: Basic {SECRET}",
        f"'Authorization': 'Bearer {SECRET}'",
        f"sent bearer {SECRET}",
        f"cloning https://user:{SECRET}@git.example.org/x.git",
        f"postgresql+psycopg://rerail:{SECRET}@db/rerail",
        f"redis://:{SECRET}@cache:6379/0",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRET} cut off",
        f"ghp_{SECRET}",
        f"hf_{SECRET}",
        f"eyJhbGciOiJI.{SECRET}.{SECRET}",
        f"aws_secret_access_key = {SECRET}",
    ],
)
def test_a_secret_goes(text: str) -> None:
    assert SECRET not in redacted(text)
    assert MASK in redacted(text)


@pytest.mark.parametrize("text", ["AKIA" + "ABCDEFGHIJKLMNOP", "mail jane.doe+x@mail.example.org now"])
def test_a_key_id_and_an_address_go(text: str) -> None:
    assert MASK in redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
        "tokens_per_second: 12000 step: 500 loss: 2.31",
        "tokenizer=gpt2 max_tokens=4096",
        "see http://127.0.0.1:8233/namespaces/default/workflows?query=RerailStage%3D%22x%22",
        "remediate-job/alpha/4711/1764580000/1 approved by ann",
        "RuntimeError: Expected all tensors to be on the same device (rank 3 @ node-7)",
        "torch.distributed.elastic: secretary left",
        "key=12 value=13",
    ],
)
def test_what_an_operator_needs_stays(text: str) -> None:
    assert redacted(text) == text


def test_people_stay_where_they_acted_but_their_secrets_do_not() -> None:
    assert redacted("ann@x.org password=hunter2", people=True) == f"ann@x.org password={MASK}"


@pytest.mark.parametrize(
    "name", ["password", "RERAIL_TOKEN", "api-key", "aws_secret_access_key", "client_secret", "Authorization"]
)
def test_a_secret_is_known_by_its_name(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize("name", ["tokens", "tokens_per_s", "key", "passed_step", "monkey", "keyboard", "tokenizer"])
def test_other_names_are_left_alone(name: str) -> None:
    assert not names_secret(name)


@given(st.text() | st.text(alphabet="password=:@/ \"'-BEGINtoken."))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.parametrize(
    "part", ["a", "a.", "a@", "://", "password", "password=", "-----BEGIN PRIVATE KEY-----", "bearer ", "--a-", "eyJaaaaaaaa."]
)
def test_hostile_text_takes_linear_time(part: str) -> None:
    def seconds(length: int) -> float:
        text = (part * length)[:length]
        began = time.process_time()
        redacted(text)
        return time.process_time() - began

    assert seconds(200_000) < 5
