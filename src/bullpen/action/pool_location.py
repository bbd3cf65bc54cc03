"""Where the pool is: behind a server, on AWS, or on this machine. Inputs that speak of two places contradict."""

from collections.abc import Mapping

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
    "Say where the pool is: server (a `bullpen serve`), or table-name with aws-region (a pool on AWS), or home (a pool"
    " on this machine), or config (a bullpen.toml)."
)


def check(asked: StepInputs, environ: Mapping[str, str]) -> None:
    """Raise Refusals for what cannot be meant together."""
    wrong = list(_with_server(asked) if "server" in asked.given else _without_server(asked, environ))
    if wrong:
        raise Refusals(wrong)


def _with_server(asked: StepInputs) -> list[ConfigError]:
    wrong = []
    if asked.mode == REFRESH:
        wrong.append(
            ConfigError(
                f"mode {asked.word} and server: a server refreshes its pool itself, all the time",
                remedy="Delete this step, or leave server out to refresh from here.",
            )
        )
    if all(name in asked.given for name in SERVED_ONLY):
        both = " and ".join(SERVED_ONLY)
        wrong.append(ConfigError(f"{both}: with a token no identity is shown", remedy="Leave one of them out."))
    local = [name for name in asked.given if name in LOCAL or INPUTS[name].machine]
    if local:
        said = ", ".join(asked.spoken[name] for name in local)
        wrong.append(
            ConfigError(
                f"server and {said}: the server's own settings say where its pool is, what machines are like and who"
                " speaks with GitHub",
                remedy=f"Leave {said} out, or server.",
            )
        )
    return wrong


def _without_server(asked: StepInputs, environ: Mapping[str, str]) -> list[ConfigError]:
    wrong = [
        ConfigError(f"{name}: says nothing without server", remedy="Name the URL of `bullpen serve` in server.")
        for name in SERVED_ONLY
        if name in asked.given
    ]
    if "home" in asked.given and (on_aws := [asked.spoken[name] for name in AWS if name in asked.given]):
        said = ", ".join(on_aws)
        remedy = f"Leave {said} out, or home."
        wrong.append(ConfigError(f"home and {said}: a pool is on this machine or on AWS", remedy=remedy))
    elif not {"home", "table-name", "config"} & set(asked.given) and not any(map(environ.get, VARIABLES)):
        wrong.append(ConfigError("server, table-name, home, config: all are empty", remedy=WHERE))
    if "table-name" in asked.given and "aws-region" not in asked.given and not any(map(environ.get, REGIONS)):
        wrong.append(ConfigError("aws-region: is needed with table-name", remedy="Such as eu-central-1."))
    if asked.mode == REFRESH and "table-name" in asked.given and "config" not in asked.given:
        missing = [name for name in REFRESH_NEEDS if name not in asked.given]
        if missing:
            remedy = "Refresh is told what machines are like; provision and release find it in the table."
            wrong.append(ConfigError(f"{', '.join(missing)}: needed by mode {asked.word}, and empty", remedy=remedy))
    if asked.mode == PROVISION and "spot-fallback" in asked.given and _usage(asked) == "on-demand":
        wrong.append(
            ConfigError(f"{asked.spoken['spot-fallback']}: says nothing for on-demand machines", remedy="Leave it out.")
        )
    return wrong


def _usage(asked: StepInputs) -> str:
    return str(asked.get("usage-class", "on-demand" if asked.word == "start" else "spot"))
