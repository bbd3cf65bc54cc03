"""Tokens of a home that no process serves yet, and the secret of its agents."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from bullpen.auth.tokens import Scope
from bullpen.cli.token import create_token
from bullpen.config import Settings


def make_token(home: Path, scope: Scope = Scope.ADMIN) -> str:
    _stored, token = asyncio.run(create_token(home, Settings(), scope.value, None, ""))
    return token


def agents_secret(home: Path) -> bytes:
    with closing(sqlite3.connect(f"{(home / 'bullpen.db').as_uri()}?mode=ro", uri=True)) as database:
        (content,) = database.execute("SELECT content FROM keys WHERE name = 'agents'").fetchone()
    return bytes(content)
