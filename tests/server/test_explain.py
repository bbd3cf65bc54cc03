"""The routes that explain: the same answers as the command line's, with the scope `read`, and clear errors."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from bullpen import jobs
from bullpen.jobs.request import JobRequest
from server.fixtures import a_house
from server.jobs_of_github import a_hub

URL = "https://github.com/acme/widgets/actions/runs/4711/job/99"


async def test_why_plan_and_queue_answer_a_reader(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        (job,) = await jobs.submit(house.ports, [JobRequest("misspelt", ("true",))], by="a test")
        for subject in (job.id, "misspelt"):
            answer = (await house.ask("GET", f"/v1/why/{subject}", "read")).json()
            assert [one["cause"] for one in answer["waits"]] == ["no-match"]
            assert answer["stories"][0]["id"] == job.id
        waits = (await house.ask("GET", "/v1/queue", "read")).json()
        assert [one["subject"] for one in waits["unmatched"]] == [job.id]
        body = {"runId": "4711", "count": 2}
        planned = (await house.ask("POST", "/v1/plan", "read", json=body)).json()
        assert (planned["requested"], planned["wouldLaunch"]["count"]) == (2, 2)


async def test_an_unknown_subject_is_a_404_with_a_remedy(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        answer = await house.ask("GET", "/v1/why/i-0000000000000000", "read")
        assert (answer.status_code, bool(answer.json()["remedy"])) == (404, True)


@pytest.mark.parametrize("subject", ["x" * 300, "%00", "a%0Ab"])
async def test_what_no_id_can_be_is_a_400_that_says_what_is_allowed(tmp_path: Path, subject: str) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        answer = await house.ask("GET", f"/v1/why/{subject}", "read")
        assert (answer.status_code, answer.json()["field"]) == (400, "subject"), answer.text


@pytest.mark.parametrize("spelt", [quote(URL, safe=""), URL])
async def test_the_url_of_a_job_is_a_400_where_the_pool_runs_its_own_jobs(tmp_path: Path, spelt: str) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        answer = await house.ask("GET", f"/v1/why/{spelt}", "read")
        assert answer.status_code == 400
        assert URL in answer.text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"count": 1}, "runId"),
        ({"runId": "4711"}, "count"),
        ({"runId": "4711", "count": 0}, "count"),
        ({"runId": "a b", "count": 1}, "runId"),
        ({"runId": "4711", "count": 1, "resourceClass": "huge"}, "resourceClass"),
        ({"runId": "4711", "count": 1, "colour": "red"}, "colour"),
    ],
)
async def test_a_wrong_plan_names_the_field(tmp_path: Path, body: dict[str, object], field: str) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        answer = await house.ask("POST", "/v1/plan", "read", json=body)
        assert (answer.status_code, answer.json()["field"]) == (400, field)


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/why/4711"), ("POST", "/v1/plan"), ("GET", "/v1/queue")])
async def test_without_a_token_each_is_a_401(tmp_path: Path, method: str, path: str) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        assert (await house.ask(method, path, "nonsense")).status_code == 401


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/why/4711"), ("POST", "/v1/plan"), ("GET", "/v1/queue")])
async def test_agents_and_workflow_runs_learn_nothing_of_what_waits(tmp_path: Path, method: str, path: str) -> None:
    body = {"runId": "4711", "count": 1} if method == "POST" else None
    async with a_hub(tmp_path) as hub:
        for token in (await hub.run_token(), "i-0000000000000001"):
            answer = await hub.house.ask(method, path, token, json=body)
            assert answer.status_code == 403, answer.text
