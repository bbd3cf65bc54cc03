"""Answers, written by the service's own description: python values in, the bytes that the AWS client expects out.

An answer that the description does not know is a mistake of ours and raises, so that no test relies on an invention.
"""

import json
from datetime import UTC, datetime
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from botocore.validate import ParamValidator

from fakes.ec2.refusal import Ec2Refusal

Answer = dict[str, Any]


def content_type(protocol: str) -> str:
    return "application/x-amz-json-1.1" if protocol == "json" else "text/xml"


def write(answer: Answer, operation: Any, request_id: str) -> bytes:
    service = operation.service_model
    if service.resolved_protocol == "json":
        _check(answer, operation.output_shape)
        return json.dumps(answer, default=_unix_time).encode()
    root = Element(f"{operation.name}Response", xmlns=service.metadata["xmlNamespace"])
    if service.resolved_protocol == "ec2":
        SubElement(root, "requestId").text = request_id
        parent = root
    else:
        parent = SubElement(root, f"{operation.name}Result")
        SubElement(SubElement(root, "ResponseMetadata"), "RequestId").text = request_id
    if operation.output_shape is not None:
        _check(answer, operation.output_shape)
        _structure(parent, answer, operation.output_shape)
    return _document(root)


def write_error(refusal: Ec2Refusal, protocol: str, request_id: str) -> bytes:
    if protocol == "json":
        return json.dumps({"__type": refusal.code, "message": refusal.message}).encode()
    if protocol == "ec2":
        root = Element("Response")
        error = SubElement(SubElement(root, "Errors"), "Error")
    else:
        root = Element("ErrorResponse")
        error = SubElement(root, "Error")
        SubElement(error, "Type").text = "Sender" if refusal.status < 500 else "Receiver"
    SubElement(error, "Code").text = refusal.code
    SubElement(error, "Message").text = refusal.message
    SubElement(root, "RequestID" if protocol == "ec2" else "RequestId").text = request_id
    return _document(root)


def projected(value: Any, shape: Any) -> Any:
    """What of `value` another shape also knows: a request's structure as the answer shows it."""
    if shape.type_name == "structure":
        return {name: projected(value[name], member) for name, member in shape.members.items() if name in value}
    if shape.type_name == "list":
        return [projected(item, shape.member) for item in value]
    return value


def _document(root: Element) -> bytes:
    written: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _check(answer: Answer, shape: Any) -> None:
    report = ParamValidator().validate(answer, shape)
    if report.has_errors():
        raise AssertionError(f"{shape.name}: {report.generate_report()}")


def _structure(parent: Element, value: Answer, shape: Any) -> None:
    for name, item in value.items():
        member = shape.members[name]
        _write(parent, member.serialization.get("name", name), item, member)


def _write(parent: Element, tag: str, value: Any, shape: Any) -> None:
    if shape.type_name == "list":
        is_flat = shape.serialization.get("flattened")
        item_tag = shape.member.serialization.get("name", "member")
        holder = parent if is_flat else SubElement(parent, tag)
        for item in value:
            _write(holder, item_tag, item, shape.member)
        return
    element = SubElement(parent, tag)
    match shape.type_name:
        case "structure":
            _structure(element, value, shape)
        case "boolean":
            element.text = "true" if value else "false"
        case "timestamp":
            element.text = value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        case _:
            element.text = str(value)


def _unix_time(value: Any) -> float:
    assert isinstance(value, datetime)
    return value.timestamp()
