"""Take late labels over HTTP."""

from fastapi import APIRouter, Request, Response

from obil.service.http.answers import labelled_record
from obil.service.http.app_state import HttpEdge, json_answer, json_body, sender_of
from obil.service.http.documents import LabelsAnswer, refusals
from obil.service.http.requests.documents import KEY_PARAMETER, STREAM_PARAMETER, json_request
from obil.service.http.requests.labels import labels_of_json
from obil.service.streams.stream_names import as_stream_name


def label_routes(edge: HttpEdge) -> APIRouter:
    """Return the route of labels."""
    router = APIRouter(tags=["labels"])

    @router.post(
        "/v1/streams/{stream}/labels",
        summary="Take in true labels that came late",
        response_class=Response,
        responses={200: {"model": LabelsAnswer}, **refusals(400, 404, 409, 415)},
        openapi_extra={
            "requestBody": json_request("LabelsRequest"),
            "parameters": [STREAM_PARAMETER, KEY_PARAMETER],
        },
    )
    async def label(request: Request) -> Response:
        stream = as_stream_name(request.path_params["stream"])
        body = await json_body(request)
        labels = labels_of_json(body, edge.streams.model, max_rows=edge.settings.max_rows)
        labelled = await edge.streams.label(stream, labels, sender_of(request, body))
        if not labelled.repeated:
            edge.metrics.labelled(stream, labelled.known)
        return json_answer(labelled_record(labelled))

    return router
