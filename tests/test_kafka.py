"""A stream of Kafka messages is decided as in Python, each row once, on the mock cluster of librdkafka."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.version import Version

from obil import InvalidStateError, OnlineClassifier, RatioClassifier
from obil.trackers import BayesBank

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from obil.kafka import KafkaStream


def test_it_is_a_version_with_a_mock_cluster() -> None:
    assert Version(version("confluent-kafka")) >= Version("2.6")


class Cluster:
    """Brokers inside a producer of librdkafka: the protocol is real, the log is in memory."""

    def __init__(self) -> None:
        self.producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "unused", "log_level": 2})
        [broker] = self.producer.list_topics(timeout=10).brokers.values()
        self.config = {"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 2}

    def write(self, messages: list[Any], *, topic: str = "rows", partition: int = 0) -> None:
        for message in messages:
            value = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.producer.produce(topic, value, partition=partition)
        assert self.producer.flush(10) == 0

    def read(self, topic: str = "decisions") -> list[dict[str, Any]]:
        consumer = Consumer({**self.config, "group.id": "reader", "enable.partition.eof": True})
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        found, ended = [], 0
        while ended < len(partitions):
            message = consumer.poll(10)
            assert message is not None
            if message.error() is not None:
                ended += 1
            else:
                found.append((message.timestamp(), json.loads(message.value())))
        consumer.close()
        return [one for _, one in found]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture(scope="module")
def model() -> RatioClassifier:
    rng = np.random.default_rng(0)
    labels = rng.random(1_000) < 0.2
    return RatioClassifier.from_scores(rng.normal(2.0 * labels), labels.astype(int), random_state=0)


def stream_of(model: RatioClassifier) -> OnlineClassifier:
    return OnlineClassifier(model, tracker=BayesBank())


def rows_of(n_rows: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    scores = rng.normal(2.0 * (rng.random(n_rows) < 0.5))
    return [{"row": [score], "id": f"order {i}"} for i, score in enumerate(scores.tolist())]


def drained(stream: KafkaStream, n_messages: int) -> None:
    while n_messages > 0:
        n_messages -= stream.step()
    assert n_messages == 0


def opened(model: RatioClassifier, cluster: Cluster, path: Path, **settings: Any) -> KafkaStream:
    settings = {"topics": "rows", "decisions": "decisions", "batch": 40, "wait": 0.5} | settings
    return KafkaStream(stream_of(model), path, config=cluster.config, **settings)


def test_rows_and_labels_are_those_of_python(model: RatioClassifier, cluster: Cluster, tmp_path: Path) -> None:
    rows, own = rows_of(100), stream_of(model)
    labels = [{"id": "order 3", "label": 1}, {"id": "order 4", "label": 0, "propensity": 0.5}]
    cluster.write([*rows[:50], *labels, *rows[50:]])
    with opened(model, cluster, tmp_path / "state") as stream:
        drained(stream, 102)
        assert stream.online.label_counts.labelled == 2
    wanted = [own.decide(one["row"], id=one["id"]) for one in rows[:50]]
    for label in labels:
        own.feedback(label["id"], label["label"], propensity=label.get("propensity", 1.0))
    wanted += [own.decide(one["row"], id=one["id"]) for one in rows[50:]]
    found = {one["id"]: one for one in cluster.read()}
    assert len(found) == 100
    for one in wanted:
        assert found[one.id]["label"] == one.label
        assert found[one.id]["effective_prior"]["1"] == one.effective_prior[1]
        assert found[one.id]["posterior"]["1"] == one.posterior[1]
        assert found[one.id]["threshold"] == one.threshold
    assert stream.online.state() == own.state()


@pytest.mark.parametrize("when", ["before the file", "before producing", "in between"])
def test_a_crash_loses_no_row_and_decides_none_twice(
    when: str, model: RatioClassifier, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, own = rows_of(120), stream_of(model)
    cluster.write(rows)
    stream = opened(model, cluster, tmp_path / "state", wait=30.0)  # whole batches, on a busy machine too
    assert stream.step() == 40

    def crash(*_: Any) -> None:
        raise RuntimeError("the power failed")

    def half() -> None:
        unsent = stream._unsent
        stream._unsent = unsent[: len(unsent) // 2]
        KafkaStream._send(stream)
        crash()

    monkeypatch.setattr(
        stream, "_save" if when == "before the file" else "_send", half if when == "in between" else crash
    )
    with pytest.raises(RuntimeError), stream:
        stream.step()
    with opened(model, cluster, tmp_path / "state") as again:
        drained(again, 80 if when == "before the file" else 40)
    wanted = {one["id"]: own.decide(one["row"], id=one["id"]) for one in rows}
    assert again.online.state() == own.state()
    found = cluster.read()
    assert {one["id"] for one in found} == set(wanted)
    assert all(one["effective_prior"]["1"] == wanted[one["id"]].effective_prior[1] for one in found)
    # the last batch of the file is produced again
    assert len(found) == {"before the file": 160, "before producing": 120, "in between": 140}[when]


def test_a_stream_that_was_closed_produces_nothing_again(
    model: RatioClassifier, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.write(rows_of(40))
    with opened(model, cluster, tmp_path / "state") as stream:
        drained(stream, 40)
    with opened(model, cluster, tmp_path / "state") as again:
        assert again.step() == 0
        assert again.online.n_rows == 40
    assert len(cluster.read()) == 40


def test_a_message_that_cannot_be_used_is_answered_and_stops_nothing(
    model: RatioClassifier, cluster: Cluster, tmp_path: Path
) -> None:
    bad = [b"\xff", b"", b"[1]", {"row": [1.0], "label": 1}, {"row": ["x"], "id": "a"}, {"row": {"size": 1}}]
    bad += [{"id": "b", "label": "no such class"}, {"row": [float("nan")]}, b"[" * 100_000, {"row": [1.0], "id": []}]
    cluster.write([*bad, {"row": [1.0]}])
    with opened(model, cluster, tmp_path / "state") as stream:
        drained(stream, len(bad) + 1)
        assert stream.online.n_rows == 1
    found = cluster.read()
    assert len(found) == len(bad) + 1
    decided = [one for one in found if "error" not in one]
    assert [one["id"] for one in decided] == [f"rows/0/{len(bad)}"]
    assert {one["message"] for one in found if "error" in one} == {f"rows/0/{i}" for i in range(len(bad))}


def test_all_partitions_of_all_topics_are_read(model: RatioClassifier, cluster: Cluster, tmp_path: Path) -> None:
    rows = rows_of(60)
    for number in range(3):
        cluster.write(rows[20 * number : 20 * (number + 1)], topic="even" if number % 2 else "rows", partition=number)
    with opened(model, cluster, tmp_path / "state", topics=["rows", "even"]) as stream:
        drained(stream, 60)
    assert {one["id"] for one in cluster.read()} == {one["id"] for one in rows}


def test_offsets_that_the_brokers_no_longer_have_are_an_error(
    model: RatioClassifier, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.write(rows_of(40))
    with opened(model, cluster, tmp_path / "state") as stream:
        drained(stream, 40)
    other = Cluster()  # as one that was restored from an old copy
    other.write(rows_of(5))
    with pytest.raises(KafkaException, match=r"(?i)offset"):
        drained(opened(model, other, tmp_path / "state"), 1)


def test_a_damaged_state_is_refused(model: RatioClassifier, cluster: Cluster, tmp_path: Path) -> None:
    cluster.write(rows_of(40))
    with opened(model, cluster, tmp_path / "state") as stream:
        drained(stream, 40)
    whole = (tmp_path / "state").read_bytes()
    for damaged in (b"", b"x" + whole, whole[:-1], whole.replace(b'"rows/0": 40', b'"rows/0": 39')):
        (tmp_path / "state").write_bytes(damaged)
        with pytest.raises(InvalidStateError):
            opened(model, cluster, tmp_path / "state")


def test_run_returns_when_it_is_stopped(model: RatioClassifier, cluster: Cluster, tmp_path: Path) -> None:
    cluster.write(rows_of(40))
    with opened(model, cluster, tmp_path / "state") as stream:
        step = stream.step
        stream.step = lambda: (step(), stream.online.n_rows == 40 and stream.stop())[0]
        stream.run()
        assert stream.online.n_rows == 40
