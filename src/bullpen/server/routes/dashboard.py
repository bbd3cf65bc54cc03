"""The files of the dashboard, to anyone: `server.gate` asks for no token here."""

from typing import Annotated

from litestar import HttpMethod, Response, Router, route
from litestar.params import PathParameter
from litestar.response import Redirect

from bullpen.schema.error import ErrorCode
from bullpen.server.context import Asking
from bullpen.server.dashboard_files import INDEX, PROTECTION, file_answer
from bullpen.server.problems import Problem

FileName = Annotated[str, PathParameter(description="Name of the file.")]
READING = [HttpMethod.GET, HttpMethod.HEAD]


@route("/", http_method=READING, include_in_schema=False, sync_to_thread=False)
def show_dashboard(request: Asking) -> Response[bytes]:
    return _answer(request, INDEX)


@route("/dashboard/{name:path}", http_method=READING, include_in_schema=False, sync_to_thread=False)
def show_dashboard_file(request: Asking, name: FileName) -> Response[bytes]:
    return _answer(request, name.removeprefix("/"))


@route("/dashboard", http_method=READING, include_in_schema=False, sync_to_thread=False)
def show_dashboard_address(request: Asking) -> Redirect:
    """For people who write the address by hand."""
    return Redirect("/", headers=PROTECTION)


def _answer(request: Asking, name: FileName) -> Response[bytes]:
    sent = request.headers
    found = file_answer(name, sent.get("accept-encoding", ""), sent.get("if-none-match", ""))
    if found is None:
        raise Problem(404, "the dashboard has no such file", code=ErrorCode.NO_SUCH_ENDPOINT, headers=dict(PROTECTION))
    return Response(found.body, status_code=found.status, headers=dict(found.headers), media_type=None)


ROUTER = Router("/", route_handlers=[show_dashboard, show_dashboard_file, show_dashboard_address])
