"""Read the files of an uploaded model from a tar archive: plain files with plain names, and nothing else."""

import re
from typing import NoReturn

from obil.service.refusals import BadInputError, NotUnderstoodError

MOST_FILES = 1_000
_BLOCK = 512
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_OCTAL = re.compile(rb"[0-7]+")
_FILE, _FOLDER = (b"0", b"\0"), b"5"
_KINDS = {
    b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"6": "a pipe",
    _FOLDER: "a folder", b"S": "a sparse file",
    **dict.fromkeys((b"x", b"g", b"L", b"K"), "an extended header"),
}  # fmt: skip


def files_of_tar(body: bytes) -> dict[str, bytes]:
    """Return the files of an uncompressed tar archive by name, or refuse it.

    The reader is our own and takes only what a model folder needs. Links, extended headers, paths and names that come
    twice are refused by it, whatever else a tar archive may hold.

    >>> files_of_tar(bytes(1024))
    Traceback (most recent call last):
        ...
    obil.service.refusals.BadInputError: the archive has no files: ...
    """
    files: dict[str, bytes] = {}
    place = 0
    while any(header := body[place : place + _BLOCK]):
        name, kind, size = _read_header(header)
        place += _BLOCK
        if kind == _FOLDER and name in (".", "./") and not size:
            continue  # what `tar -C model .` begins with
        name = name.removeprefix("./")
        if kind not in _FILE:
            _refuse(f"a model is plain files, got {_KINDS.get(kind, 'another kind of entry')} {name!r:.60}")
        if _NAME.fullmatch(name) is None:
            _refuse(f"a model has plain file names, without a path, got {name!r:.60}")
        if name in files:
            _refuse(f"each file must be there once, got {name!r:.60} twice")
        if len(files) == MOST_FILES:
            _refuse(f"a model has at most {MOST_FILES:,} files, got more")
        files[name] = body[place : place + size]
        if len(files[name]) < size:
            raise NotUnderstoodError(f"the archive is cut short within {name!r:.60}")
        place += -(-size // _BLOCK) * _BLOCK
    if place >= len(body) or body[place:].strip(b"\0"):
        raise NotUnderstoodError("a tar archive must end with blocks of zeros: this one is cut short, or more follows")
    if not files:
        _refuse("the archive has no files")
    return files


def _read_header(header: bytes) -> tuple[str, bytes, int]:
    """Return the name, the kind and the size of an entry."""
    blank = header[:148] + b" " * 8 + header[156:]
    checksum = header[148:156].strip(b" \0")
    if len(header) < _BLOCK or not _OCTAL.fullmatch(checksum) or int(checksum, 8) != sum(blank):
        raise NotUnderstoodError("the body must be an uncompressed tar archive, got something else")
    path = [header[:100]]
    if header[257:263] == b"ustar\0" and header[345:346] != b"\0":
        path.insert(0, header[345:500])
    name = b"/".join(part.partition(b"\0")[0] for part in path)
    return name.decode("latin-1"), header[156:157], _octal(header[124:136])


def _octal(field: bytes) -> int:
    digits = field.strip(b" \0")
    if not _OCTAL.fullmatch(digits):
        raise NotUnderstoodError("the archive has a header that is damaged, or of a file larger than 8 GB")
    return int(digits, 8)


def _refuse(rule: str) -> NoReturn:
    raise BadInputError(f"{rule}: make the archive with `tar -cf - -C model .`, of what obil.save wrote")
