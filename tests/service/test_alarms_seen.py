"""An alarm is in /metrics whichever stream has it, also after a restart, and the alert rules fire."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from obil.service.http.app import create_app
from obil.service.service_settings import ServiceSettings
from obil.service.storage.store import open_store
from obil.service.streams.model_registry import ModelRegistry
from obil.service.streams.stream_hub import StreamHub
from tests.service.conftest import Client
from tests.service.models import gaussian_rows, saved_model

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "obil_alerts.yml"
N_STREAMS, N_ALARMED = 300, 30
NAMES = [f"stream-{number:03}" for number in range(N_STREAMS)]
ALARMED = set(NAMES[9 :: N_STREAMS // N_ALARMED])
TARGET = 'instance="127.0.0.1:8642",job="obil"'
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (of Prometheus) is not installed"
)


@pytest.fixture(scope="module")
def scrapes(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return /metrics of 300 streams, 30 of them alarmed, before a restart and twice after it."""
    place = tmp_path_factory.mktemp("alarms")
    folder = saved_model(place / "model")
    usual, odd = gaussian_rows(100, 0.1, 1)[0], np.tile([1.2, 0.3, 0.2], (100, 1))  # between the classes, all of them

    found = []
    for start in range(2):
        store = open_store(str(place / "streams.db"))
        hub = StreamHub(store, ModelRegistry(folder, store), max_streams=100)
        client = Client(create_app(hub, ServiceSettings(), store))
        for name in NAMES if not start else ():
            rows = odd if name in ALARMED else usual
            assert client.post(f"/v1/streams/{name}/decisions", json={"rows": rows.tolist()}).status_code == 200
        found += [client.get("/metrics").text for _ in range(1 + start)]
        hub.close()
    return found


def values(text: str, name: str) -> dict[str, float]:
    """Return the values of a metric by its labels."""
    return {labels: float(value) for labels, value in re.findall(rf"^{name}\{{(.*?)\}} (\S+)$", text, re.MULTILINE)}


def test_every_alarm_is_exported_before_and_after_a_restart(scrapes: list[str]) -> None:
    for text in scrapes:
        trusted = values(text, "obil_trusted")
        assert {f'stream="{name}"' for name in ALARMED} == {labels for labels, value in trusted.items() if not value}
        assert values(text, "obil_streams") == {'state="trusted"': N_STREAMS - N_ALARMED, 'state="alarmed"': N_ALARMED}
        assert values(text, "obil_log_evidence").keys() == trusted.keys()


def test_the_others_are_named_up_to_the_limit_and_counted_from_0_after_a_restart(scrapes: list[str]) -> None:
    for text in scrapes:
        named = values(text, "obil_decisions_total").keys() - {'stream="_other"'}
        assert len(named) == ServiceSettings().metric_streams
        assert len(values(text, "obil_trusted")) == len(named | {f'stream="{name}"' for name in ALARMED})
    before, after = (sum(values(text, "obil_decisions_total").values()) for text in scrapes[:2])
    assert (before, after) == (100.0 * N_STREAMS, 0.0)


def test_the_process_and_its_transactions_are_exported(scrapes: list[str]) -> None:
    assert float(re.findall(r"^process_resident_memory_bytes (\S+)$", scrapes[0], re.MULTILINE)[0]) > 1e7
    assert float(re.findall(r"^obil_commit_seconds_count (\S+)$", scrapes[0], re.MULTILINE)[0]) >= 2.0
    assert float(re.findall(r"^obil_queue_requests (\S+)$", scrapes[0], re.MULTILINE)[0]) == 0.0
    assert 'obil_build_info{python="' in scrapes[0]
    assert values(scrapes[0], "obil_refusals_total")['code="not_stored"'] == 0.0


@needs_promtool
def test_an_alert_fires_for_each_alarmed_stream(scrapes: list[str], tmp_path: Path) -> None:
    series = {
        f"{name}{{{labels},{TARGET}}}": f"{value}x60"
        for name in ("obil_trusted", "obil_streams", "obil_log_evidence", "obil_log_alarm")
        for labels, value in values(scrapes[1], name).items()
    }
    expected = {
        "ObilStreamNotTrusted": [{"stream": name, "job": "obil"} for name in sorted(ALARMED)],
        "ObilManyStreamsNotTrusted": [],
    }
    run_promtool(tmp_path, series, "30m", expected)


