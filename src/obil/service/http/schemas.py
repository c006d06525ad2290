"""Describe the responses of the routes, for the OpenAPI document."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

ByClass = dict[str, float]


class ErrorDetail(BaseModel):
    """Why a request was refused."""

    code: str = Field(examples=["bad_input"])
    message: str = Field(examples=["column 'amount' must hold a number, got 'ten' in row 0"])
    where: str | None = Field(description="The column or field that is wrong, if it is one.", examples=["amount"])
    request_id: str


class ErrorResponse(BaseModel):
    """The response to every refused request."""

    error: ErrorDetail


class DecisionResponse(BaseModel):
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
    probability: float = Field(description="Of the positive class; of the decided class if there is no positive one.")
    posterior: ByClass
    log_ratio: float | None = Field(description="Of the positive class; null with more than two classes.")
    log_ratios: ByClass
    prior: ByClass = Field(description="The class prior the row was decided with: the estimate before this row.")
    threshold: float | None = Field(
        description="On the log ratio of the positive class; null if infinite or if there is none."
    )
    trusted: bool = Field(description="False once the monitor finds that no class prior explains the stream.")
    reachable: bool = Field(description="False if no threshold meets the policy at this prior.")


class DecisionsResponse(BaseModel):
    """The decisions of one request, in the order of its rows."""

    stream: str
    model: str = Field(description="The version of the model that scored.")
    repeated: bool = Field(description="True for a retry: these rows had updated the prior before.")
    decisions: list[DecisionResponse]


class LabelsResponse(BaseModel):
    """How many labels belonged to a decision."""

    stream: str
    known: int
    unknown: list[int | str] = Field(description="Ids that were never decided here, or longer ago than the horizon.")
    repeated: bool


class SummaryResponse(BaseModel):
    """A stream at a glance."""

    name: str
    rows: int
    labels: int
    alerts: int
    prior: ByClass
    training_prior: ByClass
    positive: str | float | bool | None
    trusted: bool
    log_evidence: float | None
    log_alarm: float | None
    model: str
    created: str = Field(examples=["2026-01-31T09:00:00.000Z"])
    updated: str
    seq: int


class ChangeResponse(BaseModel):
    """One line of a stream's audit."""

    at: str
    by: str
    row: int
    before: dict[str, Any]
    after: dict[str, Any]


class DetailResponse(SummaryResponse):
    """A stream in detail."""

    classes: list[str | float | bool]
    interval: dict[str, list[float | None]] | None
    start_prior: ByClass
    threshold: dict[str, float | None]
    evidence: dict[str, Any] | None
    label_counts: dict[str, int]
    performance: dict[str, Any] | None
    change: dict[str, Any]
    settings: dict[str, Any]
    changes: list[ChangeResponse]


class PageResponse(BaseModel):
    """Some streams, by name."""

    streams: list[SummaryResponse]
    total: int
    next: str | None = Field(description="Pass it as `after` to get the next page.")


class HistoryResponse(BaseModel):
    """A stream over time, as columns of equal length."""

    stream: str
    columns: dict[str, list[float | None]]
    training_prior: float
    log_alarm: float | None


class ErasedResponse(BaseModel):
    """How many decisions were erased."""

    erased: int


class HealthResponse(BaseModel):
    """Whether the service is alive, or ready."""

    status: str = Field(examples=["ok"])


_DESCRIPTIONS = {
    400: "The body is not the JSON or CSV that its Content-Type says.",
    401: "No API key, or one that is wrong, expired or revoked.",
    403: "The key lacks the scope, or Host or Origin is not this service's.",
    404: "There is no such stream or decision.",
    409: "It conflicts with what is stored.",
    413: "More bytes or rows than the service accepts.",
    415: "The service does not read this content type.",
    422: "A value breaks a rule; `where` names the column or field.",
    503: "Nothing of this request was stored: try again.",
}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of the statuses a route may refuse with, besides those that every route may."""
    return {
        status: {"model": ErrorResponse, "description": _DESCRIPTIONS[status]}
        for status in sorted({401, 403, 413, 422, 503, *statuses})
    }
