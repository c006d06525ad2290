"""Continue where a saved stream stopped, if it was made with the same settings: only what it learned is taken over."""

from typing import Any

from obil.errors import InvalidStateError
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.stream_state import read_settings, read_state
from obil.serving.ratio_model import RatioModel


def resumed(fresh: OnlineClassifier, state: bytes, *, name: str, change_policy: bool) -> OnlineClassifier:
    """Return a classifier with the settings of `fresh` that continues where `state` stopped.

    The horizon may differ, and the policy too where it is to be changed; everything else has to be what `fresh` was
    made with, so that a hostile file has nothing to choose.
    """
    ours = settings_in(fresh.model, fresh.state())
    try:
        theirs = settings_in(fresh.model, state)
    except InvalidStateError as error:
        raise InvalidStateError(f"{name} is damaged: {error}") from None
    if theirs["policy"] != ours["policy"] and not change_policy:
        raise InvalidStateError(
            f"{name} was made with other costs or another policy: give the same, or --change-policy"
        )
    if theirs["positive"] != ours["positive"]:
        names = dict(enumerate(fresh.classes_.tolist()))
        ends = [names.get(one["positive"]) for one in (theirs, ours)]
        raise InvalidStateError(f"{name} belongs to another positive class: {ends[0]!r:.60}, not {ends[1]!r:.60}")
    if theirs["tracker"][0] != ours["tracker"][0]:
        raise InvalidStateError(f"{name} belongs to a stream with another tracker: {theirs['tracker'][0]!r:.40}")
    starts = [one["tracker"][1].get("prior") for one in (theirs, ours)]
    if starts[0] != starts[1]:
        raise InvalidStateError(
            f"{name} belongs to a stream with another start prior: {starts[0]!r:.80}, not {starts[1]!r:.80}"
        )
    for part in ("tracker", "monitor", "unlabeled_as"):
        if theirs[part] != ours[part]:
            raise InvalidStateError(
                f"{name} belongs to a stream with another {part}: {theirs[part]!r:.80}, not {ours[part]!r:.80}"
            )
    try:
        return OnlineClassifier.from_state(fresh.model, state, policy=fresh.policy, horizon=fresh.horizon)
    except InvalidStateError as error:
        raise InvalidStateError(f"{name} is damaged: {error}") from None


def settings_in(model: RatioModel, state: bytes) -> dict[str, Any]:
    """Return what the stream that left a state was made with."""
    return read_settings(read_state(model, state).settings)
