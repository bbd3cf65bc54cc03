"""The table as data: it fits what records write into it, and what DynamoDB takes."""

from builders import a_provision, an_instance
from bullpen.engines.aws.dynamodb.entries import derived
from bullpen.engines.aws.dynamodb.items import SHAPES
from bullpen.engines.aws.dynamodb.schema import INSTANCE_ATTRIBUTES, TTL_ATTRIBUTE, indexes, table_definition
from bullpen.model.instance import Instance


def test_an_offer_is_read_whole_from_its_index() -> None:
    """A new field of an instance must be projected too, which makes another schema: an index cannot be changed."""
    written = [field.attribute for field in SHAPES[Instance].fields.values()]
    assert sorted(INSTANCE_ATTRIBUTES) == sorted(written)


def test_every_attribute_that_puts_a_record_into_an_index_is_a_key_of_one() -> None:
    keys = {key["AttributeName"] for index in indexes() for key in index["KeySchema"]} - {"SK"}
    written = {*derived(an_instance()), *derived(a_provision())}
    assert {name for name in written if name.endswith(("Key", "Sort"))} == keys
    assert TTL_ATTRIBUTE in written


def test_dynamodb_takes_so_many_indexes_and_attributes() -> None:
    definition = table_definition("pool")
    included = [index["Projection"].get("NonKeyAttributes", []) for index in definition["GlobalSecondaryIndexes"]]
    assert len(included) <= 20
    assert all(len(names) <= 20 for names in included)
    assert sum(map(len, included)) <= 100
    used = {key["AttributeName"] for one in (definition, *indexes()) for key in one["KeySchema"]}
    assert {one["AttributeName"] for one in definition["AttributeDefinitions"]} == used
