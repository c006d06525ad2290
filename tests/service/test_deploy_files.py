"""The files in deploy/ name metrics, settings and routes that exist."""

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from obil.service.service_settings import ServiceSettings
from tests.service.conftest import ROW, Served

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture(scope="module")
def rules() -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    groups = yaml.safe_load((DEPLOY / "prometheus" / "obil_alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def exported(served: Served) -> dict[str, set[str]]:
    """Return the labels of every sample that /metrics gives."""
    served.client.post("/v1/streams/shop/labels", json={"id": "first", "label": 1})
    served.client.get("/v1/streams/none")
    found: dict[str, set[str]] = {"up": {"job", "instance"}}
    for line in served.client.get("/metrics").text.splitlines():
        if not line.startswith("#"):
            name, _, labels = line.partition("{")
            found[name.split(" ")[0]] = set(re.findall(r'(\w+)="', labels)) | {"job", "instance"}
    return found


def test_every_metric_and_label_in_an_alert_is_exported(rules: list[dict[str, Any]], served: Served) -> None:
    metrics = exported(served)
    assert len(rules) >= 10
    for rule in rules:
        expression = rule["expr"]
        selectors = re.findall(
            r"\b(obil_\w+|process_\w+|up)\b(?:\{(.*?)\})?(?=[\s)\[]|$)", re.sub(r"\{stream\}", "STREAM", expression)
        )
        assert selectors, rule["alert"]
        for name, chosen in selectors:
            assert name in metrics, f"{rule['alert']}: {name}"
            for label in re.findall(r"(\w+)=~?\"", chosen):
                assert label in metrics[name], f"{rule['alert']}: {label}"
        for label in re.findall(r"\$labels\.(\w+)", str(rule["annotations"])):
            assert any(label in metrics[name] for name, _ in selectors), f"{rule['alert']}: {label}"


def test_every_metric_is_named_on_the_page(served: Served) -> None:
    page = (DEPLOY.parent / "docs" / "service.md").read_text()
    named = set(re.findall(r"`(obil_\w+)`", page))
    families = set(re.findall(r"^# TYPE (obil_\w+)", served.client.get("/metrics").text, flags=re.MULTILINE))
    families = {name for name in families if not name.endswith("_created")}
    assert families | {"obil_connections"} == named  # counted by the server, which the tests do without


def test_every_metric_on_the_dashboard_is_exported(served: Served) -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "obil.json").read_text())
    metrics = exported(served).keys() | {"obil_connections"}
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in panels}) == len(panels) >= 10
    for panel in panels:
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            names = re.findall(r"\b(?:obil|process)_\w+", target["expr"])
            assert names, panel["title"]
            assert set(names) <= metrics, panel["title"]
            assert target["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "${source}"}
    assert {one["name"] for one in dashboard["templating"]["list"]} == {"source", "instance", "stream"}


def test_every_alert_has_a_name_a_severity_and_a_sentence(rules: list[dict[str, Any]]) -> None:
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in {"page", "warn", "info"}
        assert rule["annotations"]["summary"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (of Prometheus) is not installed")
def test_prometheus_reads_the_alerts() -> None:
    rules = DEPLOY / "prometheus" / "obil_alerts.yml"
    ran = subprocess.run(["promtool", "check", "rules", str(rules)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_the_routes_and_statuses_in_alerts_are_real(rules: list[dict[str, Any]], served: Served) -> None:
    paths = served.client.get("/openapi.json").json()["paths"]
    text = " ".join(rule["expr"] for rule in rules)
    for route in re.findall(r'route="([^"]+)"', text):
        assert route in paths
    served.client.post("/v1/streams/shop/decisions", json={"row": ROW | {"amount": "ten"}})
    assert 'route="/v1/streams/{stream}/decisions",status="422"' in served.client.get("/metrics").text


@pytest.mark.parametrize("file", ["Containerfile", "systemd/obil.service"])
def test_settings_in_the_environment_are_settings_of_the_service(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = re.findall(r"^[^#\n]*?(OBIL_SERVICE_[A-Z_]+)=(\S+)", (DEPLOY / file).read_text(), flags=re.MULTILINE)
    assert len(found) >= 3
    for name, value in found:
        assert name.removeprefix("OBIL_SERVICE_").lower() in ServiceSettings.model_fields
        monkeypatch.setenv(name, value)
    settings = ServiceSettings()
    assert settings.needs_keys
    assert settings.store.startswith("sqlite:////")


def test_the_unit_says_how_to_start_reload_and_stop() -> None:
    unit = configparser.RawConfigParser(strict=False, comment_prefixes="#")
    unit.optionxform = str
    unit.read(DEPLOY / "systemd" / "obil.service")
    assert unit["Service"]["ExecStart"].split()[:2] == ["/opt/obil/.venv/bin/obil", "serve"]
    assert "HUP" in unit["Service"]["ExecReload"]
    assert unit["Service"]["DynamicUser"] == "yes"


def test_the_container_does_not_run_as_root() -> None:
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("USER ")][-1] == "USER 10001:10001"
    for line in lines:
        for name in re.findall(r"^COPY (?!--from)(.+) \S+$", line):
            assert all((DEPLOY.parent / part).exists() for part in name.split()), line


def test_proxies_pass_events_on_at_once_and_take_bodies_as_large_as_the_service() -> None:
    nginx = (DEPLOY / "nginx" / "obil.conf").read_text()
    (pattern,) = re.findall(r"location ~ (\S+) \{[^}]*proxy_buffering off", nginx)
    assert all(re.search(pattern, path) for path in ("/v1/events", "/v1/streams/shop-7/events"))
    assert not re.search(pattern, "/v1/streams/events")
    assert re.search(r"proxy_set_header Host \$http_host;", nginx)
    megabytes = int(re.findall(r"client_max_body_size (\d+)m;", nginx)[0])
    assert megabytes * 2**20 >= ServiceSettings().max_body_bytes
    caddy = (DEPLOY / "caddy" / "Caddyfile").read_text()
    assert "flush_interval -1" in caddy
    assert int(re.findall(r"max_size (\d+)MB", caddy)[0]) * 10**6 >= ServiceSettings().max_body_bytes
