"""Which trust domains may inherit used instances of which, and which instances every run may have."""

from scenario.pool import Pool
from scenario.test_everyday import ids


def test_a_used_instance_goes_to_its_own_trust_domain_and_to_no_other(pool: Pool) -> None:
    (used,) = ids(pool.provision("run-1", 1, "--trust-domain", "forks"))
    pool.release("run-1")
    other = pool.provision("run-2", 1, "--trust-domain", "main")
    assert (other["created"], used in ids(other)) == (1, False)
    assert pool.on_offer() == [used]
    same = pool.provision("run-3", 1, "--trust-domain", "forks")
    assert (same["created"], ids(same)) == (0, [used])
    assert pool.audit() == []


def test_a_domain_that_is_configured_to_inherit_does(pool: Pool) -> None:
    (used,) = ids(pool.provision("run-1", 1, "--trust-domain", "main"))
    pool.release("run-1")
    (pool.folder / "bullpen.toml").write_text('[trust.inherits]\nforks = ["main"]\n')
    assert ids(pool.provision("run-2", 1, "--trust-domain", "forks")) == [used]
    pool.release("run-2")
    assert pool.provision("run-3", 1, "--trust-domain", "main")["created"] == 1, "it was used by forks since"


def test_an_unused_instance_that_refresh_warmed_goes_to_any_domain(pool: Pool) -> None:
    pool.settings["classes.small.idle-target"] = 2
    pool.refresh()
    warmed = pool.live()
    assert len(warmed) == 2
    pool.until(lambda: len(pool.rows("SELECT 1 FROM signals WHERE kind = 'UD_OK'")) == 2, "both have booted")
    pool.refresh()
    assert pool.on_offer() == warmed
    assert pool.audit() == []
    one, other = pool.provision("run-1", 1, "--trust-domain", "a"), pool.provision("run-2", 1, "--trust-domain", "b")
    assert (one["created"], other["created"]) == (0, 0)
    assert sorted(ids(one) + ids(other)) == warmed
