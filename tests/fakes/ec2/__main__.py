"""The cloud as a process: prints its port on one line, and ends when its parent closes its stdin, a pipe.

PYTHONPATH=src:tests python -m aws.cloud [PORT]
"""

import asyncio
import os
import signal
import sys

from fakes.ec2.models import service_model
from fakes.ec2.server import served


async def main(port: int) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), lambda: None if os.read(sys.stdin.fileno(), 4096) else over.set())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    service_model("ec2")  # before a client waits for the first answer
    async with served(port) as url:
        print(url.rpartition(":")[2], flush=True)
        await over.wait()
        loop.remove_reader(sys.stdin.fileno())


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
