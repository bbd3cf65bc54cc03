"""What reuse saved, from what this very provision measured. Nothing is guessed: no measured cold start, no number."""

from bullpen.action.result import StepResult
from bullpen.model.progress import WorkPhase

COLD = (WorkPhase.CREATE, WorkPhase.REGISTER)


def saved(result: StepResult) -> str:
    """A sentence with its arithmetic; empty if nothing was reused."""
    if not result.selected:
        return ""
    runners = "1 runner was" if result.selected == 1 else f"{result.selected} runners were"
    cold = sum(result.timings.get(phase, 0.0) for phase in COLD)
    if not result.created or not cold:
        return (
            f"**Reuse:** {runners} taken warm from the pool. No machine was started in this provision, so what a cold"
            " start would have taken was not measured."
        )
    return (
        f"**Reuse:** {runners} taken warm, {result.created} started in {cold:.1f} s. Starting the reused ones too would"
        f" have been {result.selected} × {cold:.1f} s = {result.selected * cold:.1f} s of machine time more: the time"
        " from asking for new machines to the last one's registration, measured here, for each reused runner. The wait"
        " of this step was that of the started ones, so no waiting time was saved."
    )
