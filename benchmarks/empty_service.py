"""Answer nothing, through the same framework and server: what the service is held against."""

import sys

import uvicorn
from fastapi import FastAPI

app = FastAPI()


@app.post("/empty")
async def empty() -> dict[str, str]:
    """Answer an empty object."""
    return {}


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_config=None, access_log=False, server_header=False)
