"""STS, IAM and Service Quotas: the identity of the caller, what it may do, and how much."""

from fakes.ec2.account import Ec2Account
from fakes.ec2.ground import ACCOUNT, OPERATOR_ARN, PROFILE, PROFILE_ARN, REGION, ROLE, ROLE_ARN
from fakes.ec2.reading import Params
from fakes.ec2.refusal import Ec2Refusal
from fakes.ec2.writing import Answer

QUOTAS = {
    "L-1216C47A": ("on-demand", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"),
    "L-34B43A08": ("spot", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests"),
}


def caller(instance_id: str | None) -> Answer:
    """An instance is its role, under its own id: no other caller can sign for it."""
    if instance_id is None:
        return {"UserId": "AIDAC10D000000000001", "Account": ACCOUNT, "Arn": OPERATOR_ARN}
    arn = f"arn:aws:sts::{ACCOUNT}:assumed-role/{ROLE}/{instance_id}"
    return {"UserId": f"AROAC10D000000000001:{instance_id}", "Account": ACCOUNT, "Arn": arn}


def instance_profile(account: Ec2Account, params: Params) -> Answer:
    if params["InstanceProfileName"] != PROFILE:
        raise Ec2Refusal("NoSuchEntity", f"Instance Profile {params['InstanceProfileName']} cannot be found.")
    made = account.clock.now()
    role = {"Path": "/", "RoleName": ROLE, "RoleId": "AROAC10D000000000001", "Arn": ROLE_ARN, "CreateDate": made}
    profile = {"InstanceProfileName": PROFILE, "InstanceProfileId": "AIPAC10D0000000000001", "Arn": PROFILE_ARN}
    return {"InstanceProfile": {**profile, "Path": "/", "CreateDate": made, "Roles": [role]}}


def simulate_policy(account: Ec2Account, params: Params) -> Answer:
    """Everything is allowed but what `deny` took away."""
    resources = params.get("ResourceArns") or ["*"]
    results = [
        {
            "EvalActionName": action,
            "EvalResourceName": resource,
            "EvalDecision": "implicitDeny" if action in account.faults.denied else "allowed",
        }
        for action in params["ActionNames"]
        for resource in resources
    ]
    return {"EvaluationResults": results, "IsTruncated": False}


def quota(account: Ec2Account, params: Params) -> Answer:
    if params["ServiceCode"] != "ec2" or params["QuotaCode"] not in QUOTAS:
        raise Ec2Refusal(
            "NoSuchResourceException", f"There is no quota {params['QuotaCode']} of {params['ServiceCode']}."
        )
    return {"Quota": _shown_quota(account, params["QuotaCode"])}


def quotas(account: Ec2Account, params: Params) -> Answer:
    if params["ServiceCode"] != "ec2":
        raise Ec2Refusal("NoSuchResourceException", f"There is no service {params['ServiceCode']} here.")
    return {"Quotas": [_shown_quota(account, code) for code in QUOTAS]}


def _shown_quota(account: Ec2Account, code: str) -> Answer:
    market, name = QUOTAS[code]
    arn = f"arn:aws:servicequotas:{REGION}:{ACCOUNT}:ec2/{code}"
    shown = {"ServiceCode": "ec2", "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)", "QuotaArn": arn}
    return {**shown, "QuotaCode": code, "QuotaName": name, "Value": account.faults.quotas[market], "Adjustable": True}
