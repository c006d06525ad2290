"""Create a stream from its settings, and replay its log to the same state bit for bit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from obil.errors import InvalidStateError
from obil.online.online_classifier import HORIZON, OnlineClassifier
from obil.policies import CostPolicy
from obil.policies.notation import policy_from_json
from obil.service.refusals import BadInputError, as_bad_input
from obil.service.storage import stored_event as stored
from obil.service.streams.operations import StreamSettings
from obil.serving.ratio_model import RatioModel
from obil.trackers import BayesBank

Models = Callable[[str], RatioModel]  # version -> model
TRACKERS = ("safe", "bank")


def resolved_settings(settings: StreamSettings, defaults: StreamSettings) -> dict[str, Any]:
    """Return the settings of a new stream as plain JSON values, completed from the defaults."""
    chosen = StreamSettings(CostPolicy().to_json(), tracker="safe", horizon=HORIZON)
    for given in (defaults, settings):
        chosen = replace(chosen, **{name: value for name, value in asdict(given).items() if value is not None})
    return asdict(chosen)


def new_online(model: RatioModel, settings: Mapping[str, Any]) -> OnlineClassifier:
    """Return a stream without rows, or refuse its settings."""
    if settings["tracker"] not in TRACKERS:
        raise BadInputError(
            f"tracker must be one of {', '.join(TRACKERS)}, got {settings['tracker']!r:.40}", where="tracker"
        )
    # classes are text in JSON keys and on the command line
    by_text = {str(name): name for name in model.classes_.tolist()}
    prior, positive, unlabeled_as = settings["prior"], settings["positive"], settings["unlabeled_as"]
    if isinstance(prior, Mapping):
        prior = {by_text.get(name, name): value for name, value in prior.items()}
    with as_bad_input(None, TypeError):
        return OnlineClassifier(
            model,
            policy=None if settings["policy"] is None else policy_from_json(settings["policy"]),
            tracker=BayesBank() if settings["tracker"] == "bank" else None,
            prior=prior,
            positive=by_text.get(positive, positive) if isinstance(positive, str) else positive,
            horizon=settings["horizon"],
            unlabeled_as=by_text.get(unlabeled_as, unlabeled_as) if isinstance(unlabeled_as, str) else unlabeled_as,
        )


def replay(online: OnlineClassifier | None, events: Sequence[stored.StoredEvent], models: Models) -> OnlineClassifier:
    """Return the stream after these consecutive events; None is a stream before its first event."""
    for event, before in zip(events, (None, *events), strict=False):
        if before is not None and event.seq != before.seq + 1:
            raise InvalidStateError(f"the log of this stream lacks the events between {before.seq} and {event.seq}")
        if event.kind == stored.CREATED:
            created = stored.read_record(event.payload)
            online = new_online(models(created["model"]), created["settings"])
            continue
        if online is None:
            raise InvalidStateError("the log of this stream lacks its first event, and there is no snapshot")
        _replay_event(online, event, models)
    if online is None:
        raise InvalidStateError("the log of this stream is empty")
    return online


def _replay_event(online: OnlineClassifier, event: stored.StoredEvent, models: Models) -> None:
    if event.kind == stored.DECIDED:
        rows = stored.read_rows(event.payload)
        online.decide_log_ratios(rows.log_ratios, evidence=rows.evidence, ids=rows.ids)
    elif event.kind == stored.LABELLED:
        for name, label, propensity in stored.read_record(event.payload)["labels"]:
            online.feedback(name, label, propensity=propensity)
    elif event.kind == stored.SETTINGS:
        online.policy = policy_from_json(stored.read_record(event.payload)["after"])
    elif event.kind == stored.MODEL:
        online.model = models(stored.read_record(event.payload)["version"])
    elif event.kind == stored.RESTARTED:
        online.restart_monitor()
    elif event.kind == stored.FORGOTTEN:
        for row in stored.read_record(event.payload)["rows"]:
            online.forget(row)
    elif event.kind != stored.NOTED:  # a note changes no decision
        raise InvalidStateError(f"the log has an event of an unknown kind: {event.kind!r:.40}")
