"""The server: requests of the AWS client, of instances to their metadata service, and of tests to the control endpoint.

All services share one port and are told apart by the scope of the signature. An action is a plain function on the
account: it runs to its end between two awaits, so that no other request sees half of it.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl

from aiohttp import web

from fakes.ec2 import fleet, identity, instances, offerings, templates
from fakes.ec2.account import Ec2Account
from fakes.ec2.commands import ControlCommands
from fakes.ec2.machines import Machines
from fakes.ec2.metadata import Metadata
from fakes.ec2.models import SERVICES, service_model
from fakes.ec2.reading import Params, read_json, read_query
from fakes.ec2.refusal import Ec2Refusal
from fakes.ec2.signature import SignedRequest, signed_by, verify
from fakes.ec2.writing import Answer, content_type, write, write_error

ACTIONS: dict[str, Callable[[Ec2Account, Params], Answer]] = {
    "ec2:CreateFleet": fleet.create,
    "ec2:DescribeInstances": instances.describe,
    "ec2:TerminateInstances": instances.terminate,
    "ec2:CreateTags": instances.create_tags,
    "ec2:GetConsoleOutput": instances.console_output,
    "ec2:CreateLaunchTemplate": templates.create,
    "ec2:CreateLaunchTemplateVersion": templates.create_version,
    "ec2:DescribeLaunchTemplates": templates.describe,
    "ec2:DescribeLaunchTemplateVersions": templates.describe_versions,
    "ec2:DeleteLaunchTemplate": templates.delete,
    "ec2:DescribeAvailabilityZones": offerings.zones,
    "ec2:DescribeSubnets": offerings.subnets,
    "ec2:DescribeSecurityGroups": offerings.security_groups,
    "ec2:DescribeImages": offerings.images,
    "ec2:DescribeInstanceTypes": offerings.instance_types,
    "ec2:GetInstanceTypesFromInstanceRequirements": offerings.types_from_requirements,
    "iam:GetInstanceProfile": identity.instance_profile,
    "iam:SimulatePrincipalPolicy": identity.simulate_policy,
    "servicequotas:GetAWSDefaultServiceQuota": identity.quota,
    "servicequotas:GetServiceQuota": identity.quota,
    "servicequotas:ListServiceQuotas": identity.quotas,
}
DENIED = {"ec2": "UnauthorizedOperation", "servicequotas": "AccessDeniedException"}
NOTICES_EVERY = 0.2  # seconds between two looks for spot instances whose time is up
LARGEST = 2 * 1024 * 1024  # bytes of a request


class Ec2Server:
    def __init__(self, account: Ec2Account, machines: Machines) -> None:
        self.account = account
        self.app = web.Application(client_max_size=LARGEST)
        self.app.router.add_route("*", "/_control", ControlCommands(account, machines).serve)
        self.app.router.add_route("*", "/imds/{id}/{path:.*}", Metadata(account).answer)
        self.app.router.add_route("*", "/", self.serve)

    async def serve(self, request: web.Request) -> web.Response:
        """One call of an AWS client; the faults that were set for its action happen here."""
        raw = SignedRequest(
            method=request.method,
            path=request.rel_url.raw_path,
            query=request.rel_url.raw_query_string,
            headers={name.lower(): value for name, value in request.headers.items()},
            body=await request.read(),
        )
        request_id = secrets.token_hex(16)
        service, protocol = "ec2", "ec2"
        try:
            signed = signed_by(raw)
            service = signed.service
            if service not in SERVICES:
                raise Ec2Refusal("UnknownOperationException", f"there is no service {service} here")
            protocol = service_model(service).resolved_protocol
            caller = verify(self.account, raw, signed)
            return await self._act(request, raw, service, caller, request_id)
        except Ec2Refusal as refusal:
            body = write_error(refusal, protocol, request_id)
            return web.Response(status=refusal.status, body=body, content_type=content_type(protocol))

    async def _act(
        self, request: web.Request, raw: SignedRequest, service: str, caller: str | None, request_id: str
    ) -> web.Response:
        model = service_model(service)
        form = dict(parse_qsl(raw.body.decode(), keep_blank_values=True)) or dict(request.query)
        name = raw.headers.get("x-amz-target", "").rpartition(".")[2] or form.get("Action", "")
        action = f"{service}:{name}"
        if action != "sts:GetCallerIdentity" and action not in ACTIONS:
            raise Ec2Refusal("InvalidAction", f"The action {name} is not valid for this web service.")
        self.account.calls[name] += 1
        await self._slowly(name, is_before=True)
        operation = model.operation_model(name)
        self._refuse(service, name)
        if action == "sts:GetCallerIdentity":
            answer = identity.caller(caller)
        else:
            is_json = model.resolved_protocol == "json"
            params = read_json(raw.body, operation) if is_json else read_query(form, operation)
            if params.pop("DryRun", False):
                raise Ec2Refusal("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
            self.account.carry_out_notices()
            answer = ACTIONS[action](self.account, params)
        await self._slowly(name, is_before=False)
        if self.account.faults.loss(name) and request.transport:
            request.transport.abort()
        body = write(answer, operation, request_id)
        return web.Response(body=body, content_type=content_type(model.resolved_protocol))

    def _refuse(self, service: str, name: str) -> None:
        if f"{service}:{name}" in self.account.faults.denied:
            message = "You are not authorized to perform this operation."
            raise Ec2Refusal(DENIED.get(service, "AccessDenied"), f"{message} Action: {service}:{name}")
        if refused := self.account.faults.refusal(name):
            raise Ec2Refusal(refused.code, refused.message, refused.status)

    async def _slowly(self, name: str, is_before: bool) -> None:
        faults = self.account.faults
        if slow := faults.slowness(name, is_before):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(faults.withdrawn.wait(), slow.seconds)
                raise Ec2Refusal("InternalError", "the account was reset meanwhile, and belongs to another test")


@asynccontextmanager
async def served(port: int = 0) -> AsyncIterator[str]:
    """The cloud inside this event loop; its URL. A `Control` of it belongs into a thread, for it blocks."""
    account = Ec2Account()
    machines = Machines(account, url="")
    account.launched, account.ended = machines.launched, machines.ended
    server = Ec2Server(account, machines)
    runner = web.AppRunner(server.app, access_log=None, logger=logging.getLogger("cloud"), shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    machines.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    notices = asyncio.create_task(_carry_out_notices(account))
    try:
        yield machines.url
    finally:
        notices.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await notices
        await machines.close()
        await runner.cleanup()


async def _carry_out_notices(account: Ec2Account) -> None:
    while True:
        await asyncio.sleep(NOTICES_EVERY)
        account.carry_out_notices()
