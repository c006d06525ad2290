"""Describe what the routes take and answer, for the OpenAPI document."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

Shares = dict[str, float]


class ErrorDetail(BaseModel):
    """Why a request was refused."""

    code: str = Field(examples=["bad_input"])
    message: str = Field(examples=["column 'amount' must hold a number, got 'ten' in row 0"])
    where: str | None = Field(description="The column or field to blame, where there is one.", examples=["amount"])
    request_id: str


class ErrorAnswer(BaseModel):
    """The answer to every request that is refused."""

    error: ErrorDetail


class DecisionAnswer(BaseModel):
    """What was decided for one row, and from what."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "order 7", "label": 1, "probability": 0.62, "posterior": {"0": 0.38, "1": 0.62},
                    "log_ratio": 4.1, "log_ratios": {"0": 0.0, "1": 4.1}, "prior": {"0": 0.974, "1": 0.026},
                    "threshold": 3.6, "trusted": True, "reachable": True,
                }
            ]
        }
    )  # fmt: skip

    id: int | str
    label: str | float | bool = Field(description="One of the model's classes.")
    probability: float = Field(description="That of the positive class; of the decided one where none is positive.")
    posterior: Shares
    log_ratio: float | None = Field(description="That of the positive class; null for more than two classes.")
    log_ratios: Shares
    prior: Shares = Field(description="The class shares this row was decided with, from before it.")
    threshold: float | None = Field(description="On the log ratio; null where it is infinite or there is none.")
    trusted: bool = Field(description="False while a monitor finds that no prior explains the stream.")
    reachable: bool = Field(description="False where no threshold meets the policy at this prior.")


class DecisionsAnswer(BaseModel):
    """The decisions of one request, in the order of its rows."""

    stream: str
    model: str = Field(description="The version of the model that scored.")
    repeated: bool = Field(description="True for a retry: these rows had voted before.")
    decisions: list[DecisionAnswer]


class LabelsAnswer(BaseModel):
    """What became of labels."""

    stream: str
    known: int
    unknown: list[int | str] = Field(description="Ids that were never decided, or are beyond the horizon.")
    repeated: bool


class SummaryAnswer(BaseModel):
    """A stream at a glance."""

    name: str
    rows: int
    labels: int
    alerts: int
    prior: Shares
    training_prior: Shares
    positive: str | float | bool | None
    trusted: bool
    log_evidence: float | None
    log_alarm: float | None
    model: str
    created: str = Field(examples=["2026-01-31T09:00:00.000Z"])
    updated: str
    seq: int


class ChangeAnswer(BaseModel):
    """One line of a stream's audit."""

    at: str
    by: str
    row: int
    before: dict[str, Any]
    after: dict[str, Any]


class DetailAnswer(SummaryAnswer):
    """A stream in depth."""

    classes: list[str | float | bool]
    interval: dict[str, list[float | None]] | None
    start_prior: Shares
    threshold: dict[str, float | None]
    evidence: dict[str, Any] | None
    label_counts: dict[str, int]
    performance: dict[str, Any] | None
    change: dict[str, Any]
    settings: dict[str, Any]
    changes: list[ChangeAnswer]


class PageAnswer(BaseModel):
    """Some streams in the order of their names."""

    streams: list[SummaryAnswer]
    total: int
    next: str | None = Field(description="Give it as `after` for the next page.")


class SeriesAnswer(BaseModel):
    """A stream over time, as columns of equal length."""

    stream: str
    columns: dict[str, list[float | None]]
    training_prior: float
    log_alarm: float | None


class ErasedAnswer(BaseModel):
    """How many decisions were erased."""

    erased: int


class StateAnswer(BaseModel):
    """Whether the service lives, or is ready."""

    status: str = Field(examples=["ok"])


_MEANINGS = {
    400: "The body is not JSON, or not CSV, as it says it is.",
    401: "No API key, or one that is wrong, expired or revoked.",
    403: "The key lacks the scope, or Host or Origin are foreign.",
    404: "No stream, or no decision, of this name.",
    409: "In conflict with what is kept.",
    413: "More bytes, or more rows, than the service takes.",
    415: "A type of body that is not read here.",
    422: "A value breaks a rule; `where` names the column or field.",
    503: "Nothing of this request was kept: try again.",
}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documents of the statuses that a route refuses with, besides those that any route may."""
    return {
        status: {"model": ErrorAnswer, "description": _MEANINGS[status]}
        for status in sorted({401, 403, 413, 422, 503, *statuses})
    }
