"""Decide the rows of Kafka topics, with the offsets in the state: a row is decided once, whatever crashes.

The public interface is `KafkaStream`. Messages are lines of JSON as the service takes them: `{"row": ..., "id": ...}`
is decided, `{"id": ..., "label": ...}` is a label.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from obil.errors import InvalidInputError, InvalidStateError
from obil.online.decision import Decision
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.checkpoint import sync_folder

__all__ = ["KafkaStream"]

MAGIC = b"obil kafka 1\n"  # then the checksum of what follows: a line of JSON, and the state of the stream


class KafkaStream:
    """Consume rows and labels, decide, and produce the decisions.

    After each batch one file is replaced that holds the state, the next offsets and the decisions of the batch; only
    then are these produced. A restart continues at those offsets, and produces the last batch again where it did not
    end by `close`: each row is decided once, and a decision may be read twice, with the same id and the same bytes.

    Parameters
    ----------
    online
        The stream as it starts. Where `state` exists, its model continues from there.
    state
        The file to keep. One process writes it.
    config
        Of librdkafka, for consumer and producer: `{"bootstrap.servers": "..."}`, security.
    topics
        One topic or several with rows and labels. All partitions are read, from their beginning at first; a label that
        comes before its row is not known, so that both belong in one partition.
    decisions
        The topic to write to, one message for each row; for a message that cannot be used, one with its "error".
    batch, wait
        A batch ends at so many messages, or after so many seconds.

    >>> with KafkaStream(online, "fraud.state", config={"bootstrap.servers": "broker:9092"},
    ...                  topics="payments", decisions="decisions") as stream:  # doctest: +SKIP
    ...     stream.run()
    """

    def __init__(
        self,
        online: OnlineClassifier,
        state: str | os.PathLike[str],
        *,
        config: Mapping[str, Any],
        topics: str | Sequence[str],
        decisions: str,
        batch: int = 500,
        wait: float = 1.0,
    ) -> None:
        self.online, self._path = online, Path(state)
        self._decisions, self._batch, self._wait = decisions, batch, wait
        self._offsets: dict[str, int] = {}  # "topic/partition" -> the next one
        self._unsent: list[str] = []
        self._stopped = False
        if self._path.exists():
            self._restore()
        # offsets are in the state: what the brokers have stored of this group is not read, and a lost one is an error
        reading = {"group.id": "obil", "enable.auto.commit": False, "auto.offset.reset": "error"}
        self._consumer = Consumer({**reading, **config})
        self._producer = Producer({"enable.idempotence": True, **config})
        self._send()
        self._consumer.assign(self._partitions([topics] if isinstance(topics, str) else list(topics)))

    def step(self) -> int:
        """Decide one batch, and return of how many messages it was."""
        messages = self._consumer.consume(self._batch, self._wait)
        for message in messages:
            if message.error() is not None:
                continue
            place = f"{message.topic()}/{message.partition()}"
            line = self._answer(message.value(), f"{place}/{message.offset()}")
            self._unsent += [] if line is None else [json.dumps(line)]
            self._offsets[place] = message.offset() + 1
        if messages:
            self._save()
            self._send()
        for message in messages:  # what came with an error is decided first: it will not come again
            if message.error() is not None:
                raise KafkaException(message.error())
        return len(messages)

    def run(self) -> None:
        """Decide batch after batch, until `stop` is called, by a signal handler or another thread."""
        while not self._stopped:
            self.step()

    def stop(self) -> None:
        """Let `run` return after its batch."""
        self._stopped = True

    def close(self) -> None:
        """Leave the brokers; nothing will be produced again."""
        self._consumer.close()
        self._save()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._consumer.close()

    def _answer(self, value: bytes | None, name: str) -> dict[str, Any] | None:
        """Return what is produced for a message: a decision, nothing for a label, or what is wrong with it."""
        given: Any = None
        try:
            given = json.loads(value or b"")
            if not isinstance(given, dict) or ("row" in given) == ("label" in given):
                raise InvalidInputError('a message must be a JSON object with a "row" or a "label"')
            if "row" in given:
                return _as_json(self.online.decide(given["row"], id=given.get("id", name)), self.online)
            self.online.feedback(given.get("id"), given["label"], propensity=given.get("propensity", 1.0))
        except (ValueError, TypeError, RecursionError) as error:  # InvalidInputError is a ValueError
            known = given.get("id") if isinstance(given, dict) else None
            return {"id": known if isinstance(known, str | int) else name, "message": name, "error": f"{error!s:.500}"}
        return None

    def _partitions(self, topics: list[str]) -> list[TopicPartition]:
        found = []
        for topic in topics:
            known = self._consumer.list_topics(topic, timeout=30.0).topics[topic]
            if known.error is not None:
                raise KafkaException(known.error)
            for number in known.partitions:
                offset = self._offsets.get(f"{topic}/{number}", OFFSET_BEGINNING)
                found.append(TopicPartition(topic, number, offset))
        return found

    def _send(self) -> None:
        failed: list[Any] = []
        for line in self._unsent:
            self._producer.produce(
                self._decisions, line.encode(), on_delivery=lambda error, _: failed.append(error) if error else None
            )
            self._producer.poll(0)
        left = self._producer.flush(60.0)
        if failed or left:
            raise KafkaException(failed[0] if failed else f"{left} decisions were not delivered within 60 s")
        self._unsent = []

    def _save(self) -> None:
        """Replace the file: at any moment it is the old one or the new one."""
        head = json.dumps({"offsets": self._offsets, "unsent": self._unsent})
        body = head.encode() + b"\n" + self.online.state()
        aside = self._path.with_name(self._path.name + ".tmp")
        with aside.open("wb") as file:
            file.write(MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self._path)
        sync_folder(self._path.parent)

    def _restore(self) -> None:
        data = self._path.read_bytes()
        if not data.startswith(MAGIC):
            raise InvalidStateError(f"{self._path} is not the state of a Kafka stream, or of another version")
        checksum, _, body = data[len(MAGIC) :].partition(b"\n")
        if checksum != hashlib.sha256(body).hexdigest().encode():
            raise InvalidStateError(f"{self._path} is damaged: its checksum is wrong")
        head, _, online = body.partition(b"\n")
        known = json.loads(head)
        self._offsets, self._unsent = known["offsets"], known["unsent"]
        self.online = OnlineClassifier.from_state(self.online.model, online)


def _as_json(decision: Decision, online: OnlineClassifier) -> dict[str, Any]:
    names = [str(name) for name in online.classes_.tolist()]
    by_class = {"posterior": decision.posterior, "log_ratios": decision.log_ratios}
    by_class |= {"effective_prior": decision.effective_prior}
    return {
        "id": decision.id,
        "label": decision.label,
        **{field: dict(zip(names, values.tolist(), strict=True)) for field, values in by_class.items()},
        "threshold": decision.threshold,
        "trusted": decision.trusted,
        "reachable": decision.reachable,
    }
