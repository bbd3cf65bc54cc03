"""A machine from its launch to its first report over HTTP: user data, archive, proof, token, with nothing left out."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from builders import register
from bullpen.config import Agent, Settings
from bullpen.engines.aws.boot.archive import archive
from bullpen.engines.aws.boot.userdata import own_user_data
from bullpen.engines.aws.dynamodb.items import encode, key_of, raw_key
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.model.instance import Instance
from bullpen.server.serve import serve
from engines.aws.machine import PATIENCE
from engines.aws.tables import a_table
from fakes.aws_fixtures import MakeSettings
from fakes.ec2 import ground
from fakes.ec2.calling import a_fleet, a_template, client_of, ids_of
from fakes.ec2.control import Control

pytestmark = [pytest.mark.slow, pytest.mark.real_loop]
AGENT = archive()


async def launch(cloud: Control, folder: Path, settings: Settings) -> str:
    cloud.launch_for_real(folder)
    async with client_of(cloud) as ec2:
        await a_template(ec2, own_user_data(settings))
        (id_,) = ids_of(await ec2.create_fleet(**a_fleet(1)))
    return id_


async def reported(table: TableClient, instance_id: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            if found := await table.get(raw_key("WS", instance_id)):
                return found
            await asyncio.sleep(0.05)


async def test_a_machine_launched_without_a_token_proves_itself_and_is_heard(
    tmp_path: Path, cloud: Control, aws_settings: MakeSettings
) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    settings = aws_settings(
        endpoints={"sts": cloud.url, "ec2": cloud.url},
        agent=Agent(serve_url=f"http://127.0.0.1:{listening.getsockname()[1]}"),
        region=ground.REGION,
        instance_role=ground.ROLE_ARN,
    )
    async with a_table(settings.aws) as table:
        await table.put({**raw_key("Agent", AGENT.sha256), "archive": {"B": AGENT.content}})
        stop, ready = asyncio.Event(), asyncio.Event()
        serving = asyncio.create_task(serve(tmp_path / "home", settings, "127.0.0.1", [listening], stop, ready.set))
        try:
            await asyncio.wait_for(ready.wait(), PATIENCE)
            instance_id = await launch(cloud, tmp_path / "machines", settings)
            record = register(instance_id).after
            await table.put({**key_of(Instance, instance_id), **encode(record)})
            signal = await reported(table, instance_id)
        finally:
            stop.set()
            await serving
    assert (signal["value"]["M"]["signal"], signal["round"]) == ({"S": "UD_OK"}, {"S": record.round})
