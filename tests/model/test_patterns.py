"""What a pattern of instance types means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.model.ticket import matches


@pytest.mark.parametrize(
    ("instance_type", "patterns", "expected"),
    [
        ("c5.large", ("c5.large",), True),
        ("C5.Large", ("c5.LARGE",), True),
        ("c5.large", ("c*",), True),
        ("c5.large", ("*.large",), True),
        ("c5.large", ("c*.l*e",), True),
        ("c5.large", ("**",), True),
        ("c5.large", ("m*", "c5.*"), True),
        ("c5.large", ("5.large",), False),
        ("c5.large", ("c5",), False),
        ("c5xlarge", ("c5.large",), False),
        ("c5.large", ("c?.large",), False),
        ("c5.large", ("[c]5.large",), False),
        ("c5.large\n", ("c5.large",), False),
        ("c5.large", (), False),
        ("c5.large", ("",), False),
    ],
)
def test_patterns_are_anchored_any_of_and_know_the_star_only(
    instance_type: str, patterns: tuple[str, ...], expected: bool
) -> None:
    assert matches(instance_type, patterns) is expected


def reference_match(text: str, pattern: str) -> bool:
    """Letter by letter, without regular expressions."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return reference_match(text, pattern[1:]) or (bool(text) and reference_match(text[1:], pattern))
    return bool(text) and text[0].lower() == pattern[0].lower() and reference_match(text[1:], pattern[1:])


letters = st.text("aAbB5.*?+[|(\\\n", max_size=8)


@given(letters, st.lists(letters, max_size=3))
def test_patterns_mean_what_the_reference_says(text: str, patterns: list[str]) -> None:
    assert matches(text, patterns) is any(reference_match(text, pattern) for pattern in patterns)
