"""The location of the pool: behind a server, on AWS, or on this machine. Inputs for two locations are refused."""

from collections.abc import Iterator, Mapping

from bullpen.action.input_specs import INPUTS, PROVISION, REFRESH
from bullpen.action.inputs import Refusals, StepInputs
from bullpen.errors import ConfigError

SERVED_ONLY = ("server-token", "audience")
AWS = ("table-name", "aws-region")
LOCAL = ("config", "home", *AWS, "github-token")
REFRESH_NEEDS = ("ami", "iam-instance-profile", "subnet-ids", "github-token")
VARIABLES = ("BULLPEN_HOME", "BULLPEN_CONFIG")
REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
WHERE = (
    "Set server (URL of a `bullpen serve`), or table-name with aws-region (a pool on AWS), or home (a pool on this"
    " machine), or config (a bullpen.toml)."
)


def check(asked: StepInputs, environ: Mapping[str, str]) -> None:
    """Raise Refusals for inputs that contradict each other, and for missing ones."""
    wrong = list(_with_server(asked) if "server" in asked.given else _without_server(asked, environ))
    if wrong:
        raise Refusals(wrong)


def _with_server(asked: StepInputs) -> Iterator[ConfigError]:
    if asked.mode == REFRESH:
        yield ConfigError(
            f"mode {asked.word} and server: a server refreshes its pool by itself",
            remedy="Remove this step, or remove server to refresh from this job.",
        )
    if all(name in asked.given for name in SERVED_ONLY):
        yield ConfigError(f"{' and '.join(SERVED_ONLY)}: only one of them can be used", remedy="Remove one of them.")
    if said := ", ".join(asked.spoken[name] for name in asked.given if name in LOCAL or INPUTS[name].machine):
        yield ConfigError(
            f"server and {said}: with a server, its own settings define the pool, the machines and the access to"
            " GitHub",
            remedy=f"Remove {said}, or server.",
        )


def _without_server(asked: StepInputs, environ: Mapping[str, str]) -> Iterator[ConfigError]:
    for name in SERVED_ONLY:
        if name in asked.given:
            yield ConfigError(
                f"{name}: has no effect without server", remedy="Set server to the URL of `bullpen serve`."
            )
    if "home" in asked.given and (said := ", ".join(asked.spoken[name] for name in AWS if name in asked.given)):
        remedy = f"Remove {said}, or home."
        yield ConfigError(f"home and {said}: a pool is either on this machine or on AWS", remedy=remedy)
    elif not {"home", "table-name", "config"} & set(asked.given) and not any(map(environ.get, VARIABLES)):
        yield ConfigError("server, table-name, home, config: one of them is required", remedy=WHERE)
    if "table-name" in asked.given and "aws-region" not in asked.given and not any(map(environ.get, REGIONS)):
        remedy = "Set it to the region of the pool, such as eu-central-1."
        yield ConfigError("aws-region: is required with table-name", remedy=remedy)
    missing = ", ".join(name for name in REFRESH_NEEDS if name not in asked.given)
    if missing and asked.mode == REFRESH and "table-name" in asked.given and "config" not in asked.given:
        remedy = "Refresh publishes them in the table, where provision and release find them."
        yield ConfigError(f"{missing}: required with mode {asked.word}", remedy=remedy)
    if asked.mode == PROVISION and "spot-fallback" in asked.given and _usage(asked) == "on-demand":
        said = asked.spoken["spot-fallback"]
        yield ConfigError(f"{said}: has no effect for on-demand machines", remedy="Remove it.")


def _usage(asked: StepInputs) -> str:
    return str(asked.get("usage-class", "on-demand" if asked.word == "start" else "spot"))
