"""Launch templates: numbered versions that never change."""

import base64
import binascii
from typing import Any

from fakes.ec2 import requirements
from fakes.ec2.account import Ec2Account, Template, new_id
from fakes.ec2.filters import filtered, page, tag_values
from fakes.ec2.ground import OPERATOR_ARN
from fakes.ec2.models import ec2_shape
from fakes.ec2.reading import Params
from fakes.ec2.refusal import Ec2Refusal, invalid
from fakes.ec2.replay import replayed
from fakes.ec2.tags import as_list, tags_of
from fakes.ec2.writing import Answer, projected

MOST_USER_DATA = 16 * 1024  # bytes, before base64


def create(account: Ec2Account, params: Params) -> Answer:
    return replayed(account, "CreateLaunchTemplate", params, lambda: _create(account, params))


def _create(account: Ec2Account, params: Params) -> Answer:
    name = params["LaunchTemplateName"]
    if any(template.name == name for template in account.templates.values()):
        raise Ec2Refusal(
            "InvalidLaunchTemplateName.AlreadyExistsException", f"Launch template name already in use: {name}"
        )
    data = params["LaunchTemplateData"]
    check(data)
    tags = tags_of(params, "launch-template")
    template = Template(
        new_id("lt"), name, account.clock.now(), tags, {1: data}, {1: params.get("VersionDescription", "")}
    )
    account.templates[template.id] = template
    return {"LaunchTemplate": _shown(template)}


def create_version(account: Ec2Account, params: Params) -> Answer:
    template = find(account, params)
    base = template.versions[resolve(template, params["SourceVersion"])] if "SourceVersion" in params else {}
    data = {**base, **params["LaunchTemplateData"]}
    check(data)
    number = max(template.versions) + 1
    template.versions[number] = data
    template.described[number] = params.get("VersionDescription", "")
    return {"LaunchTemplateVersion": _shown_version(template, number)}


def describe(account: Ec2Account, params: Params) -> Answer:
    found = list(account.templates.values())
    if ids := params.get("LaunchTemplateIds"):
        found = [find(account, {"LaunchTemplateId": id}) for id in ids]
    if names := params.get("LaunchTemplateNames"):
        found = [find(account, {"LaunchTemplateName": name}) for name in names]
    shown, following = page(filtered(found, params.get("Filters", []), _values), params, most=200)
    return {"LaunchTemplates": [_shown(template) for template in shown], **following}


def describe_versions(account: Ec2Account, params: Params) -> Answer:
    template = find(account, params)
    numbers = sorted(template.versions)
    if asked := params.get("Versions"):
        numbers = [resolve(template, version) for version in asked]
    low, high = int(params.get("MinVersion", 1)), int(params.get("MaxVersion", max(template.versions)))
    shown, following = page([number for number in numbers if low <= number <= high], params, most=200)
    return {"LaunchTemplateVersions": [_shown_version(template, number) for number in shown], **following}


def delete(account: Ec2Account, params: Params) -> Answer:
    template = find(account, params)
    del account.templates[template.id]
    return {"LaunchTemplate": _shown(template)}


def find(account: Ec2Account, named: dict[str, Any]) -> Template:
    """By id or by name, never both."""
    id, name = named.get("LaunchTemplateId"), named.get("LaunchTemplateName")
    if (id is None) == (name is None):
        raise Ec2Refusal("InvalidParameterCombination", "Specify either a launch template ID or a name, but not both")
    for template in account.templates.values():
        if template.id == id or template.name == name:
            return template
    if id is not None:
        raise Ec2Refusal(
            "InvalidLaunchTemplateId.NotFound", f"The specified launch template, with ID {id}, does not exist."
        )
    raise Ec2Refusal(
        "InvalidLaunchTemplateName.NotFoundException",
        f"The specified launch template, with template name {name}, does not exist.",
    )


def resolve(template: Template, version: str) -> int:
    number = {"$Latest": str(max(template.versions)), "$Default": str(template.default)}.get(version, version)
    if not number.isdecimal() or int(number) not in template.versions:
        raise Ec2Refusal(
            "InvalidLaunchTemplateId.VersionNotFound", f"Could not find version {version} of {template.id}."
        )
    return int(number)


def check(data: dict[str, Any]) -> None:
    """Refuse content that could never launch."""
    if "InstanceType" in data and "InstanceRequirements" in data:
        raise Ec2Refusal("InvalidParameterCombination", "InstanceType and InstanceRequirements can't be used together")
    if "InstanceRequirements" in data:
        requirements.check(data["InstanceRequirements"])
    user_data(data)


def user_data(data: dict[str, Any]) -> bytes:
    try:
        raw = base64.b64decode(data.get("UserData", ""), validate=True)
    except binascii.Error:
        raise Ec2Refusal("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.") from None
    if len(raw) > MOST_USER_DATA:
        raise invalid(f"User data is limited to {MOST_USER_DATA} bytes")
    return raw


def _values(template: Template, name: str) -> list[str] | None:
    if name == "launch-template-name":
        return [template.name]
    values = tag_values(template.tags, name)
    return None if values is None else list(values)


def _shown(template: Template) -> Answer:
    return {
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "CreateTime": template.created_at,
        "CreatedBy": OPERATOR_ARN,
        "DefaultVersionNumber": template.default,
        "LatestVersionNumber": max(template.versions),
        "Tags": as_list(template.tags),
    }


def _shown_version(template: Template, number: int) -> Answer:
    return {
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "VersionNumber": number,
        "VersionDescription": template.described[number],
        "CreateTime": template.created_at,
        "CreatedBy": OPERATOR_ARN,
        "DefaultVersion": number == template.default,
        "LaunchTemplateData": projected(template.versions[number], ec2_shape("ResponseLaunchTemplateData")),
    }
