"""docs/aws.md, followed from its first line to its last, with DynamoDB Local, ElasticMQ and simulated EC2."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.reader import Reader
from fakes.ec2.control import Control
from fakes.java_engines import Engines
from scenario.commands import Starter
from walkthroughs import ROOT, steps

PAGE = "docs/aws.md"


@pytest.fixture
def reader(tmp_path: Path, no_account: None, engines: Engines, cloud: Control, console_tools: Path) -> Iterator[Reader]:
    """The settings of Bullpen and an option of the AWS CLI name the test's engines."""
    cloud.launch_for_real(tmp_path / "machines")
    endpoints = {"dynamodb": engines.dynamodb, "sqs": engines.sqs, **cloud.settings()["endpoints"]}
    urls = ", ".join(f"{name} = {json.dumps(url)}" for name, url in endpoints.items())
    environ = {"BULLPEN_AWS_ENDPOINTS": f"{{{urls}}}", "AWS_DEFAULT_REGION": "us-east-1"}
    starter = Starter("aws")
    reader = Reader(tmp_path, starter, environ=environ)
    reader.instead |= {"10.0.0.5:8420": f"127.0.0.1:{reader.place().port}", "10.0.0.5": "127.0.0.1"}
    cases = "\n".join(f"{name}) url={endpoints[name]} ;;" for name in ("dynamodb", "sqs", "ec2"))
    reader.program("aws", f'case "$1" in\n{cases}\nesac\nexec {console_tools / "aws"} --endpoint-url $url "$@"')
    try:
        yield reader
    finally:
        reader.end()
        starter.close()


@pytest.mark.slow
def test_the_page_leads_from_an_empty_account_to_jobs_and_back_to_nothing(reader: Reader, cloud: Control) -> None:
    followed = steps(PAGE)
    assert sum(len(step.commands) for step in followed) > 20
    for step in followed:
        reader.follow(step)
    assert reader.place().stop() == [0]
    assert cloud.instances("pending", "running") == {}
    assert cloud.look()["templates"] == {}


def test_every_block_of_the_page_is_followed_or_marked_as_not_run() -> None:
    text = (ROOT / PAGE).read_text()
    blocks = re.findall(r"(?:^<!-- ([^\n]*) -->\n)?^```(\w*)\n.*?^```$", text, re.MULTILINE | re.DOTALL)
    known = {("walk-through", "console"), ("bullpen.toml", "toml")}
    assert {(mark, kind) for mark, kind in blocks if not mark.startswith("not run: ")} == known
