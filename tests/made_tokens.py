"""Tokens of a home that no process serves yet, and the secret of its agents."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from bullpen.auth.tokens import Scope
from bullpen.cli.token import create_token
from bullpen.config import Settings


def make_token(home: Path, scope: Scope = Scope.ADMIN, lasts: timedelta | None = None) -> str:
    _stored, token = asyncio.run(create_token(home, Settings(), scope.value, lasts, ""))
    return token


def agents_secret(home: Path) -> bytes:
    with closing(sqlite3.connect(f"{(home / 'bullpen.db').as_uri()}?mode=ro", uri=True)) as database:
        (content,) = database.execute("SELECT content FROM keys WHERE name = 'agents'").fetchone()
    return bytes(content)
