"""The verbs of the API: litestar's, which answer 200 unless a route says otherwise."""

from functools import partial

import litestar

get = litestar.get
post = partial(litestar.post, status_code=200)
put = litestar.put
delete = partial(litestar.delete, status_code=200)
