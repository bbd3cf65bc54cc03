"""The description of the HTTP API: two OpenAPI 3.1 documents, made from the routes and from the structs of the schema.

/v1/openapi.json           what operators, workflow runs, workers and probes may call
/v1/openapi-agents.json    what only Bullpen's own agents call

document      info, tags, paths: from the routes, their parameters, docstrings and types
components    schemas: what msgspec says of the structs, in the terms that generators of clients understand
examples      a request and an answer for each operation
"""

from bullpen.server.openapi.document import AGENTS_PATH, PATH, documents

__all__ = ["AGENTS_PATH", "PATH", "documents"]
