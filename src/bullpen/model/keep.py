"""Keep patterns: the settings refuse a pattern that the agent could not apply, before a machine boots with it."""

ALLOWED = "names joined by '/', where '*', '?' and '[…]' stay inside one name: no '.', '..', '**' or empty name"


def names_of(pattern: str) -> tuple[str, ...]:
    """The names of a pattern. Raise ValueError with what is allowed; the caller adds the source of the pattern.

    An empty name comes from a leading, trailing or doubled slash: it matches no entry, so nothing would be kept.
    """
    names = tuple(pattern.split("/"))
    if not {"", ".", "..", "**"}.isdisjoint(names):
        raise ValueError(f"write it as {ALLOWED}")
    return names
