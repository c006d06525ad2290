import time
from typing import Any

import numba
import pytest

from obil.service import machine_code
from obil.service.machine_code import compile_for, show_compiling
from obil.serving.ratio_model import RatioModel


def test_says_so_while_machine_code_is_compiled_and_nothing_while_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "QUIET_SECONDS", 0.002)
    monkeypatch.setattr(machine_code, "SAY_SECONDS", 0.002)
    lines: list[str] = []

    with show_compiling(lines.append):
        time.sleep(0.2)
    assert lines == []

    @numba.njit
    def new(number: float) -> float:
        return number + 1.0

    with show_compiling(lines.append):
        assert new(1.0) == 2.0
    n_lines = len(lines)
    assert lines
    assert lines[0].startswith("compiling machine code, once per installation: 0 functions, 0 s")
    with show_compiling(lines.append):
        assert new(1.0) == 2.0  # it is compiled already
        time.sleep(0.2)
    assert len(lines) == n_lines


def test_a_stream_is_used_once_and_thrown_away(model: RatioModel) -> None:
    used: list[Any] = []
    compile_for(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine_code, "use", lambda *arguments: used.append(arguments))
        compile_for(model)
    online, table, label = used[0]
    assert (online.n_rows, len(table), label) == (0, 3, 0)
