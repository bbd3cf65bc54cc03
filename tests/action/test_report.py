"""The summary: a headline, the runners, the seconds, what reuse saved; of a failure its cause and what is left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bullpen.action.report import headline, leftovers, outputs, saved, summary
from bullpen.action.result import DiscardedRunner, Runner, StepResult, of_provision, of_release
from bullpen.model.progress import WorkPhase

WARM = Runner("i-1", "selected", "large", "c7i.large", "spot")
COLD = Runner("i-2", "created", "large", "m7i.large", "spot")
TIMINGS = {
    WorkPhase.ACQUIRE: 31.0,
    WorkPhase.SELECT: 1.5,
    WorkPhase.CREATE: 2.0,
    WorkPhase.REGISTER: 28.5,
}
MET = StepResult("provision", "4711", requested=2, duration=31.4, timings=TIMINGS, runners=(WARM, COLD))
UNMET = StepResult("provision", "4711", reason="no capacity", remedy="try on-demand", exit_code=1, requested=2)


def test_a_met_provision_has_one_headline_and_each_runner_in_a_row() -> None:
    text = summary(MET)
    assert text.splitlines()[0] == "### ✅ Bullpen: 2 runners ready in 31.4 s: 1 reused, 1 created"
    assert "| `i-1` | large | c7i.large | spot | reused |" in text
    assert "| `i-2` | large | m7i.large | spot | created |" in text


def test_the_summary_lists_seconds_by_what_the_step_waited_for() -> None:
    text = summary(MET)
    assert "| booting and registering | 28.5 s |" in text
    assert "| checking the run before, committing after | 0.4 s |" in text
    assert "**31.4 s**" in text


def test_the_savings_of_reuse_are_computed_from_this_provision_and_explained() -> None:
    assert "1 × 30.5 s = 30.5 s more of machine time" in saved(MET)


def test_without_a_measured_cold_start_no_savings_are_stated() -> None:
    text = saved(replace(MET, runners=(WARM,), timings={WorkPhase.ACQUIRE: 1.0, WorkPhase.SELECT: 1.0}))
    assert "was not measured" in text
    assert not any(char.isdigit() for char in text.replace("1 runner", ""))


def test_nothing_reused_saved_nothing() -> None:
    assert saved(replace(MET, runners=(COLD,))) == ""


def test_a_failure_has_cause_and_remedy_and_no_list_of_runners() -> None:
    text = summary(UNMET)
    assert text.splitlines()[0] == "### ❌ Bullpen: provision of 4711 failed: no capacity"
    assert "**Cause:** no capacity" in text
    assert "**What to do:** try on-demand" in text
    assert "| runner |" not in text


@pytest.mark.parametrize("fate", ["terminated", "offered", "not ours"])
def test_the_summary_says_that_nothing_is_left_if_the_outcome_is_certain(fate: str) -> None:
    said = leftovers(replace(UNMET, discarded=(DiscardedRunner("i-1", "", fate),)))
    assert said == "Nothing of this provision is left running."


@pytest.mark.parametrize("fate", ["terminating", "cleaning", "busy", ""])
def test_instances_without_a_certain_end_are_named(fate: str) -> None:
    text = leftovers(
        replace(UNMET, discarded=(DiscardedRunner("i-1", "", fate), DiscardedRunner("i-2", "", "terminated")))
    )
    assert "i-1" in text
    assert "i-2" not in text
    assert "Nothing is left" not in text


def test_runners_that_the_run_had_before_are_named_and_not_counted_as_reused() -> None:
    failed = of_provision("4711", {"requested": 4, "held": ["i-7"]}, reason="no room", remedy="", exit_code=1)
    assert leftovers(failed).endswith("The run still holds the runners that it had before: i-7.")
    rows = [{"instanceId": "i-7", "origin": "selected"}, {"instanceId": "i-8", "origin": "selected"}]
    met = of_provision("4711", {"requested": 2, "held": ["i-7"], "instances": rows}, reason="", remedy="", exit_code=0)
    assert headline(met).endswith("1 reused, 0 created, 1 already held")
    assert "1 runner was taken warm" in saved(met)
    assert (outputs(met)["selected"], outputs(met)["instance-ids"]) == ("1", '["i-7", "i-8"]')


def test_nothing_is_claimed_if_the_outcome_is_unknown() -> None:
    assert "is not known" in leftovers(replace(UNMET, is_known=False))
    assert leftovers(replace(UNMET, exit_code=130)) == ""


def test_markup_in_text_from_outside_is_escaped() -> None:
    text = summary(replace(UNMET, reason="<img src=x> | `x` [a](b)\n# no heading \\[a](b) \\| c"))
    assert "\\\\\\[a](b) \\\\\\| c" in text, "a backslash in the text must not undo the escape"
    assert "<img" not in text
    assert "\n# no heading" not in text


def test_a_long_table_is_cut() -> None:
    text = summary(replace(MET, runners=tuple(replace(WARM, id=f"i-{n}") for n in range(1000))))
    assert "… and 800 more" in text


def test_outputs_have_the_names_of_every_supported_action() -> None:
    found = outputs(MET)
    assert found["label"] == "4711"
    assert found["instance-ids"] == found["ids"] == found["ec2-instance-ids"] == '["i-1", "i-2"]'
    assert found["id"] == found["ec2-instance-id"] == "i-1"
    assert (found["selected"], found["created"], found["duration"]) == ("1", "1", "31.400")


def test_a_provision_that_failed_puts_out_no_runner() -> None:
    assert outputs(UNMET) == {"label": "4711"}


def test_a_release_reports_the_outcome_of_each_runner() -> None:
    answer = {"offered": ["i-1"], "terminated": ["i-2"], "pending": ["i-3"], "busy": ["i-4"]}
    result = of_release("4711", answer, 2.0)
    assert headline(result) == "1 runner of 4711 back in the pool in 2.0 s"
    rows = [line for line in summary(result).splitlines() if line.startswith("| `i-")]
    assert [row.split("|")[2].split(";")[0].strip() for row in rows] == [
        "back in the pool",
        "ended",
        "still cleaning",
        "busy with a job",
    ]


def test_a_run_without_runners_has_nothing_to_release() -> None:
    assert headline(of_release("4711", {}, 0.1)) == "4711 holds no runners: nothing to release"


def test_runners_kept_because_a_job_had_begun_are_shown() -> None:
    answer = {"requested": 1, "instances": [], "kept": [{"instanceId": "i-9"}]}
    assert "`i-9`" in summary(of_provision("4711", answer, reason="", remedy="", exit_code=0))


def test_what_refresh_did_is_listed_with_its_reasons() -> None:
    result = StepResult("refresh", actions=(("end", "i-1", "its threshold has passed"),))
    assert headline(result) == "refreshed: 1 action"
    assert headline(replace(result, dry_run=True)) == "dry run: refresh would take 1 action"
    assert headline(replace(result, dry_run=True, actions=())) == "dry run: refresh would have nothing to do"
    assert "| end | i-1 | its threshold has passed |" in summary(result)


def test_the_phases_of_an_older_server_are_read_and_those_of_a_newer_one_left_out() -> None:
    timings = {"a new machine": 2.0, "register": 28.5, "acquire": 31.0, "teleport": 9.0}
    read = of_provision("4711", {"timings": timings}, reason="", remedy="", exit_code=0)
    assert read.timings == {WorkPhase.CREATE: 2.0, WorkPhase.REGISTER: 28.5, WorkPhase.ACQUIRE: 31.0}
