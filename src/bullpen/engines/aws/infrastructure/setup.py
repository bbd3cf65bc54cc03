"""The infrastructure on AWS: the table, what its queues are like, the launch templates and the agent's archive.

    missing      made, one thing after the other, each waited for
    different    a queue's attributes are corrected, an edited template is created again; a table of another schema is
                 refused, for what is in it means something else
    left over    templates that are not used any more are deleted

With `aws.manage = "external"` another tool does all of that: refresh only looks at it, and everything that is not as it
should be is named at once. Items are refresh's in any case: the agent's archive, and the mark of the table's schema.
"""

import json
from collections.abc import Awaitable, Callable

from bullpen.config import Settings
from bullpen.engines.aws.boot.userdata import own_user_data, told
from bullpen.engines.aws.ec2.template import Template, Templates, desired_templates, retired
from bullpen.engines.aws.infrastructure import table_diff
from bullpen.engines.aws.infrastructure.doctor import examine
from bullpen.engines.aws.infrastructure.table_setup import STORE_AGENT, TableSetup
from bullpen.engines.aws.session import Cloud
from bullpen.engines.aws.sqs.queue import SqsQueue
from bullpen.errors import ConfigError
from bullpen.ports import Clock, Gap
from bullpen.ports.health import Finding

MAKE_QUEUE = "make queue"
CORRECT_QUEUE = "correct queue"
MAKE_TEMPLATE = "make template"
RETIRE_TEMPLATE = "retire template"
ITEMS = (table_diff.MARK, STORE_AGENT)
CERTAIN = 1024
"""Bytes of settings that user data has room for, whatever they are. More may fit or not: it takes half a second to see,
which a provision that launches nothing should not pay."""
EXTERNAL = (
    "Apply the Terraform module of this version of Bullpen with what `bullpen config terraform` prints, or set"
    ' aws.manage = "refresh" to have refresh do it.'
)


class AwsInfrastructure:
    """What the pool of these settings stands on."""

    def __init__(self, cloud: Cloud, settings: Settings, queue: SqsQueue, clock: Clock) -> None:
        self._cloud = cloud
        self._settings = settings
        self._queue = queue
        self._clock = clock
        self._table = TableSetup(cloud, clock)
        self._templates = Templates(cloud)

    def check(self) -> None:
        if len(json.dumps(told(self._settings))) > CERTAIN:
            own_user_data(self._settings)

    async def gaps(self) -> list[Gap]:
        desired = self._desired()  # first: settings that make no template are refused before any call
        found = [
            *await self._table.gaps(),
            *(gap for gap in await self.queue_gaps() if gap.what != MAKE_QUEUE or not self._settings.makes_queues),
            *await self.template_gaps(desired),
        ]
        if self._settings.aws.manage == "external":
            return _only_items(found)
        old = retired(await self._templates.found(), desired, self._settings, self._clock.now())
        return [*found, *(Gap(RETIRE_TEMPLATE, one.name, f"class {one.resource_class} has another one") for one in old)]

    async def mend(self, gap: Gap) -> None:
        mends: dict[str, Callable[[str], Awaitable[None]]] = {
            table_diff.MAKE_TABLE: lambda pool: self._table.make_table(),
            table_diff.MAKE_INDEX: lambda index: self._table.make_index(index.rpartition("/")[2]),
            table_diff.SWITCH_BILLING: lambda pool: self._table.switch_billing(),
            table_diff.EXPIRE: lambda pool: self._table.let_expire(),
            table_diff.RECOVER: lambda pool: self._table.enable_recovery(),
            table_diff.MARK: lambda pool: self._table.mark(),
            STORE_AGENT: lambda sha256: self._table.store_agent(),
            CORRECT_QUEUE: self._queue.ensure,
            MAKE_TEMPLATE: self._make_template,
            RETIRE_TEMPLATE: self._retire_template,
        }
        await mends[gap.what](gap.subject)

    async def examine(self) -> list[Finding]:
        gaps = self._table.gaps, self.queue_gaps, self.template_gaps
        return await examine(self._cloud, self._settings, self._clock, *gaps)

    async def queue_gaps(self) -> list[Gap]:
        """Also of queues that are missing, which refresh makes on every engine: `gaps` leaves those to it."""
        wanted, present, wrong = self._settings.classes, await self._queue.names(), await self._queue.misfits()
        return [
            *(Gap(MAKE_QUEUE, name, "it does not exist") for name in wanted if name not in present),
            *(Gap(CORRECT_QUEUE, name, wrong[name]) for name in wanted if name in wrong),
        ]

    async def template_gaps(self, desired: list[Template]) -> list[Gap]:
        """Of templates that are missing, or not as they should be."""
        wrongs = [(one, (await self._templates.compared(one))[1]) for one in desired]
        return [Gap(MAKE_TEMPLATE, one.name, f"class {one.resource_class}: {wrong}") for one, wrong in wrongs if wrong]

    async def _make_template(self, name: str) -> None:
        for template in self._desired():
            if template.name == name:
                await self._templates.ensure(template)

    async def _retire_template(self, name: str) -> None:
        for one in await self._templates.found():
            if one.name == name:
                await self._templates.retire(one)

    def _desired(self) -> list[Template]:
        return desired_templates(self._settings, own_user_data(self._settings))


def _only_items(found: list[Gap]) -> list[Gap]:
    """The gaps that refresh closes where another tool makes everything else; ConfigError if there are others."""
    if theirs := [f"{gap.what} {gap.subject} ({gap.reason})" for gap in found if gap.what not in ITEMS]:
        raise ConfigError(
            f'aws.manage is "external", and these changes are missing: {"; ".join(theirs)}', remedy=EXTERNAL
        )
    return found
