"""A request and an answer for each operation, made of the structs themselves: a test decodes each by its schema."""

from bullpen.server.openapi.examples import agents, explained, observed, pool, runs
from bullpen.server.openapi.examples.subjects import Example

EXAMPLES: dict[str, Example] = {
    **runs.EXAMPLES,
    **pool.EXAMPLES,
    **explained.EXAMPLES,
    **observed.EXAMPLES,
    **agents.EXAMPLES,
}
