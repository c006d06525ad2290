import pytest

from obil.errors import InvalidInputError
from obil.service.storage.api_keys import hash_of, is_right, make_key, split_key
from tests.service.keys_in_memory import KeysInMemory


def test_a_key_is_right_only_with_its_own_secret() -> None:
    key, record = make_key("till", ["decide"], now=0.0)
    other, _ = make_key("till", ["decide"], now=0.0)
    _, secret = split_key(key) or ("", "")
    _, other_secret = split_key(other) or ("", "")

    assert is_right(record, secret)
    assert not is_right(record, other_secret)
    assert not is_right(None, secret)


def test_keeps_nothing_that_gives_the_secret_away() -> None:
    key, record = make_key("till", ["decide"], now=0.0)
    _, secret = split_key(key) or ("", "")

    assert len(secret) * 4 == 256
    assert secret not in repr(record)
    assert record.hash == hash_of(secret)


def test_a_key_is_valid_until_it_expires_or_is_revoked() -> None:
    store = KeysInMemory()
    _, record = make_key("till", ["decide"], now=10.0, expires=20.0)
    store.add_key(record)

    assert record.is_valid(19.9)
    assert not record.is_valid(20.0)
    assert store.revoke_key(record.id, 15.0)
    assert not store.revoke_key(record.id, 16.0)
    found = store.find_key(record.id)
    assert found is not None
    assert not found.is_valid(11.0)
    assert store.list_keys() == [found]


@pytest.mark.parametrize("key", ["", "obil", "obil_a", "other_a_b", "obil_a_" + "b" * 300, "obil_a_\xfc"])
def test_takes_nothing_else_for_a_key(key: str) -> None:
    assert split_key(key) is None


@pytest.mark.parametrize(
    ("name", "scopes"), [("", ["read"]), ("x" * 129, ["read"]), ("a\nb", ["read"]), ("a", []), ("a", ["root"])]
)
def test_refuses_a_key_without_a_proper_name_or_scope(name: str, scopes: list[str]) -> None:
    with pytest.raises(InvalidInputError):
        make_key(name, scopes, now=0.0)
