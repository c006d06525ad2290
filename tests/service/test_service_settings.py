import pytest
from pydantic import ValidationError

from obil.errors import InvalidInputError
from obil.service.service_settings import ServiceSettings


def test_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OBIL_SERVICE_PORT", "9000")
    monkeypatch.setenv("OBIL_SERVICE_ALLOWED_HOSTS", '["Obil.Example"]')

    settings = ServiceSettings()

    assert settings.port == 9_000
    assert "obil.example" in settings.host_names


@pytest.mark.parametrize(
    ("host", "needed"),
    [
        ("127.0.0.1", False),
        ("localhost", False),
        ("::1", False),
        ("0.0.0.0", True),
        ("10.0.0.7", True),
        ("obil.example", True),
    ],
)
def test_needs_keys_beyond_loopback(host: str, needed: bool) -> None:
    assert ServiceSettings(host=host).needs_keys == needed
    assert ServiceSettings(host=host, require_keys=True).needs_keys


@pytest.mark.parametrize(
    "wrong", [{"port": 70_000}, {"max_rows": 0}, {"retain_days": 0}, {"log_level": "loud"}, {"prot": 1}]
)
def test_refuses_a_setting_that_cannot_be(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ServiceSettings(**wrong)


def test_refuses_a_variable_that_is_no_setting_and_names_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OBIL_SERVICE_REQUIRE_KEY", "true")
    with pytest.raises(InvalidInputError, match=r"'OBIL_SERVICE_REQUIRE_KEY'.* did you mean OBIL_SERVICE_REQUIRE_KEYS"):
        ServiceSettings()


def test_keys_are_sent_in_clear_beyond_loopback() -> None:
    assert not ServiceSettings(require_keys=True).keys_in_clear
    assert ServiceSettings(host="0.0.0.0").keys_in_clear


def test_the_address_of_every_network_is_no_name_of_the_service() -> None:
    assert ServiceSettings(host="0.0.0.0").host_names == {"127.0.0.1", "localhost", "::1"}
