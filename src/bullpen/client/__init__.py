"""The client of `bullpen serve`, asynchronous (`AsyncClient`) and synchronous (`Client`), with the same methods.

    with Client("https://bullpen.example.com", token=os.environ["BULLPEN_TOKEN"]) as client:
        client.provision("4711", ProvisionRun(count=3))

Requests and answers are the structs of `bullpen.schema`. Errors are those of `bullpen.errors`, each with the server's
`code` for it, the `field` of the request and a `remedy`.

    async_client   every endpoint as a method of `AsyncClient`, by subject: runs, jobs, files, pool, operate
    sync_client    the same methods of `Client`, run without an event loop
    requester      one request: repeated where that is safe, its answer checked and decoded
    answers        what an answer means: a version, an error, or no Bullpen at all
    transport      httpx, blocking and not; its errors in sentences
    address        server URL, token and certificates, checked before the first request
"""

from bullpen.client.async_client import AsyncClient
from bullpen.client.files import ServerStore
from bullpen.client.sync_client import Client
from bullpen.schema.requests import ProvisionRun, SubmitJob

__all__ = ["AsyncClient", "Client", "ProvisionRun", "ServerStore", "SubmitJob"]
