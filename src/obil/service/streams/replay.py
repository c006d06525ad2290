"""Make a stream's state from its log: what was done once is done again, bit for bit."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from obil.errors import InvalidInputError, InvalidStateError
from obil.online.online_classifier import HORIZON, OnlineClassifier
from obil.policies.notation import policy_from_json
from obil.service.refusals import BadInputError
from obil.service.storage.stored_event import (
    CREATED,
    DECIDED,
    FORGOTTEN,
    LABELLED,
    MODEL,
    RESTARTED,
    SETTINGS,
    StoredEvent,
    read_record,
    read_rows,
)
from obil.service.streams.operations import StreamSettings
from obil.serving.ratio_model import RatioModel
from obil.trackers import BayesBank

Models = Callable[[str], RatioModel]  # version -> model
TRACKERS = ("safe", "bank")


def settled(settings: StreamSettings, defaults: StreamSettings) -> dict[str, Any]:
    """Return the settings of a new stream as plain JSON values, what is not given taken from the defaults."""
    given = {name: value for name, value in asdict(settings).items() if value is not None}
    chosen = {name: value for name, value in asdict(defaults).items() if value is not None} | given
    return {
        "policy": chosen.get("policy", {"name": "cost", "matrix": [[0.0, 1.0], [1.0, 0.0]], "classes": None}),
        "tracker": chosen.get("tracker", "safe"),
        "prior": chosen.get("prior"),
        "positive": chosen.get("positive"),
        "horizon": chosen.get("horizon", HORIZON),
        "unlabeled_as": chosen.get("unlabeled_as"),
    }


def fresh_online(model: RatioModel, settings: Mapping[str, Any]) -> OnlineClassifier:
    """Return a stream that has seen no row; what cannot be set so is refused."""
    if settings["tracker"] not in TRACKERS:
        raise BadInputError(
            f"a tracker is one of {', '.join(TRACKERS)}, got {settings['tracker']!r:.40}", where="tracker"
        )
    by_text = {str(name): name for name in model.classes_.tolist()}  # JSON and a command line know classes as text
    prior, positive, unlabeled_as = settings["prior"], settings["positive"], settings["unlabeled_as"]
    if isinstance(prior, Mapping):
        prior = {by_text.get(name, name): share for name, share in prior.items()}
    try:
        return OnlineClassifier(
            model,
            policy=None if settings["policy"] is None else policy_from_json(settings["policy"]),
            tracker=BayesBank() if settings["tracker"] == "bank" else None,
            prior=prior,
            positive=by_text.get(positive, positive) if isinstance(positive, str) else positive,
            horizon=settings["horizon"],
            unlabeled_as=by_text.get(unlabeled_as, unlabeled_as) if isinstance(unlabeled_as, str) else unlabeled_as,
        )
    except (InvalidInputError, TypeError) as error:
        raise BadInputError(str(error)) from None


def replay(online: OnlineClassifier | None, events: Sequence[StoredEvent], models: Models) -> OnlineClassifier:
    """Return the stream after these events, which follow each other; None is a stream before its first."""
    for event, before in zip(events, (None, *events), strict=False):
        if before is not None and event.seq != before.seq + 1:
            raise InvalidStateError(f"the log of this stream lacks what came between {before.seq} and {event.seq}")
        if event.kind == CREATED:
            made = read_record(event.payload)
            online = fresh_online(models(made["model"]), made["settings"])
            continue
        if online is None:
            raise InvalidStateError("the log of this stream lacks its beginning, and no snapshot takes its place")
        _do_again(online, event, models)
    if online is None:
        raise InvalidStateError("the log of this stream is empty")
    return online


def _do_again(online: OnlineClassifier, event: StoredEvent, models: Models) -> None:
    if event.kind == DECIDED:
        rows = read_rows(event.payload)
        online.decide_log_ratios(rows.log_ratios, views=rows.views, ids=rows.ids)
    elif event.kind == LABELLED:
        for name, label, propensity in read_record(event.payload)["labels"]:
            online.feedback(name, label, propensity=propensity)
    elif event.kind == SETTINGS:
        online.policy = policy_from_json(read_record(event.payload)["after"])
    elif event.kind == MODEL:
        online.model = models(read_record(event.payload)["version"])
    elif event.kind == RESTARTED:
        online.restart_monitor()
    elif event.kind == FORGOTTEN:
        for row in read_record(event.payload)["rows"]:
            online.forget(row)
    else:
        raise InvalidStateError(f"the log holds an event that this version does not know: {event.kind!r:.40}")


def same_settings(one: Mapping[str, Any], two: Mapping[str, Any]) -> bool:
    """Return whether two settings, as plain values, are the same."""
    return json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
