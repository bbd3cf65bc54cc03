"""The pages that `Reader` follows, and what each of them needs around it.

`python tests/docs/followed_pages.py docs/serve.md` writes the outputs of a page again, as they are now: look at the
difference.
"""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

if __name__ == "__main__":  # as pytest does
    sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("tests", "src", "tools")]

import docs_tools
from agent.github.fixtures import a_runner
from docs.reader import Reader
from fakes.github.fixtures import serving
from fakes.github.hub import JobSpec
from installed import TOOLS, Environment, succeeded, unpacked_sdist
from scenario.commands import Starter
from users import lent
from walkthroughs import ROOT, STEP, step_of


@contextmanager
def plain(folder: Path) -> Iterator[Reader]:
    with started() as starter:
        yield Reader(folder, starter)


@contextmanager
def operating(folder: Path) -> Iterator[Reader]:
    with started() as starter:
        reader = Reader(folder, starter)
        reader.place("orders").environ |= {"LOGNAME": "ada"}  # who gave an order
        yield reader


@contextmanager
def install(folder: Path) -> Iterator[Reader]:
    """A new environment with pip alone, and a repository of the files that users get."""
    repository = unpacked_sdist(folder).rename(folder / "bullpen")
    for command in ("init --quiet", "add --all", "-c user.name=you -c user.email=you@example.com commit -qm first"):
        succeeded(["git", *command.split()], repository)
    python = Environment(folder).with_pip().python
    instead = {"https://github.com/OWNER/bullpen": str(repository), "/opt/bullpen/bin/python": str(python)}
    reader = Reader(folder, None, instead=instead)
    for name in ("pipx", "uv"):
        reader.program(name, f'exec {docs_tools.console() / name} "$@"')
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    for place in map(reader.place, ("", "pipx", "uv")):
        place.environ |= {"HOME": str(place.home), "XDG_CACHE_HOME": cache}
        place.environ["PATH"] = f"{python.parent}:{place.environ['PATH']}"
    reader.place("pipx").folder = reader.place("uv").folder = reader.place().home / "bullpen"
    yield reader


@contextmanager
def liveness(folder: Path) -> Iterator[Reader]:
    """`make test` goes on until the page is through with it, and the confirm window is open until the page says so."""

    def window_ends() -> None:
        settings.write_text("")

    meanwhile = {"the worker stays silent for the confirm window": window_ends, "the tests end": (folder / "go").touch}
    with started("github") as starter:
        reader = Reader(folder, starter, meanwhile=meanwhile)
        reader.program("make", f"until test -e {folder}/go; do sleep 0.1; done")
        settings = reader.place().folder / "bullpen.toml"
        settings.write_text("[liveness]\nconfirm = 600\n")
        yield reader


@contextmanager
def one_box(folder: Path) -> Iterator[Reader]:
    instead = {"/srv/pool": str(folder / "pool"), "/etc/bullpen": str(folder / "etc")}
    of_the_machine = {r"^(sqlite|file system|disk|capacity)( +\w+).*": r"\1\2"}
    with started() as starter:
        reader = Reader(folder, starter, instead=instead, varying=of_the_machine)
        reader.program("make", "echo 42 passed")
        yield reader


@contextmanager
def proxy(folder: Path) -> Iterator[Reader]:
    """Without the proxy: `serve` answers under the public name. Without a user of the service: sudo changes no user."""
    instead = {"/opt/bullpen/bin/bullpen": str(TOOLS / "bullpen"), "/var/lib/bullpen": str(folder)}
    with started("github") as starter:
        reader = Reader(folder, starter, instead=instead)
        reader.program("sudo", 'shift 2; exec env "$@"')
        service = reader.place("service")
        service.environ["BULLPEN_HOME"] = str(folder / "pool")
        reader.instead["https://bullpen.example.com"] = f"http://127.0.0.1:{service.port}"
        reader.meanwhile["the service has started"] = lambda: service.serve("bullpen serve")
        yield reader


