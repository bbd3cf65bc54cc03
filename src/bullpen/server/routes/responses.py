"""The verbs of the API: litestar's, with the errors that every endpoint may answer described."""

from functools import partial

import litestar
from litestar.openapi.datastructures import ResponseSpec

from bullpen.schema.error import ErrorAnswer

KINDS = {
    400: "The request is wrong; `field` names the part.",
    401: "A token is needed, or the one given is wrong, expired or revoked.",
    403: "The token does not allow it.",
    404: "It does not exist.",
    409: "The current state does not allow it, or another caller was faster.",
    410: "The worker's key is refused for good: take a new one.",
    413: "The body is too large.",
    429: "Too many requests: try again after `Retry-After` seconds.",
    503: "The store or a service does not answer: try again after `Retry-After` seconds.",
}
ERRORS = {
    status: ResponseSpec(ErrorAnswer, description=text, generate_examples=False) for status, text in KINDS.items()
}

get = partial(litestar.get, responses=ERRORS)
post = partial(litestar.post, status_code=200, responses=ERRORS)
put = partial(litestar.put, responses=ERRORS)
delete = partial(litestar.delete, status_code=200, responses=ERRORS)
