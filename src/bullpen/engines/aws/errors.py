"""Translates the errors of AWS into Bullpen's, in one place. A message names the service and the call first; a remedy
says what to do.

A caller that reacts to an error code itself names it in `expecting`, and gets it as `Declined`.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from botocore import exceptions
from botocore.parsers import ResponseParserError

from bullpen.errors import BullpenError, ConfigError, PermissionDenied, Refused, Throttled, Unavailable

RETRY_AFTER = 5.0
"""Seconds. The call was repeated for a while before it was given up; sooner than this is too soon."""

THROTTLES = frozenset(
    {
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "TooManyRequestsException",
        "EC2ThrottledException",
        "SlowDown",
        "BandwidthLimitExceeded",
        "PriorRequestNotComplete",
    }
)
_TIMEOUTS = frozenset({"RequestTimeout", "RequestTimeoutException"})
_DENIALS = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError"})
_STALE_CREDENTIALS = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "RequestExpired",
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "InvalidAccessKeyId",
        "AuthFailure",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "SignatureDoesNotMatch",
        "InvalidSignatureException",
        "IncompleteSignature",
        "IncompleteSignatureException",
        "OptInRequired",
    }
)
_SKEWED = ("Signature expired", "Signature not yet current")  # what a wrong clock does to a signature, in AWS's words
_SIGN_IN = "Sign in again (`aws sso login`, `aws configure`, or new AWS_* variables); `bullpen doctor` checks them."
_POLICY = "Allow the call to these credentials: `bullpen iam-policy control-plane` prints the statements they need."
_FOREIGN = "the answer is not one of AWS's; a proxy or another service may have answered"
_WAY = "See aws.endpoints, and the proxies of this machine (HTTPS_PROXY, NO_PROXY)."
_LONGEST = 400  # characters of a message of AWS: a denial may carry kilobytes of encoded detail


class Declined(Exception):
    """An answer that its caller expects: not an error of Bullpen's until the caller says so."""

    def __init__(self, code: str, message: str, response: dict[str, Any]) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.response = response


async def call(client: Any, method: str, /, *, expecting: Collection[str] = (), **request: Any) -> dict[str, Any]:
    """Make one call, such as `call(dynamodb, "update_item", TableName=...)`, and return its answer.

    Raise Declined for the error codes in `expecting`; everything else as `bullpen.errors` names it.
    """
    subject = f"{client.meta.service_model.service_id} {client.meta.method_to_api_mapping[method]}"
    try:
        answer: dict[str, Any] = await getattr(client, method)(**request)
    except exceptions.ClientError as exc:
        code = exc.response.get("Error", {}).get("Code", "")
        if code in expecting:
            raise Declined(code, _message(exc), exc.response) from exc
        raise _of_answer(subject, code, exc) from exc
    except (exceptions.BotoCoreError, ResponseParserError, OSError, TimeoutError) as exc:
        raise _of_client(subject, exc) from exc
    return answer


async def all_pages(ask: Callable[..., Awaitable[dict[str, Any]]], listed: str, /, **request: Any) -> list[Any]:
    """Ask until there is no further page: what all of them list under this name."""
    found, page = list[Any](), dict[str, str]()
    while True:
        answer = await ask(**request, **page)
        found += answer.get(listed, ())
        if not answer.get("NextToken"):
            return found
        page = {"NextToken": answer["NextToken"]}


@contextmanager
def translated_opening(service: str) -> Iterator[None]:
    """Opening a session or a client makes no call, but reads the environment and the AWS configuration."""
    try:
        yield
    except (exceptions.BotoCoreError, OSError) as exc:
        raise _of_client(f"AWS ({service})", exc) from exc
    except ValueError as exc:
        raise ConfigError(
            f"AWS ({service}): {_cut(str(exc))}", remedy="See aws.endpoints, aws.region and AWS_ENDPOINT_URL_*."
        ) from exc


def _of_answer(subject: str, code: str, exc: exceptions.ClientError) -> BullpenError:
    status = exc.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if not code or code.isdigit():
        # No error of AWS has such a code: the client makes it from the status, and takes the whole page for a message.
        kind = Unavailable if status >= 500 else Refused
        return kind(f"{subject}: HTTP status {status or code}: {_FOREIGN}", remedy=_WAY)
    text = f"{subject}: {_message(exc)} ({code})"
    if code in THROTTLES:
        return Throttled(text, retry_after=RETRY_AFTER)
    if code in _DENIALS:
        return PermissionDenied(text, remedy=_POLICY)
    if code == "RequestTimeTooSkewed" or any(sign in text for sign in _SKEWED):
        return PermissionDenied(text, remedy="Set the clock of this machine.")
    if code.partition(".")[0] in _STALE_CREDENTIALS:  # EC2 has words of its own behind AuthFailure
        return PermissionDenied(text, remedy=_SIGN_IN)
    if code in _TIMEOUTS or status >= 500:
        return Unavailable(text)
    return Refused(text)


def _of_client(subject: str, exc: Exception) -> BullpenError:
    text = f"{subject}: {_cut(str(exc))}"
    match exc:
        case exceptions.NoCredentialsError() | exceptions.PartialCredentialsError():
            return PermissionDenied(f"{subject}: no AWS credentials ({_cut(str(exc))})", remedy=_SIGN_IN)
        case (
            exceptions.CredentialRetrievalError()
            | exceptions.SSOError()
            | exceptions.LoginError()
            | exceptions.TokenRetrievalError()
        ):
            return PermissionDenied(text, remedy=_SIGN_IN)
        case exceptions.NoRegionError():
            return ConfigError(f"{subject}: no region", remedy="Set aws.region, or AWS_DEFAULT_REGION.")
        case exceptions.ProfileNotFound():
            return ConfigError(text, remedy="Name a profile that exists in AWS_PROFILE, or none.")
        case exceptions.ParamValidationError():
            return Refused(text)
        case exceptions.ConnectionError() | exceptions.HTTPClientError() | OSError() | TimeoutError():
            return Unavailable(text, remedy="See aws.region, aws.endpoints and the network.")
        case ResponseParserError():  # its text is the whole answer, a page of HTML maybe
            return Unavailable(f"{subject}: {_FOREIGN}", remedy=_WAY)
        case exceptions.ChecksumError() | exceptions.IncompleteReadError():
            return Unavailable(f"{subject}: the answer is damaged ({_cut(str(exc))})")
        case _:
            return ConfigError(text, remedy="See aws.region, aws.endpoints and the AWS configuration of this machine.")


def _message(exc: exceptions.ClientError) -> str:
    return _cut(exc.response.get("Error", {}).get("Message", "") or "no message")


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
