"""The page on scale holds no figure that no file holds."""

import json

from benchmarks.spark_page import PAGE, RESULT, page


def test_the_page_is_what_its_command_writes_from_the_committed_figures() -> None:
    record = json.loads(RESULT.read_text()) if RESULT.exists() else None
    assert PAGE.read_text() == page(record)
