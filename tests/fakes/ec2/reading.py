"""Requests as the AWS client writes them, read back by the service's own description.

Nothing here knows an action. The description says which members there are, how each is named on the wire, of what type
it is and what it may hold; whatever it does not know is refused, as AWS does.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from botocore.validate import ParamValidator

from fakes.ec2.refusal import Ec2Refusal, invalid

Params = dict[str, Any]
Tree = dict[str, Any]  # "A.1.B" = "x" and "A.1.C" = "y" are {"A": {"1": {"B": "x", "C": "y"}}}


def read_query(form: Mapping[str, str], operation: Any) -> Params:
    """The parameters of a request in the query protocol or EC2's dialect of it."""
    tree = _tree({name: value for name, value in form.items() if name not in ("Action", "Version")})
    is_ec2 = operation.service_model.resolved_protocol == "ec2"
    return _checked(_structure(tree, operation.input_shape, "", is_ec2), operation)


def read_json(body: bytes, operation: Any) -> Params:
    params = json.loads(body or b"{}")
    if not isinstance(params, dict):
        raise Ec2Refusal("SerializationException", "the body is not an object")
    return _checked(params, operation)


def _checked(params: Params, operation: Any) -> Params:
    """Refuse what lacks a required member, is out of a range, or is unknown to the description."""
    if operation.input_shape is None:
        return params
    report = ParamValidator().validate(params, operation.input_shape)
    if report.has_errors():
        text = report.generate_report()
        code = "MissingParameter" if "Missing required" in text else "InvalidParameterValue"
        raise Ec2Refusal("UnknownParameter" if "Unknown parameter" in text else code, text)
    return params


def _tree(flat: Mapping[str, str]) -> Tree:
    root: Tree = {}
    for name, value in flat.items():
        node = root
        *path, last = name.split(".")
        for part in path:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                raise invalid(f"{name} is both a value and a structure")
        if last in node:
            raise invalid(f"{name} is given twice")
        node[last] = value
    return root


def _value(node: Any, shape: Any, path: str, is_ec2: bool) -> Any:
    match shape.type_name:
        case "structure":
            return _structure(_branch(node, path), shape, path, is_ec2)
        case "list":
            return _list(node, shape, path, is_ec2)
        case _ if isinstance(node, dict):
            raise Ec2Refusal("UnknownParameter", f"{path} is no structure")
        case _:
            return _scalar(node, shape, path)


def _structure(tree: Tree, shape: Any, path: str, is_ec2: bool) -> Params:
    rest = dict(tree)
    found: Params = {}
    for name, member in shape.members.items() if shape else ():
        wire_name = _wire_name(name, member, is_ec2)
        if wire_name in rest:
            found[name] = _value(rest.pop(wire_name), member, f"{path}.{wire_name}".lstrip("."), is_ec2)
    if rest:
        unknown = ", ".join(f"{path}.{name}".lstrip(".") for name in rest)
        raise Ec2Refusal("UnknownParameter", f"The parameter {unknown} is not recognized")
    return found


def _list(node: Any, shape: Any, path: str, is_ec2: bool) -> list[Any]:
    if node == "":
        return []  # how the query protocol writes an empty list
    tree = _branch(node, path)
    if not is_ec2 and not shape.serialization.get("flattened"):
        tree = _branch(tree.get(shape.member.serialization.get("name", "member"), {}), path)
    if not all(index.isdecimal() for index in tree):
        raise invalid(f"{path} is a list: its entries are numbered")
    items = [_value(tree[index], shape.member, f"{path}.{index}", is_ec2) for index in sorted(tree, key=int)]
    most = shape.metadata.get("max")
    if most is not None and len(items) > most:
        raise invalid(f"{path} has {len(items)} entries; at most {most} are allowed")
    return items


def _branch(node: Any, path: str) -> Tree:
    if not isinstance(node, dict):
        raise invalid(f"{path} is not a single value")
    return node


def _scalar(text: str, shape: Any, path: str) -> Any:
    try:
        match shape.type_name:
            case "integer" | "long":
                return int(text)
            case "float" | "double":
                return float(text)
            case "boolean":
                return {"true": True, "false": False}[text]
            case "timestamp":
                return datetime.fromisoformat(text)
            case "blob":
                return base64.b64decode(text, validate=True)
    except (ValueError, KeyError, binascii.Error):
        raise invalid(f"{text!r} is no {shape.type_name}, as {path} must be") from None
    # Which instance types there are is no matter of grammar: the list grows every week, and actions refuse the unknown.
    if getattr(shape, "enum", None) and shape.name != "InstanceType" and text not in shape.enum:
        raise invalid(f"{text!r} is not a valid value of {path}")
    limits = shape.metadata
    if not limits.get("min", 0) <= len(text) <= limits.get("max", len(text)):
        raise invalid(f"{path} must be {limits.get('min', 0)} to {limits.get('max')} characters long")
    if "pattern" in limits and not re.fullmatch(limits["pattern"], text):
        raise invalid(f"{path} must match {limits['pattern']}")
    return text


def _wire_name(name: str, member: Any, is_ec2: bool) -> str:
    given: str = member.serialization.get("name", name)
    if not is_ec2:
        return given
    query_name: str | None = member.serialization.get("queryName")
    return query_name or given[0].upper() + given[1:]
