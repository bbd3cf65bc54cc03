"""One step of a workflow: reads the inputs, does the work, reports, and returns an exit code.

0 done   1 failed, everything was given back   2 invalid inputs, nothing was done   75 try again later   130 cancelled
"""

import os
import signal
import sys
from contextlib import redirect_stderr
from pathlib import Path

from bullpen.action import install, pool_location, report, via_server, workflow_commands
from bullpen.action.cancellation import SIGNALS, StepCancelled, Stopping
from bullpen.action.input_specs import ECHO, REFRESH
from bullpen.action.inputs import Refusals, StepInputs, document_of, read, secrets_of
from bullpen.action.job_context import JobContext, job_of, label_of
from bullpen.action.result import StepResult
from bullpen.cli.progress import ProgressDisplay
from bullpen.errors import BullpenError, ConfigError, Interrupted

INPUTS = "ACTION_INPUTS"
PREPARED = "ACTION_PREPARED"  # set after the restart with the Python that has the packages
FAULT = 70


def main() -> int:
    """Run the step. Failures are annotations and exit codes, never tracebacks."""
    workflow_commands.speak_utf8()
    with redirect_stderr(workflow_commands.Log()):  # progress and warnings must not act as workflow commands
        return _main()


def _main() -> int:
    stopping = Stopping()
    mode = "step"
    try:
        stopping.install()
        asked = _asked()
        mode = asked.word
        if asked.mode == ECHO:
            workflow_commands.say(str(asked.get("echo", "Hello World!!!")))
            return 0
        job = job_of(os.environ)
        label = label_of(job, asked)
        pool_location.check(asked, os.environ)
        if label:
            workflow_commands.put_out(os.environ, {"label": label})  # first, so that a release finds it after a failure
        return _perform(asked, job, label, stopping)
    except BullpenError as exc:
        if isinstance(exc, Refusals) and exc.word:
            mode = exc.word
        for one in exc.found if isinstance(exc, Refusals) else [exc]:
            workflow_commands.error(f"Bullpen: {mode}", f"{one}. {one.remedy}" if one.remedy else str(one))
        # The work has not begun, so nothing was done.
        result = StepResult(mode, reason=str(exc), remedy=exc.remedy, exit_code=exc.exit_code)
        workflow_commands.summarise(os.environ, report.refused(result))
        return exc.exit_code
    except StepCancelled:
        workflow_commands.error(f"Bullpen: {mode}", "cancelled before the work began; nothing was done")
        return Interrupted.exit_code
    except Exception as exc:
        if os.environ.get("BULLPEN_DEBUG") or os.environ.get("RUNNER_DEBUG") == "1":
            import traceback

            traceback.print_exc()
        fault = f"unexpected {type(exc).__name__}: {exc}"
        workflow_commands.error(f"Bullpen: {mode}", f"{fault}\nThis is a bug: report it with the log of a debug run.")
        return FAULT


def _asked() -> StepInputs:
    """The inputs. Secrets among them are masked before anything is printed."""
    document = document_of(os.environ.get(INPUTS, "{}"))
    for secret in secrets_of(document):
        workflow_commands.mask(secret)
    return read(document)


def _perform(asked: StepInputs, job: JobContext, label: str, stopping: Stopping) -> int:
    served = "server" in asked.given
    if not served:
        _prepare()
    os.environ.pop(INPUTS, None)
    for note in asked.notes:
        workflow_commands.say(note)
    title = "refresh" if asked.mode == REFRESH else f"{asked.mode} of {label}"
    with workflow_commands.group(f"{title} {'by ' + asked.get('server') if served else 'in this job'}"):
        if served:
            result = via_server.run(asked, job, label, os.environ, stopping, ProgressDisplay())
        else:
            from bullpen.action import in_job  # needs the packages of the engines

            result = in_job.run(asked, job, label, os.environ)
    return report.finish(result, os.environ)


def _prepare() -> None:
    """Install the packages of the engines if this Python lacks them, and restart with the Python that has them.

    The new program replaces this process, so that signals to the step still arrive; they are blocked until it handles
    them.
    """
    root = Path(__file__).parents[3]
    if install.are_here(root):
        return
    if os.environ.get(PREPARED):
        remedy = "Remove the directory `bullpen` from the tool cache of the runner, and run the job again."
        raise ConfigError("the virtual environment of the action is incomplete", remedy=remedy)
    interpreter = install.python(root, os.environ)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    os.execve(interpreter, [interpreter, "-P", "-u", "-m", "bullpen.action"], {**os.environ, PREPARED: "1"})


if __name__ == "__main__":
    sys.exit(main())