@contextmanager
def quickstart(folder: Path) -> Iterator[Reader]:
    def project_has_two_tests() -> None:
        tests = "def test_one():\n    assert 1 + 1 == 2\n\n\ndef test_two():\n    assert 2 + 2 == 4\n"
        (reader.place("project").folder / "test_sums.py").write_text(tests)
        reader.place("project").run("git init --quiet && git add test_sums.py")

    with started() as starter:
        reader = Reader(folder, starter, meanwhile={"your project has two tests": project_has_two_tests})
        # The environment of the project: pytest, without the plugins of these tests.
        reader.program("python", f'PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 exec {sys.executable} "$@"')
        yield reader


@contextmanager
def serve(folder: Path) -> Iterator[Reader]:
    """GitHub is the simulator. Machines of its pool do not finish their boot: the page stops their provision."""

    def job_begins() -> None:
        run = hub.start_run("acme/widgets", [JobSpec("provision")], id=4711)
        reader.place("GitHub").environ |= hub.oidc_environment(run.job("provision"))

    def foreign_job_asks() -> None:
        reader.place("GitHub").environ["ID_TOKEN"] = hub.oidc_token(repository="evil/fork")

    meanwhile = {"a job of run 4711 begins": job_begins, "a job of evil/fork asks": foreign_job_asks}
    with serving() as hub, lent(2) as users, started("github") as starter:
        (folder / "token").write_text(hub.token() + "\n")
        (folder / "webhook-secret").write_text("long and random\n")
        instead = {"/etc/bullpen": str(folder)}
        reader = Reader(folder, starter, instead=instead, meanwhile=meanwhile)
        reader.place("GitHub").environ |= {
            "BULLPEN_GITHUB_URL": hub.url,
            "BULLPEN_GITHUB_RUNNER_DIRECTORY": str(a_runner(folder)),
            "BULLPEN_AGENT_PRE_RUNNER_SCRIPT": "sleep 600",
            **({"BULLPEN_LOCAL_RUNNER_USERS": ",".join(users)} if users else {}),
        }
        yield reader


@contextmanager
def cost(folder: Path) -> Iterator[Reader]:
    """Whether reuse saves anything within a minute depends on the machine."""
    with started() as starter:
        yield Reader(folder, starter, varying={r"(idle:) (?:saved|cost)": r"\1 saved"})


PAGES: dict[str, Callable[[Path], AbstractContextManager[Reader]]] = {
    "README.md": plain,
    "docs/cost.md": cost,
    "docs/install.md": install,
    "docs/liveness.md": liveness,
    "docs/one-box.md": one_box,
    "docs/operating.md": operating,
    "docs/proxy.md": proxy,
    "docs/quickstart.md": quickstart,
    "docs/serve.md": serve,
    "docs/why.md": plain,
}


@contextmanager
def a_reader(page: str) -> Iterator[Reader]:
    folder = Path(tempfile.mkdtemp(prefix="page-"))
    folder.chmod(0o755)  # jobs of another user must get to their directories
    try:
        with PAGES[page](folder) as reader:
            try:
                yield reader
            finally:
                reader.end()
    finally:
        shutil.rmtree(folder)


@contextmanager
def started(*engines: str) -> Iterator[Starter]:
    starter = Starter(*engines)
    try:
        yield starter
    finally:
        starter.close()


def rewritten(page: str) -> str:
    """The page with the outputs of now."""
    with a_reader(page) as reader:
        reader.patience = 40.0  # an output that has changed is waited for in vain

        def again(found: re.Match[str]) -> str:
            step = step_of(found)
            if not step.commands:
                reader.prepare(step)
                return found[0]
            lines = []
            for shown in step.commands:
                printed, _ = reader.type(shown, step.about)
                printed = reader.there(printed, step.about).strip("\n")
                lines += [f"$ {reader.renamed(shown.command)}", *printed.splitlines()]
            return found[0].replace(found["text"], "".join(f"{found['indent']}{line}\n" for line in lines))

        return STEP.sub(again, (ROOT / page).read_text())


if __name__ == "__main__":
    (ROOT / sys.argv[1]).write_text(rewritten(sys.argv[1]))
