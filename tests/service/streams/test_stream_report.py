import ast
import inspect

from obil.online.reports import explain
from obil.service.streams.stream_report import in_http


def test_no_sentence_of_the_change_report_tells_a_reader_of_the_service_to_write_python() -> None:
    texts = [node.value for node in ast.walk(ast.parse(inspect.getsource(explain)))
             if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value]  # fmt: skip
    python = [text for text in texts if "online.feedback" in text or "OnlineClassifier(" in text or "=)" in text]
    assert len(python) >= 2
    for text in python:
        told = in_http(text, "shop")
        assert "online." not in told, told
        assert "=" not in told, told
        assert "OnlineClassifier" not in told, told
