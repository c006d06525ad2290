"""Count the processor time of this process and of all it started: on Linux, from /proc."""

import os
from pathlib import Path


def core_seconds() -> float:
    """Return the seconds that cores have worked for this process and those below it that are alive, nan elsewhere."""
    if not Path("/proc/self/stat").exists():
        return float("nan")
    parents, used = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                # the name of a process stands in brackets and may hold spaces
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it ended meanwhile
                continue
            parents[int(folder.name)] = int(fields[1])
            used[int(folder.name)] = int(fields[11]) + int(fields[12])
    own = os.getpid()

    def is_ours(process: int) -> bool:
        while process and process != own:
            process = parents.get(process, 0)
        return process == own

    return sum(ticks for process, ticks in used.items() if is_ours(process)) / os.sysconf("SC_CLK_TCK")
