"""What EC2 reports to a machine about itself, and what the agent does without an answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from agent.answering import AnsweringService, Asked, StoreAnswer, answering
from bullpen.agent.aws.imds import RENEWED_BEFORE, ROLE, MachineIdentity, Metadata, NoMetadata

DOCUMENT = "/latest/dynamic/instance-identity/document"
TOKEN = "x-aws-ec2-metadata-token"


@dataclass(slots=True)
class Machine:
    """What the metadata service knows; a token is good until it is taken from `tokens`."""

    found: dict[str, str] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)
    broken: int = 0  # the status of every answer

    def answer(self, asked: Asked) -> StoreAnswer:
        if self.broken:
            return StoreAnswer(self.broken)
        if asked.method == "PUT":
            assert asked.headers[f"{TOKEN}-ttl-seconds"] == "21600"
            self.tokens.append(f"token-{len(self.tokens)}")
            return StoreAnswer(body=self.tokens[-1])
        if asked.headers.get(TOKEN) not in self.tokens:
            return StoreAnswer(401)
        return StoreAnswer(body=self.found[asked.path]) if asked.path in self.found else StoreAnswer(404)

    def grants(self, key: str, lasts: float) -> None:
        expires = (datetime.now(UTC) + timedelta(seconds=lasts)).strftime("%Y-%m-%dT%H:%M:%SZ")
        said = {"AccessKeyId": key, "SecretAccessKey": "hidden", "Token": "session", "Expiration": expires}
        self.found |= {ROLE: "runner\n", f"{ROLE}runner": json.dumps(said)}


@pytest.fixture
def machine() -> Machine:
    who = {"instanceId": "i-1", "availabilityZone": "eu-1a", "region": "eu-1", "instanceType": "c7.large"}
    who["accountId"] = "123456789012"
    return Machine({DOCUMENT: json.dumps(who)})


@pytest.fixture
def service(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[AnsweringService]:
    with answering(machine.answer) as service:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"{service.url}/")
        yield service


def test_a_machine_knows_its_id_and_its_zone(service: AnsweringService) -> None:
    assert Metadata().identity() == MachineIdentity("i-1", "eu-1a", "eu-1", "c7.large", "123456789012")


def test_an_endpoint_may_have_a_path(
    service: AnsweringService, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"{service.url}/machines/i-1/")
    machine.found["/machines/i-1/latest/meta-data/thing"] = '{"name": "value"}'
    assert Metadata().texts("/latest/meta-data/thing", "name") == ["value"]


def test_a_token_is_drawn_once_and_again_when_it_has_run_out(service: AnsweringService, machine: Machine) -> None:
    metadata = Metadata()
    metadata.identity()
    metadata.identity()
    assert [asked.method for asked in service.asked] == ["PUT", "GET", "GET"]
    machine.tokens[0] = "gone"
    assert metadata.identity().instance_id == "i-1"


def test_credentials_are_kept_until_minutes_before_they_expire(service: AnsweringService, machine: Machine) -> None:
    metadata = Metadata()
    machine.grants("first", RENEWED_BEFORE + 60)
    assert metadata.credentials() == ("first", "hidden", "session")
    machine.grants("second", RENEWED_BEFORE + 60)
    assert metadata.credentials()[0] == "first"
    metadata._renew_at -= 61
    assert metadata.credentials()[0] == "second"


def test_credentials_about_to_expire_are_not_asked_for_at_every_call(
    service: AnsweringService, machine: Machine
) -> None:
    metadata = Metadata()
    machine.grants("first", 30)
    metadata.credentials()
    asked = len(service.asked)
    metadata.credentials()
    assert len(service.asked) == asked


def test_old_credentials_serve_while_new_ones_cannot_be_fetched_and_no_longer(
    service: AnsweringService, machine: Machine
) -> None:
    metadata = Metadata()
    machine.grants("first", 3600)
    metadata.credentials()
    metadata._renew_at, machine.broken = 0.0, 500
    assert metadata.credentials()[0] == "first"
    metadata._expire_at = 0.0
    with pytest.raises(NoMetadata):
        metadata.credentials()


def test_credentials_that_were_refused_are_fetched_again(service: AnsweringService, machine: Machine) -> None:
    metadata = Metadata()
    machine.grants("first", 3600)
    metadata.credentials()
    machine.grants("second", 3600)
    metadata.forget_credentials()
    assert metadata.credentials()[0] == "second"


def test_a_machine_without_a_role_says_what_it_lacks(service: AnsweringService) -> None:
    with pytest.raises(NoMetadata, match="instance profile"):
        Metadata().credentials()


@pytest.mark.parametrize("said", ['{"SecretAccessKey": "hidden"}', '"hidden"', "hidden", '["hidden"]'])
def test_no_message_shows_what_may_be_a_secret(service: AnsweringService, machine: Machine, said: str) -> None:
    machine.found |= {ROLE: "runner", f"{ROLE}runner": said}
    with pytest.raises(NoMetadata) as failure:
        Metadata().credentials()
    assert "hidden" not in str(failure.value)
    assert failure.value.__cause__ is None


@pytest.mark.parametrize("status", [400, 403, 500])
def test_a_service_that_fails_is_no_metadata(service: AnsweringService, machine: Machine, status: int) -> None:
    machine.broken = status
    with pytest.raises(NoMetadata, match=str(status)):
        Metadata().identity()


def test_a_service_that_is_not_there_is_no_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(NoMetadata, match="did not answer"):
        Metadata().identity()
