"""Answer nothing, or as much as the service answers, through the same framework and server: what it is held against."""

import sys

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

app = FastAPI()
TWO = {"0": 0.9187264510293847, "1": 0.08127354897061528}
DECISION = {
    "id": 0, "label": 0, "probability": 0.08127354897061528, "posterior": TWO, "log_ratio": 0.5192837465564738,
    "log_ratios": TWO, "effective_prior": TWO, "threshold": 0.6931471805599453, "trusted": True, "reachable": True,
}  # fmt: skip


@app.post("/empty")
async def empty() -> dict[str, str]:
    """Answer an empty object."""
    return {}


@app.post("/rows")
async def rows(request: Request) -> JSONResponse:
    """Parse rows, and answer a decision for each that was made before."""
    body = await request.json()
    return JSONResponse({"stream": "bulk", "model": "none", "decisions": [DECISION] * len(body["rows"])})


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_config=None, access_log=False, server_header=False)
