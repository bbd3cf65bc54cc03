"""The reference of the HTTP API, as one page of Markdown made from the OpenAPI document that a running `serve` gives.

The site's build writes it (tools/docs_site.py), so that the published page is the API of the same commit.
"""

import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

METHODS = ("get", "post", "put", "patch", "delete")
HEAD = """# HTTP API reference

Every endpoint of `bullpen serve` {version}, generated from the OpenAPI document that it answers at
`GET /v1/openapi.json`. [Serve](serve.md) describes how to run the server, its tokens and its limits, with examples.

"""
INTERNAL = """## Endpoints for Bullpen's own agents

Only Bullpen's agents use these endpoints. They change without notice: do not build on them.

"""


def document() -> dict[str, Any]:
    """The OpenAPI document of a server that is started for it, on a pool of its own."""
    with tempfile.TemporaryDirectory(prefix="bullpen-api-") as home:
        run_bullpen = "import sys; from bullpen.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", run_bullpen, "--home", home, "serve", "--port", "0", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=home) as server:
            try:
                assert server.stdout is not None
                assert server.stderr is not None
                line = server.stdout.readline()
                if not line:
                    raise RuntimeError(f"`bullpen serve` did not start: {server.stderr.read()}")
                with urllib.request.urlopen(f"{json.loads(line)['url']}/v1/openapi.json") as answer:
                    described: dict[str, Any] = json.load(answer)
            finally:
                server.terminate()
                server.communicate()
    return described


def render(described: Mapping[str, Any]) -> str:
    """The page."""
    operations = [
        (path, method, _resolved(operation, described))
        for path, item in described["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    ]
    public = [one for one in operations if not _is_internal(one)]
    internal = [one for one in operations if _is_internal(one)]
    parts = [HEAD.format(version=described["info"]["version"])]
    for group in dict.fromkeys(_group(*one) for one in public):
        members = [one for one in public if _group(*one) == group]
        parts += [f"## {group}\n\n", *(_operation(*one) for one in members)]
    parts += [INTERNAL, *(_operation(*one) for one in internal)] if internal else []
    parts += ["## Schemas\n\n", *_schemas(described["components"].get("schemas", {}))]
    return "".join(parts)


def _resolved(operation: Mapping[str, Any], described: Mapping[str, Any]) -> dict[str, Any]:
    """The operation with its shared parameters and answers in their places."""

    def target(one: Mapping[str, Any]) -> Any:
        found: Any = described
        for part in str(one["$ref"]).removeprefix("#/").split("/") if "$ref" in one else ():
            found = found[part]
        return found if "$ref" in one else one

    answers = {status: target(answer) for status, answer in operation.get("responses", {}).items()}
    parameters = [target(one) for one in operation.get("parameters", ())]
    return {**operation, "responses": answers, "parameters": parameters}


def _is_internal(one: tuple[str, str, Mapping[str, Any]]) -> bool:
    path, _, operation = one
    return bool(operation.get("x-internal")) or path.startswith("/v1/agents/")


def _group(path: str, _: str, operation: Mapping[str, Any]) -> str:
    """The first tag, or the first part of the path below the version."""
    tags = operation.get("tags") or []
    named = str(tags[0]) if tags else path.removeprefix("/v1").strip("/").partition("/")[0]
    return named[:1].upper() + named[1:]


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    lines = [f"### {method.upper()} `{path}`\n"]
    summary, description = _text(operation.get("summary")), _text(operation.get("description"))
    lines += [f"{summary.rstrip('.')}.\n"] if summary and not description.startswith(summary) else []
    lines += [f"{description}\n"] if description else []
    if id := operation.get("operationId"):
        lines.append(f"Operation id: `{id}`\n")
    if parameters := operation.get("parameters"):
        rows = [
            f"| `{one['name']}` | {one['in']} | {_type(one.get('schema', {}))}"
            f" | {'yes' if one.get('required') else 'no'} | {_cell(_described(one))} |"
            for one in parameters
        ]
        lines.append("\n".join(["| parameter | in | type | required | |", "|---|---|---|---|---|", *rows]) + "\n")
    for kind, media in operation.get("requestBody", {}).get("content", {}).items():
        lines.append(f"Request body, `{kind}`: {_type(media.get('schema', {}))}\n")
        lines += _example(media)
    answers = sorted(operation.get("responses", {}).items())
    rows = [
        f"| {status} | {_contents(answer)} | {_cell(_text(answer.get('description')))} |" for status, answer in answers
    ]
    lines.append("\n".join(["| status | answer | |", "|---|---|---|", *rows]) + "\n")
    for status, answer in answers:
        for media in answer.get("content", {}).values() if status < "400" else ():  # all errors have the same shape
            lines += _example(media)
    return "\n".join(lines) + "\n"


def _contents(answer: Mapping[str, Any]) -> str:
    kinds = dict.fromkeys(_type(media.get("schema", {})) for media in answer.get("content", {}).values())
    return ", ".join(kind for kind in kinds if kind) or "–"


def _example(media: Mapping[str, Any]) -> Iterator[str]:
    examples = [one.get("value") for one in media.get("examples", {}).values() if "value" in one]
    examples += [media["example"]] if "example" in media else []
    for example in examples[:1]:
        shown = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
        yield f"```json\n{shown}\n```\n"


def _schemas(schemas: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in sorted(schemas.items()):
        yield f'<a id="schema-{name.lower()}"></a>\n\n### {name}\n\n'
        if text := _text(schema.get("description")):
            yield f"{text}\n\n"
        if properties := schema.get("properties"):
            needed = set(schema.get("required", ()))
            yield "| field | type | required | |\n|---|---|---|---|\n"
            for field, one in properties.items():
                row = f"`{field}` | {_type(one)} | {'yes' if field in needed else 'no'} | {_cell(_described(one))}"
                yield f"| {row} |\n"
            yield "\n"
        else:
            yield f"{_type({**schema, 'description': ''})}\n\n"


def _described(one: Mapping[str, Any]) -> str:
    """The description, and what the type leaves unsaid: default and limits."""
    schema = {**one, **one.get("schema", {})}
    limits = {
        "default": "default",
        "minimum": "at least",
        "maximum": "at most",
        "minLength": "characters, at least",
        "maxLength": "characters, at most",
        "minItems": "items, at least",
        "maxItems": "items, at most",
        "pattern": "matches",
    }
    said = [f"{name} `{json.dumps(schema[key])}`" for key, name in limits.items() if schema.get(key) not in (None, "")]
    description = _text(one.get("description") or schema.get("description"))
    return "; ".join([part for part in (description.rstrip("."), ", ".join(said)) if part])


def _type(schema: Mapping[str, Any]) -> str:
    """A type as a reader writes it, with links to the schemas of this page."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#schema-{name.lower()})"
    for key in ("oneOf", "anyOf", "allOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[key] if _type(one)))
    if "enum" in schema:
        return " · ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type", "")
    if isinstance(kind, list):
        return " or ".join(_type({**schema, "type": one}) for one in kind)
    if kind == "array":
        return f"list of {_type(schema.get('items', {})) or 'any'}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {_type(schema['additionalProperties']) or 'any'}"
    return f"{kind} ({schema['format']})" if schema.get("format") else str(kind)


def _text(text: str | None) -> str:
    return " ".join((text or "").split()).replace("<", "&lt;")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(render(document()), end="")
