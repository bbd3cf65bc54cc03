"""The verbs of the API: litestar's, with the errors that every endpoint may answer described."""

from functools import partial

import litestar
from litestar.openapi.datastructures import ResponseSpec

from bullpen.schema.error import ErrorAnswer

KINDS = {
    400: "The request cannot be meant; `field` says where.",
    401: "A token is needed, or the one given is wrong, expired or revoked.",
    403: "The token does not allow it.",
    404: "There is no such thing.",
    409: "What stands there does not allow it.",
    410: "It is over, for good.",
    413: "The body is too large.",
    429: "Too much is being served: come back after `Retry-After` seconds.",
    503: "The store does not answer now: come back after `Retry-After` seconds.",
}
ERRORS = {
    status: ResponseSpec(ErrorAnswer, description=text, generate_examples=False) for status, text in KINDS.items()
}

get = partial(litestar.get, responses=ERRORS)
post = partial(litestar.post, responses=ERRORS)
put = partial(litestar.put, responses=ERRORS)
delete = partial(litestar.delete, responses=ERRORS)
