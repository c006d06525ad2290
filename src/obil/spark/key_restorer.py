"""Restore the stream of a key, with the settings and the model of the running query."""

from collections.abc import Sequence

from obil.errors import InvalidStateError
from obil.online.online_classifier import OnlineClassifier
from obil.serving.ratio_model import RatioModel
from obil.spark.shipped_model import ShippedModel

FINGERPRINT = 16  # characters of a model's fingerprint that a key keeps


class KeyRestorer:
    """Make the stream of a new key, or continue that of a known one.

    Idle keys may still refer to a replaced model, of an earlier run; `fresh` is the state of a new key's stream.
    """

    def __init__(self, shipped: ShippedModel, replaced: Sequence[ShippedModel], fresh: bytes) -> None:
        self.model = shipped.load()
        self.name = shipped.fingerprint[:FINGERPRINT]
        self._replaced = {old.fingerprint[:FINGERPRINT]: old for old in replaced}
        self._fresh = fresh
        self._policy = self.fresh().policy

    def fresh(self) -> OnlineClassifier:
        """Return the stream of a new key."""
        return OnlineClassifier.from_state(self.model, self._fresh)

    def restored(self, name: str, stream: bytes) -> OnlineClassifier:
        """Return the stream of a key, saved under the named model."""
        if name == self.name:
            return self._opened(self.model, stream)
        if name not in self._replaced:
            raise InvalidStateError(
                f"the state of this key belongs to model {name}, the query runs {self.name}: name the replaced model "
                "in replaces=[...]"
            )
        online = self._opened(self._replaced[name].load(), stream)
        online.model = self.model
        return online

    def _opened(self, model: RatioModel, stream: bytes) -> OnlineClassifier:
        # the policy belongs to the query, not to the key: costs may change between two runs
        return OnlineClassifier.from_state(model, stream, policy=self._policy)
