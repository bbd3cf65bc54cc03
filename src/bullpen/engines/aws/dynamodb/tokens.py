"""Tokens and the agents' secret in DynamoDB, in partitions that no policy of workflows or instances reaches.

    TYPE#Token        ID#<name>     a token: `tokenId`, `scope`, `sha256`, `createdAt`, `expiresAt`, `revokedAt`
                      REQUIRED      there was one once: operators need a token
                      ENDED#<id>    a session that was ended before its time; goes by `ttl` when that has passed
    TYPE#AgentSecret  ID#agents     `content`, in hexadecimal

No item has an entry in an index.
"""

import math
from datetime import datetime

from bullpen.engines.aws.dynamodb.expressions import Expression
from bullpen.engines.aws.dynamodb.items import Item, Value, moment, name_of, number, parse_moment, raw_id, raw_key, text
from bullpen.engines.aws.dynamodb.table import TableClient, Unmet
from bullpen.errors import Conflict, Refused
from bullpen.ports.tokens import KEPT, StoredToken, TokenBook

TOKEN, AGENT_SECRET = "Token", "AgentSecret"
REQUIRED = "REQUIRED"
ENDED = "ENDED#"


class DynamoTokens:
    """`ports.Tokens` on the table of a pool."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    async def read(self) -> TokenBook:
        items = await self._table.walk(("PK", f"TYPE#{TOKEN}")).all()
        tokens = [_token(item) for item in items if item["SK"]["S"].startswith("ID#")]
        ended = sorted(name.removeprefix(ENDED) for item in items if (name := item["SK"]["S"]).startswith(ENDED))
        # A token counts without its mark, too.
        is_required = len(items) > len(ended)
        return TokenBook(is_required, tuple(sorted(tokens, key=lambda one: one.name)), tuple(ended))

    async def require(self) -> None:
        await self._table.put({"PK": text(f"TYPE#{TOKEN}"), "SK": text(REQUIRED)})

    async def add(self, token: StoredToken) -> None:
        await self.require()  # first: a crash between the two leaves the door closed
        said: dict[str, Value] = {
            "tokenId": text(token.id),
            "scope": text(token.scope),
            "sha256": text(token.sha256),
            "createdAt": text(moment(token.created)),
        }
        if token.expires is not None:
            said |= {"expiresAt": text(moment(token.expires)), "ttl": _gone(token.expires)}
        expression = Expression()
        id_, writes = expression.name("tokenId"), _first(expression, said)
        condition = f"attribute_not_exists({id_}) OR {id_} = {expression.value(said['tokenId'])}"
        key = raw_key(TOKEN, token.name)
        try:
            await self._table.update(expression.request(key, UpdateExpression=writes, ConditionExpression=condition))
        except Unmet as exc:
            raise Conflict(f"token {token.name} already exists") from exc

    async def revoke(self, name: str, now: datetime) -> bool:
        expression = Expression()
        writes = _first(expression, {"revokedAt": text(moment(now))})
        writes += f", {expression.name('ttl')} = {expression.value(_gone(now))}"
        condition = f"attribute_exists({expression.name('tokenId')})"
        key = raw_key(TOKEN, name)
        try:
            await self._table.update(expression.request(key, UpdateExpression=writes, ConditionExpression=condition))
        except Unmet:
            return False
        return True

    async def end_session(self, session: str, until: datetime, now: datetime) -> None:
        key = {"PK": text(f"TYPE#{TOKEN}"), "SK": text(ENDED + session)}
        await self._table.put({**key, "ttl": number(math.ceil(until.timestamp()))})

    async def secret(self, draft: bytes) -> bytes:
        key = raw_key(AGENT_SECRET, "agents")
        item = await self._table.get(key)
        if item is None:
            expression = Expression()
            writes = _first(expression, {"content": text(draft.hex())})
            item = await self._table.update(expression.request(key, UpdateExpression=writes))
        try:
            return bytes.fromhex(item["content"]["S"])
        except (KeyError, ValueError) as exc:
            raise Refused(f"DynamoDB item {name_of(key)}: not a secret that Bullpen wrote") from exc


def _first(expression: Expression, said: dict[str, Value]) -> str:
    """Set each attribute that is not there yet: the same write again changes nothing."""
    names = [(expression.name(at), expression.value(value)) for at, value in said.items()]
    return "SET " + ", ".join(f"{name} = if_not_exists({name}, {value})" for name, value in names)


def _gone(ended: datetime) -> Value:
    return number(math.ceil((ended + KEPT).timestamp()))


def _token(item: Item) -> StoredToken:
    """Raise Refused for what is not a token: guessing at credentials is worse than stopping."""
    try:
        return StoredToken(
            raw_id(item),
            item["tokenId"]["S"],
            item["scope"]["S"],
            item["sha256"]["S"],
            parse_moment(item["createdAt"]["S"]),
            parse_moment(item["expiresAt"]["S"]) if "expiresAt" in item else None,
            parse_moment(item["revokedAt"]["S"]) if "revokedAt" in item else None,
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise Refused(f"DynamoDB item {name_of(item)}: not a token that Bullpen wrote") from exc
