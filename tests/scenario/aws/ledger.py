"""What a pool on AWS has written down, read with plain clients: no fault of Bullpen's own queries hides anything."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import botocore.session
from botocore.config import Config

from fakes.ec2.ground import REGION
from fakes.java_engines import Engines
from scenario.audit import Books, Row

ASIDE = 5  # seconds that a ticket is held while the others are read


@dataclass(frozen=True)
class Ledger:
    """The table and the queues of one pool."""

    pool: str
    dynamodb: Any
    sqs: Any

    @classmethod
    def of(cls, pool: str, engines: Engines) -> "Ledger":
        session = botocore.session.get_session()
        unchecked = Config(parameter_validation=False)  # thousands of items take seconds to check
        return cls(
            pool,
            session.create_client("dynamodb", region_name=REGION, endpoint_url=engines.dynamodb, config=unchecked),
            session.create_client("sqs", region_name=REGION, endpoint_url=engines.sqs),
        )

    def items(self, kind: str, *, unless: str = "") -> dict[str, Row]:
        """Id → attributes, of everything of a kind, `unless` it is in that state and owes nothing; nothing while there
        is no table."""
        pages = self.dynamodb.get_paginator("query").paginate(
            TableName=self.pool,
            KeyConditionExpression="PK = :kind",
            FilterExpression="attribute_exists(owes) OR NOT #state = :unless",
            ExpressionAttributeNames={"#state": "state"},
            ExpressionAttributeValues={":kind": {"S": f"TYPE#{kind}"}, ":unless": {"S": unless or "-"}},
            ConsistentRead=True,
        )
        try:
            found = [item for page in pages for item in page["Items"]]
        except self.dynamodb.exceptions.ResourceNotFoundException:
            return {}
        return {item["SK"]["S"].removeprefix("ID#"): plain({"M": item}) for item in found}

    def queue(self, resource_class: str = "small") -> str:
        """The URL of a class's queue."""
        url: str = self.sqs.get_queue_url(QueueName=f"{self.pool}-{resource_class}")["QueueUrl"]
        return url

    def queues(self) -> list[str]:
        return list(self.sqs.list_queues(QueueNamePrefix=f"{self.pool}-").get("QueueUrls", ()))

    def tickets(self) -> list[str]:
        """The bodies of all messages that can be received now; they stay where they are."""
        found = []
        for url in self.queues():
            held: dict[str, str] = {}
            while batch := self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=ASIDE).get(
                "Messages"
            ):
                found += [one["Body"] for one in batch]
                held |= {one["MessageId"]: one["ReceiptHandle"] for one in batch}
            for receipt in held.values():
                self.sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=0)
        return found

    def lose_tickets(self) -> None:
        for url in self.queues():
            self.sqs.purge_queue(QueueUrl=url)

    def books(self) -> Books:
        registrations = self.items("Registration").items()
        return Books(
            # All but those that have ended and owe nothing, of which there may be thousands.
            instances={id: _instance(item) for id, item in self.items("Instance", unless="terminated").items()},
            provisions={id: _provision(id, item) for id, item in self.items("Provision").items()},
            registrations=[{"name": name, "label": item["label"]} for name, item in registrations],
            tickets=self.tickets(),
        )


def plain(value: dict[str, Any]) -> Any:
    """A value as DynamoDB writes it, as Python would."""
    ((kind, content),) = value.items()
    match kind:
        case "M":
            return {name: plain(part) for name, part in content.items()}
        case "L":
            return [plain(part) for part in content]
        case "N":
            return float(content)
        case _:
            return content


def _instance(item: Row) -> Row:
    return {
        "state": item["state"],
        "version": item["version"],
        "threshold": int(datetime.fromisoformat(item["threshold"]).timestamp() * 1_000_000),
        "run_id": item["runId"],
        "provision_id": item.get("provisionId", ""),
        "attested": item.get("attested", False),
        "owes_kind": _owed(item),
    }


def _provision(id: str, item: Row) -> Row:
    return {
        "id": id,
        "state": item["state"],
        "run_id": item["runId"],
        "members": item.get("members", []),
        "owes_kind": _owed(item),
    }


def _owed(item: Row) -> str | None:
    return item["owes"]["kind"] if "owes" in item else None
