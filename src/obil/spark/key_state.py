"""Keep the stream of one key as bytes: where it stands, what waits for labels, and whose scores they are."""

from collections.abc import Mapping, Sequence
from typing import Any

from obil.errors import InvalidStateError
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.packed_state import pack_state, unpack_state
from obil.serving.ratio_model import RatioModel
from obil.spark.shipped_model import ShippedModel

LABELS = "labels"  # the part of a state that grows with the decisions that wait
FINGERPRINT = 16  # letters of a model's fingerprint that a key keeps


def packed(online: OnlineClassifier) -> tuple[bytes, bytes]:
    """Return where a stream stands, and its decisions that wait for labels, each in few bytes."""
    state = online.state()
    pending = pack_state(state[LABELS])
    return pack_state({name: part for name, part in state.items() if name != LABELS}), pending


class KeyRestorer:
    """Brings the stream of a key back, with the settings and the model of the query that runs now.

    Parameters
    ----------
    shipped
        The model that scores now.
    replaced
        Models of earlier runs of the query, which keys that were idle since may still stand at.
    fresh
        The stream of a key that was never seen, as `packed` gives it.
    """

    def __init__(self, shipped: ShippedModel, replaced: Sequence[ShippedModel], fresh: tuple[bytes, bytes]) -> None:
        self.model = shipped.load()
        self.name = shipped.fingerprint[:FINGERPRINT]
        self._replaced = {old.fingerprint[:FINGERPRINT]: old for old in replaced}
        self._fresh = fresh
        self._policy = unpack_state(fresh[0])["policy"]

    def fresh(self) -> OnlineClassifier:
        """Return the stream of a key that was never seen."""
        return self._opened(self.model, *self._fresh)

    def restored(self, name: str, stream: bytes, pending: bytes) -> OnlineClassifier:
        """Return the stream of a key, where it stood under the model named."""
        if name == self.name:
            return self._opened(self.model, stream, pending)
        if name not in self._replaced:
            raise InvalidStateError(
                f"this key stands at the model {name}, the query runs {self.name}: name the model that was replaced "
                "by replaces=[...]"
            )
        online = self._opened(self._replaced[name].load(), stream, pending)
        online.model = self.model
        return online

    def _opened(self, model: RatioModel, stream: bytes, pending: bytes) -> OnlineClassifier:
        state: Mapping[str, Any] = unpack_state(stream)
        # the policy is the query's, not the key's: costs may change between two runs
        return OnlineClassifier.from_state(model, {**state, LABELS: unpack_state(pending), "policy": self._policy})