# the series that make each rule fire, with what the alert is labelled by; each value is a minute after the last
FIRING: dict[str, tuple[dict[str, str], str, Mapping[str, str]]] = {
    "ObilDown": ({"up{%s}": "0x10"}, "5m", {"job": "obil"}),
    "ObilNotStoring": ({'obil_refusals_total{code="not_stored",%s}': "0+1x20"}, "15m", {}),
    "ObilFailing": ({'obil_request_seconds_count{status="500",%s}': "0+1x20"}, "15m", {}),
    "ObilSlow": (
        {
            'obil_request_seconds_bucket{route="/v1/streams/{stream}/decisions",le="0.25",%s}': "0+1x40",
            'obil_request_seconds_bucket{route="/v1/streams/{stream}/decisions",le="1.0",%s}': "0+9x40",
            'obil_request_seconds_bucket{route="/v1/streams/{stream}/decisions",le="+Inf",%s}': "0+9x40",
        },
        "30m",
        {},
    ),
    "ObilSlowStore": (
        {
            'obil_commit_seconds_bucket{le="0.1",%s}': "0+1x40",
            'obil_commit_seconds_bucket{le="0.5",%s}': "0+9x40",
            'obil_commit_seconds_bucket{le="+Inf",%s}': "0+9x40",
        },
        "30m",
        {},
    ),
    "ObilQueueGrowing": ({"obil_queue_requests{%s}": "250x20"}, "15m", {"job": "obil"}),
    "ObilTurningAway": ({'obil_refusals_total{code="busy",%s}': "0+120x20"}, "15m", {"code": "busy"}),
    "ObilFewFilesLeft": (
        {"process_open_fds{%s}": "900x20", "process_max_fds{%s}": "1024x20"}, "15m", {"job": "obil"},
    ),
    "ObilRefusingManyRequests": (
        {
            'obil_request_seconds_count{route="/v1/streams/{stream}/decisions",status="200",%s}': "0+10x60",
            'obil_request_seconds_count{route="/v1/streams/{stream}/decisions",status="422",%s}': "0+1x60",
        },
        "45m",
        {},
    ),
    "ObilRefusingKeys": ({'obil_request_seconds_count{status="401",%s}': "0+120x40"}, "30m", {}),
    "ObilStreamNotTrusted": ({'obil_trusted{stream="s",%s}': "0x10"}, "5m", {"stream": "s", "job": "obil"}),
    "ObilManyStreamsNotTrusted": (
        {'obil_streams{state="alarmed",%s}': "30x40", 'obil_streams{state="trusted",%s}': "100x40"},
        "30m",
        {},
    ),
    "ObilEvidenceGrowing": (
        {
            'obil_log_evidence{stream="s",%s}': "4x60", 'obil_log_alarm{stream="s",%s}': "5.3x60",
            'obil_trusted{stream="s",%s}': "1x60",
        },
        "45m",
        {"stream": "s", "job": "obil"},
    ),
    "ObilPriorFarFromTraining": (
        {
            'obil_prior{stream="s",class="1",%s}': "0.4x90", 'obil_training_prior{stream="s",class="1",%s}': "0.01x90",
            'obil_trusted{stream="s",%s}': "1x90",
        },
        "80m",
        {"stream": "s", "class": "1", "job": "obil"},
    ),
    "ObilAlertRateJumped": (
        {'obil_decisions_total{stream="s",%s}': "0+10x1600", 'obil_alerts_total{stream="s",%s}': "0+1x1500 1505+5x100"},
        "1590m",
        {"stream": "s", "job": "obil"},
    ),
    "ObilStreamSilent": (
        {'obil_decisions_total{stream="s",%s}': "0+10x500 5000x200"}, "600m", {"stream": "s", "job": "obil"},
    ),
    "ObilLabelsStopped": (
        {'obil_labels_total{stream="s",%s}': "0+1x1000 1000x2000", 'obil_decisions_total{stream="s",%s}': "0+10x3000"},
        "2600m",
        {"stream": "s", "job": "obil"},
    ),
    "ObilMetricsCapped": (
        {'obil_decisions_total{stream="_other",%s}': "0+1x90"}, "80m", {"stream": "_other", "job": "obil"},
    ),
}  # fmt: skip


@needs_promtool
@pytest.mark.parametrize("alert", FIRING)
def test_each_rule_fires_where_it_should_and_not_before(alert: str, tmp_path: Path) -> None:
    series, at, labels = FIRING[alert]
    labelled = {name.replace("%s", TARGET): steps for name, steps in series.items()}
    run_promtool(tmp_path, labelled, at, {alert: [labels]})
    quiet = {name: re.sub(r"[+x ].*", "x3000", steps) for name, steps in labelled.items()}  # as it was at the start
    if alert not in {"ObilDown", "ObilQueueGrowing", "ObilFewFilesLeft", "ObilStreamNotTrusted"} and "+" in str(series):
        run_promtool(tmp_path, quiet, at, {alert: []})


@needs_promtool
def test_a_stream_that_moves_to_another_worker_is_not_silent_and_raises_one_alarm(tmp_path: Path) -> None:
    other = TARGET.replace("8642", "8643")
    series = {
        f'obil_decisions_total{{stream="s",{TARGET}}}': "0+10x500 5000x200",
        f'obil_decisions_total{{stream="s",{other}}}': "0x500 0+10x200",
        f'obil_trusted{{stream="s",{TARGET}}}': "0x700",
        f'obil_trusted{{stream="s",{other}}}': "0x700",
    }
    expected = {"ObilStreamSilent": [], "ObilStreamNotTrusted": [{"stream": "s", "job": "obil"}]}
    run_promtool(tmp_path, series, "600m", expected)


def test_every_rule_is_tried() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    assert {rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]} == set(
        FIRING
    )


def run_promtool(
    folder: Path, series: Mapping[str, str], at: str, expected: Mapping[str, Sequence[Mapping[str, str]]]
) -> None:
    """Have promtool compare the alerts that fire after some time with those that are expected."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    rules = {rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}

    def alert(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
        of_a_stream = labels.get("stream", "_other") != "_other"  # those take all workers together
        all_labels = dict(labels) if of_a_stream else {"instance": "127.0.0.1:8642", **labels}
        annotations = {
            key: re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda one: all_labels[one[1]], text)
            for key, text in rules[name]["annotations"].items()
        }
        return {"exp_labels": {**all_labels, **rules[name]["labels"]}, "exp_annotations": annotations}

    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": steps} for name, steps in series.items()],
        "alert_rule_test": [
            {"eval_time": at, "alertname": name, "exp_alerts": [alert(name, one) for one in labels]}
            for name, labels in expected.items()
        ],
    }
    every = "1m" if int(at.removesuffix("m")) < 300 else "15m"  # a day of minutes takes promtool long
    file = folder / "test.yml"  # JSON is YAML
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": every, "tests": [test]}))
    ran = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
