"""Read a note on a stream."""

from obil.arrays import shown
from obil.service.http.request_bodies import read_json
from obil.service.refusals import BadInputError

LONGEST_NOTE = 2_000  # characters


def note_of_json(body: bytes) -> tuple[str, bool]:
    """Return the text of a note, and whether it acknowledges the alarm.

    >>> note_of_json(b'{"text": "a new till", "acknowledge": true}')
    ('a new till', True)
    """
    request = read_json(body)
    if type(request) is not dict or not request.keys() <= {"text", "acknowledge"}:
        raise BadInputError(f"the body must be an object with text and acknowledge alone, got {shown(request)}")
    text, acknowledge = request.get("text", ""), request.get("acknowledge", False)
    if type(text) is not str or len(text) > LONGEST_NOTE:
        raise BadInputError(f"text must have at most {LONGEST_NOTE:,} characters, got {shown(text)}", where="text")
    if not text.replace("\n", "").isprintable():
        raise BadInputError(f"text must be printable, got {shown(text)}: remove control characters", where="text")
    if type(acknowledge) is not bool:
        raise BadInputError(f"acknowledge must be true or false, got {shown(acknowledge)}", where="acknowledge")
    if not text.strip() and not acknowledge:
        raise BadInputError("text must not be empty unless acknowledge is true: write what is to be kept", where="text")
    return text.strip(), acknowledge
