"""Loads every module that this agent can come to need, so that it never depends on its installation again.

An upgrade replaces the tree that the agent was started from. A module that is loaded after that belongs to another
version, or is gone. So everything is loaded with the first heartbeat, which precedes the first job, and not at the
start: a provision waits for the registration, and must not wait for what only a job needs. Modules that only another
kind of agent needs are left out. The programs that run beside an agent, such as the hooks of GitHub's runner, are
written into the instance's own directory when it boots; none of them runs from the installation.
"""

# ruff: noqa: F401 - imported to be there

from __future__ import annotations

from bullpen.agent.config import Config


def load_everything(config: Config) -> None:
    """Raise ImportError if the installation has been replaced before."""
    import linecache
    import tokenize
    import traceback

    from bullpen.agent.build import build_id

    build_id()  # reads the installation as well, once
    if config.serve_url or not config.table:
        import bullpen.agent.collect_artifacts
        import bullpen.agent.store.jobs
        import bullpen.agent.unpack_source
    if not (config.serve_url or config.table):
        import bullpen.agent.store.lease
    if config.runner_user:
        import bullpen.agent.job_user
    if config.ci == "github":
        import bullpen.agent.github.runner

        if config.serve_url:
            import bullpen.model.served_set
        else:
            import bullpen.agent.github.token_source
        if config.runner_url:
            import bullpen.agent.github.fetch
