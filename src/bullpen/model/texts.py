"""Texts from outside, cut to what a record has room for."""


def fitting(text: str, most: int) -> str:
    """The beginning of a text, in at most so many bytes of UTF-8. Half surrogates, which no store takes, are
    replaced."""
    return text.encode(errors="replace")[:most].decode(errors="ignore")
