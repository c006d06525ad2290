"""Keep the stream of one key as bytes: its state, the decisions that wait for labels, and the model."""

from collections.abc import Mapping, Sequence
from typing import Any

from obil.errors import InvalidStateError
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.packed_state import pack_state, unpack_state
from obil.serving.ratio_model import RatioModel
from obil.spark.shipped_model import ShippedModel

LABELS = "labels"  # the part of a state that grows with the decisions that wait for labels
FINGERPRINT = 16  # characters of a model's fingerprint that a key keeps


def packed(online: OnlineClassifier) -> tuple[bytes, bytes]:
    """Return a stream's state, and its decisions that wait for labels, as bytes."""
    state = online.state()
    pending = pack_state(state[LABELS])
    return pack_state({name: part for name, part in state.items() if name != LABELS}), pending


class KeyRestorer:
    """Restore the stream of a key, with the settings and the model of the running query.

    Parameters
    ----------
    shipped
        The model of the running query.
    replaced
        Models of earlier runs of the query, which idle keys may still refer to.
    fresh
        The stream of a new key, as `packed` returns it.
    """

    def __init__(self, shipped: ShippedModel, replaced: Sequence[ShippedModel], fresh: tuple[bytes, bytes]) -> None:
        self.model = shipped.load()
        self.name = shipped.fingerprint[:FINGERPRINT]
        self._replaced = {old.fingerprint[:FINGERPRINT]: old for old in replaced}
        self._fresh = fresh
        self._policy = unpack_state(fresh[0])["policy"]

    def fresh(self) -> OnlineClassifier:
        """Return the stream of a new key."""
        return self._opened(self.model, *self._fresh)

    def restored(self, name: str, stream: bytes, pending: bytes) -> OnlineClassifier:
        """Return the stream of a key, saved under the named model."""
        if name == self.name:
            return self._opened(self.model, stream, pending)
        if name not in self._replaced:
            raise InvalidStateError(
                f"the state of this key belongs to model {name}, the query runs {self.name}: name the replaced model "
                "in replaces=[...]"
            )
        online = self._opened(self._replaced[name].load(), stream, pending)
        online.model = self.model
        return online

    def _opened(self, model: RatioModel, stream: bytes, pending: bytes) -> OnlineClassifier:
        state: Mapping[str, Any] = unpack_state(stream)
        # the policy belongs to the query, not to the key: costs may change between two runs
        return OnlineClassifier.from_state(model, {**state, LABELS: unpack_state(pending), "policy": self._policy})
