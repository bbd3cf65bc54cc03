"""What a keep pattern may be: the settings refuse what the agent could not follow, before a machine boots with it."""

ALLOWED = "names joined by '/', where '*', '?' and '[…]' stay inside one name: no '.', '..', '**' or empty name"


def names_of(pattern: str) -> tuple[str, ...]:
    """The pattern, name by name. Raise ValueError saying what is allowed; whoever knows the pattern's source names it.

    An empty name is a leading, trailing or doubled slash: it fits no entry, so nothing would be kept.
    """
    names = tuple(pattern.split("/"))
    if not {"", ".", "..", "**"}.isdisjoint(names):
        raise ValueError(f"write it as {ALLOWED}")
    return names
