"""Pause, resume, drain and rotate on the command line, on a pool without machines."""

from __future__ import annotations

import getpass
import re

import pytest

from command_line import CommandLine

NOTE = "image 12 does not boot"


def test_a_pause_is_shown_by_status_until_the_resume(bullpen: CommandLine) -> None:
    bullpen.make_pool()
    paused = bullpen("pause", "--class", "large", "--note", NOTE)
    assert paused.code == 0
    assert re.fullmatch(
        "pause  class large  no provision of it starts, and nothing is launched or kept warm for it; what runs goes"
        r" on\n",
        paused.out,
    )
    shown = bullpen("status").out
    assert re.search(rf"^large +{getpass.getuser()} +\d+s ago +{NOTE}$", shown, re.M), shown
    assert bullpen("status", "--json").answer["pauses"][0]["note"] == NOTE
    assert "nothing to do: it is paused with this note" in bullpen("pause", "--class", "large", "--note", NOTE).out
    assert bullpen("resume", "--class", "large").out.startswith("resume  class large  provisions start again")
    assert "PAUSED" not in bullpen("status").out
    assert bullpen("resume", "--class", "large").out == "nothing to do: class large is not paused\n"


def test_a_provision_of_a_paused_class_names_the_note_and_a_remedy_that_works(bullpen: CommandLine) -> None:
    bullpen.make_pool()
    bullpen("pause", "--note", NOTE)
    refused = bullpen("provision", "--run-id", "r", "--count", "1", "--json")
    assert refused.code == 1
    assert refused.answer["cause"] == "paused"
    assert refused.answer["reason"].endswith(f"Z: {NOTE}")
    told = bullpen("provision", "--run-id", "r", "--count", "1").err
    assert f"the whole pool is paused by {getpass.getuser()} since" in told
    assert "→ Wait for the resume with --wait, or resume it with `bullpen resume`." in told
    waited = bullpen("provision", "--run-id", "r", "--count", "1", "--wait", "1")
    assert "waited 1 s: the whole pool is paused" in waited.err


def test_a_dry_run_says_what_it_would_do(bullpen: CommandLine) -> None:
    bullpen.make_pool()
    assert bullpen("pause", "--note", NOTE, "--dry-run").out.startswith("would pause  the whole pool  ")
    assert "PAUSED" not in bullpen("status").out
    answer = bullpen("drain", "--class", "small", "--dry-run", "--json").answer
    assert (answer["dryRun"], [one["what"] for one in answer["actions"]]) == (True, ["pause"])
    assert bullpen("rotate", "--dry-run").out == "nothing to do: the pool has no instances\n"


def test_resuming_a_class_says_that_the_pool_is_still_paused(bullpen: CommandLine) -> None:
    bullpen.make_pool()
    bullpen("pause", "--note", NOTE)
    bullpen("pause", "--class", "small", "--note", "too")
    told = bullpen("resume", "--class", "small").out
    assert "resume  class small" in told
    assert f"the whole pool is paused by {getpass.getuser()} since" in told


def test_a_drained_class_is_paused_and_says_so(bullpen: CommandLine) -> None:
    bullpen.make_pool()
    assert bullpen("drain", "--class", "small", "--note", "moving").code == 0
    assert "moving (its instances are drained)" in bullpen("status").out
    assert bullpen("why", "pause:small").out.startswith("class small is paused by ")


WRONG = [
    (("pause",), "--note: must be given"),
    (("pause", "--note", ""), "--note ''"),
    (("pause", "--note", "two\nlines"), "--note"),
    (("pause", "--note", "\x1b[2Jgone"), "--note"),
    (("pause", "--note", "x" * 501), "--note"),
    (("pause", "--note", "n", "--class", "huge"), "--class 'huge': not configured; known are large, medium, small"),
    (("pause", "--note", "n", "--class", "../x"), "--class"),
    (("pause", "--note", "n", "--class", ""), "--class"),
    (("resume", "--class", "huge"), "--class 'huge': not configured"),
    (("rotate", "--class", "huge"), "--class 'huge': not configured"),
    (("drain",), "INSTANCE: name some, or a class"),
    (("drain", "i-1", "--class", "small"), "INSTANCE: name some, or a class"),
    (("drain", "a b"), "ID"),
    (("drain", "--class", "huge"), "--class 'huge': not configured"),
]


@pytest.mark.parametrize(("line", "error"), WRONG)
def test_what_cannot_be_meant_is_refused_by_name(bullpen: CommandLine, line: tuple[str, ...], error: str) -> None:
    bullpen.make_pool()
    refused = bullpen(*line)
    assert refused.code == 2, refused
    assert f"bullpen: error: {error}" in refused.err
    assert "\x1b" not in refused.err
    assert "Traceback" not in refused.err
    assert "PAUSED" not in bullpen("status").out


def test_an_unknown_instance_is_named(bullpen: CommandLine) -> None:
    bullpen.make_pool()
    refused = bullpen("drain", "i-0123456789abcdef")
    assert refused.code == 1
    assert "i-0123456789abcdef: no such instance" in refused.err
    assert "bullpen status" in refused.err


@pytest.mark.parametrize("line", [("pause", "--note", "n"), ("resume",), ("rotate",), ("drain", "i-1")])
def test_no_pool_is_made_for_an_order(bullpen: CommandLine, line: tuple[str, ...]) -> None:
    refused = bullpen(*line)
    assert refused.code == 1
    assert "there is no pool in" in refused.err
    assert bullpen.left_behind == []
