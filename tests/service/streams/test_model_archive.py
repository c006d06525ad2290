"""The archive of an uploaded model is plain files with plain names, and whatever else a tar can hold is refused."""

import gzip
import io
import random
import tarfile

import pytest

from obil.service.refusals import RefusedError
from obil.service.streams.model_archive import MOST_FILES, files_of_tar


def tar_of(*members: tuple[str, bytes], form: int = tarfile.GNU_FORMAT, **fields: object) -> bytes:
    """Return a tar of files, all with the same fields of their headers."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=form) as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for field, value in fields.items():
                setattr(member, field, value)
            tar.addfile(member, io.BytesIO(content))
    return archive.getvalue()


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT])
def test_reads_what_tar_writes(form: int) -> None:
    files = {"manifest.json": b"{}", "arrays.safetensors": bytes(1_500), "scorer.skops": b"", "_a": b"x" * 512}
    assert files_of_tar(tar_of(*files.items(), form=form)) == files
    folder = tarfile.TarInfo("./")
    folder.type = tarfile.DIRTYPE
    head = folder.tobuf(form)
    assert files_of_tar(head + tar_of(*((f"./{name}", content) for name, content in files.items()))) == files


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../manifest.json", "a/b", "./../a", "..", "", ".a", "a\\b", "C:a", "é", "a\nb", "a" * 99 + "/b"],
)  # fmt: skip
def test_refuses_names_that_lead_elsewhere(name: str) -> None:
    with pytest.raises(RefusedError):
        files_of_tar(tar_of((name, b"1")))
    with pytest.raises(RefusedError):
        files_of_tar(tar_of((name, b"1"), form=tarfile.USTAR_FORMAT))


def test_refuses_a_path_in_the_second_name_field() -> None:
    with pytest.raises(RefusedError, match="plain file names"):
        files_of_tar(tar_of(("a" * 90 + "/" + "b" * 90, b"1"), form=tarfile.USTAR_FORMAT))


@pytest.mark.parametrize("kind", [b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"S", b"x", b"g", b"L", b"K", b"Z"])
def test_refuses_links_devices_folders_and_extended_headers(kind: bytes) -> None:
    with pytest.raises(RefusedError, match="plain files, got"):
        files_of_tar(tar_of(("manifest.json", b""), type=kind, linkname="/etc/passwd"))


def test_says_that_a_folder_is_one() -> None:
    with pytest.raises(RefusedError, match="got a folder 'model/'"):
        files_of_tar(tar_of(("model/", b""), type=tarfile.DIRTYPE))


def test_refuses_what_pax_adds() -> None:
    with pytest.raises(RefusedError, match="an extended header"):
        files_of_tar(tar_of(("a" * 150, b"1"), form=tarfile.PAX_FORMAT))


def test_refuses_a_name_that_comes_twice_in_any_form() -> None:
    for second in ("manifest.json", "./manifest.json"):
        with pytest.raises(RefusedError, match="twice"):
            files_of_tar(tar_of(("manifest.json", b"1"), (second, b"2")))


def test_refuses_too_many_files() -> None:
    assert len(files_of_tar(tar_of(*((f"f{i}", b"") for i in range(MOST_FILES))))) == MOST_FILES
    with pytest.raises(RefusedError, match="at most"):
        files_of_tar(tar_of(*((f"f{i}", b"") for i in range(MOST_FILES + 1))))


def test_refuses_a_size_that_is_no_octal_number_or_beyond_the_end() -> None:
    good = bytearray(tar_of(("manifest.json", b"1")))
    for size in (b"77777777777\0", b"\x80" + bytes(10) + b"\1", b"-1\0\0\0\0\0\0\0\0\0\0", b"1_0\0\0\0\0\0\0\0\0\0"):
        bad = bytearray(good)
        bad[124:136] = size
        bad[148:156] = b" " * 8
        bad[148:156] = b"%06o\0 " % sum(bad[:512])
        with pytest.raises(RefusedError):
            files_of_tar(bytes(bad))


def test_refuses_what_is_cut_short_compressed_or_goes_on() -> None:
    whole = tar_of(("manifest.json", b"12345"))
    for body in (
        b"",
        whole[:100],
        whole[:515],
        whole[:1_024],
        whole + b"x",
        b"\x1f\x8b" + bytes(1_022),
        b"PK\3\4" * 256,
    ):
        with pytest.raises(RefusedError):
            files_of_tar(body)
    with pytest.raises(RefusedError, match="must be an uncompressed tar archive"):
        files_of_tar(gzip.compress(whole + random.Random(1).randbytes(1_024)))


def test_any_damage_is_refused_or_gives_plain_names() -> None:
    chance = random.Random(3)
    whole = tar_of(("manifest.json", b"12345"), ("arrays.safetensors", bytes(700)))
    n_refused = 0
    for _ in range(2_000):
        body = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            body[chance.randrange(1_600)] = chance.randrange(256)
        try:
            files = files_of_tar(bytes(body[: chance.choice([len(body), chance.randrange(len(body))])]))
        except RefusedError:
            n_refused += 1
        else:
            assert all("/" not in name and name.isascii() and not name.startswith(".") for name in files)
    assert n_refused > 1_000
