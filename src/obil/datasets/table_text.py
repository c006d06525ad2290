"""Turn the bytes of a real-life table into text: gzip, encodings, and a clear refusal of what is no text."""

import codecs
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias

from obil.errors import InvalidInputError

TableSource: TypeAlias = str | os.PathLike[str] | IO[str] | IO[bytes]

BLOCK_BYTES = 1 << 19
GZIP = b"\x1f\x8b"
PARQUET = b"PAR1"
_NOT_TEXT = {
    b"PK\x03\x04": "an Excel workbook or a zip archive",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"\x89PNG": "an image",
    b"%PDF": "a PDF",
    PARQUET: "a parquet file, which is read whole, from its path",
}
# Windows-1252 as browsers read it: the five bytes it leaves undefined are taken from Latin-1
_WINDOWS_1252 = "".join(
    bytes([byte]).decode("latin-1" if byte in {0x81, 0x8D, 0x8F, 0x90, 0x9D} else "cp1252") for byte in range(256)
)


def source_name(source: TableSource) -> str:
    """Return what to call a source in a message.

    >>> source_name("ward.csv"), source_name(io.StringIO("a,b"))
    ('ward.csv', 'the table')
    """
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    name = getattr(source, "name", None)
    if name in {"<stdin>", 0}:
        return "standard input"
    return name if isinstance(name, str) else "the table"


def byte_blocks(source: TableSource) -> Iterator[bytes]:
    """Yield the bytes of a path or an open binary file as they arrive: a slow pipe gives small blocks."""
    if isinstance(source, str | os.PathLike):
        try:
            with Path(source).open("rb") as file:
                yield from byte_blocks(file)
        except OSError as error:
            reason = error.strerror or str(error)
            raise InvalidInputError(
                f"a table must be a file that can be read, got {source_name(source)!r}: {reason}"
            ) from None
        return
    read: Any = getattr(source, "read1", None) or source.read  # read1 returns what is there, read waits for it all
    while block := read(BLOCK_BYTES):
        yield block


def whole_bytes(source: TableSource) -> bytes | None:
    """Return all the bytes of a source, or None when it holds only text."""
    binary = _below(source)
    return None if isinstance(binary, io.TextIOBase) else b"".join(byte_blocks(binary))


def text_blocks(source: TableSource, *, encoding: str | None = None, name: str | None = None) -> Iterator[str]:
    """Yield the text of a table as it arrives; a block may end anywhere.

    Without `encoding`: UTF-8 with or without a byte order mark, UTF-16 with one, else Windows-1252.

    >>> "".join(text_blocks(io.BytesIO("größe".encode("cp1252"))))
    'größe'
    """
    name = name or source_name(source)
    binary = _below(source)
    if isinstance(binary, io.TextIOBase):
        blocks: Iterator[str] = iter(binary.readline, "")
    else:
        blocks = _decoded(_gunzipped(byte_blocks(binary), name), name, encoding)
    line = 1
    for text in blocks:
        nul = text.find("\0")
        if nul >= 0:
            line += text.count("\n", 0, nul)
            raise InvalidInputError(
                f"a table must be text, got a NUL character in line {line} of {name}: "
                "a binary file, or UTF-16 without a byte order mark"
            )
        line += text.count("\n")
        yield text


def _below(source: TableSource) -> Any:
    """Return the bytes under a text file: its own decoding may not be the table's."""
    return source if isinstance(source, str | os.PathLike) else getattr(source, "buffer", source)


def _head(blocks: Iterator[bytes], size: int) -> bytes:
    head = b""
    for block in blocks:
        head += block
        if len(head) >= size:
            break
    return head


def _gunzipped(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    rest = iter(blocks)
    block = _head(rest, len(GZIP))
    if not block.startswith(GZIP):
        yield block
        yield from rest
        return
    member = zlib.decompressobj(31)
    try:
        while block:
            yield member.decompress(block)
            if member.eof and (block := member.unused_data):  # one gzip file may hold several members
                member = zlib.decompressobj(31)
                continue
            block = next(rest, b"")
    except zlib.error as error:
        raise InvalidInputError(f"a gzip file must be whole, got damage in {name}: {error}") from None
    if not member.eof:
        raise InvalidInputError(f"a gzip file must be whole, got one that ends early: {name}")


def _decoded(blocks: Iterator[bytes], name: str, encoding: str | None) -> Iterator[str]:
    head = _head(blocks, 4)
    for magic, kind in _NOT_TEXT.items():
        if head.startswith(magic):
            raise InvalidInputError(f"a table must be text, got {kind}: {name} (save it as CSV)")
    codec = encoding
    if codec is None and head.startswith(codecs.BOM_UTF8):
        codec = "utf-8-sig"
    elif codec is None and head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        codec = "utf-16"
    try:
        decoder = codecs.getincrementaldecoder(codec or "utf-8")()
    except LookupError:
        raise InvalidInputError(f"encoding must be one Python knows, got {encoding!r}") from None

    line, only_ascii, last = 1, True, False
    block = head
    while not last:
        last = not block
        held = decoder.getstate()[0]  # the first bytes of a character cut by the block's end
        try:
            text = decoder.decode(block, final=last)
        except UnicodeDecodeError as error:
            data = held + block
            good = data[: error.start]
            line += good.count(b"\n")
            if codec is not None or not (only_ascii and good.isascii()):
                raise InvalidInputError(
                    f"a table must be in one encoding, got bytes that are not {codec or 'UTF-8'} "
                    f"in line {line} of {name}"
                ) from None
            yield _windows_1252(data)
            yield from (_windows_1252(block) for block in blocks)
            return
        only_ascii = only_ascii and text.isascii()
        line += text.count("\n")
        if text:
            yield text
        block = next(blocks, b"")


def _windows_1252(data: bytes) -> str:
    return codecs.charmap_decode(data, "strict", _WINDOWS_1252)[0]
