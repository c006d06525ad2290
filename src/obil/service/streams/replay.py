"""Create a stream from its settings, and replay its log: the state is the same bit for bit."""

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


def resolved_settings(settings: StreamSettings, defaults: StreamSettings) -> dict[str, Any]:
    """Return the settings of a new stream as plain JSON values, completed from the defaults."""
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


def new_online(model: RatioModel, settings: Mapping[str, Any]) -> OnlineClassifier:
    """Return a stream without rows, or refuse its settings."""
    if settings["tracker"] not in TRACKERS:
        raise BadInputError(
            f"tracker must be one of {', '.join(TRACKERS)}, got {settings['tracker']!r:.40}", where="tracker"
        )
    by_text = {
        str(name): name for name in model.classes_.tolist()
    }  # classes are text in JSON keys and on the command line
    prior, positive, unlabeled_as = settings["prior"], settings["positive"], settings["unlabeled_as"]
    if isinstance(prior, Mapping):
        prior = {by_text.get(name, name): value for name, value in prior.items()}
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
    """Return the stream after these consecutive events; None is a stream before its first event."""
    for event, before in zip(events, (None, *events), strict=False):
        if before is not None and event.seq != before.seq + 1:
            raise InvalidStateError(f"the log of this stream lacks the events between {before.seq} and {event.seq}")
        if event.kind == CREATED:
            created = read_record(event.payload)
            online = new_online(models(created["model"]), created["settings"])
            continue
        if online is None:
            raise InvalidStateError("the log of this stream lacks its first event, and there is no snapshot")
        _replay_event(online, event, models)
    if online is None:
        raise InvalidStateError("the log of this stream is empty")
    return online


def _replay_event(online: OnlineClassifier, event: StoredEvent, models: Models) -> None:
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
        raise InvalidStateError(f"the log has an event of an unknown kind: {event.kind!r:.40}")


def same_settings(one: Mapping[str, Any], two: Mapping[str, Any]) -> bool:
    """Return whether two settings are equal as JSON."""
    return json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
