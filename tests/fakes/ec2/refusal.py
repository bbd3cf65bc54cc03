"""Refusal: an error as AWS says it, a code and a message, with the HTTP status that the code comes with."""

STATUS = {
    "UnauthorizedOperation": 403,
    "AccessDenied": 403,
    "AccessDeniedException": 400,
    "AuthFailure": 401,
    "InvalidClientTokenId": 403,
    "SignatureDoesNotMatch": 403,
    "ExpiredToken": 403,
    "MissingAuthenticationToken": 403,
    "DryRunOperation": 412,
    "NoSuchEntity": 404,
    "RequestLimitExceeded": 503,
    "EC2ThrottledException": 503,
    "Unavailable": 503,
    "ServiceUnavailable": 503,
    "InternalError": 500,
    "InternalFailure": 500,
    "InsufficientInstanceCapacity": 500,
    "InsufficientHostCapacity": 500,
}


class Ec2Refusal(Exception):
    """The call did nothing, and this is what the caller is told."""

    def __init__(self, code: str, message: str, status: int | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status or STATUS.get(code, 400)


def invalid(message: str) -> Ec2Refusal:
    return Ec2Refusal("InvalidParameterValue", message)
