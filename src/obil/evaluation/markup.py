"""Write what a page is made of: escaped text, tables with headers, numbers a person can read."""

import html
import math
import unicodedata
from collections.abc import Sequence


def escaped(value: object) -> str:
    """Return any value as text that is safe in HTML and in an attribute, whatever a file put in it.

    >>> escaped("<script>")
    '&lt;script&gt;'
    """
    text = str(value).encode("utf-8", "replace").decode("utf-8")
    # control characters are not allowed in a page, and format characters can turn a line round
    shown = "".join("\ufffd" if unicodedata.category(letter) in ("Cc", "Cf", "Cn") else letter for letter in text)
    return html.escape(shown, quote=True)


def name(value: object) -> str:
    """Return a name from a model or a file, kept apart from the direction of the text around it.

    >>> name("ok")
    '<bdi>ok</bdi>'
    """
    return f"<bdi>{escaped(value)}</bdi>"


def percent(fraction: float) -> str:
    r"""Return a fraction in per cent, with more digits the nearer it is to 0 or 1.

    >>> percent(0.123), percent(0.001), percent(0.9996), percent(1.0), percent(float("nan"))
    ('12.3\xa0%', '0.1\xa0%', '99.96\xa0%', '100\xa0%', 'n/a')
    """
    if math.isnan(fraction):
        return "n/a"
    distance = min(fraction, 1.0 - fraction)
    digits = 1 if distance >= 0.01 else 2 if distance >= 1e-4 else 4
    text = f"{100.0 * fraction:.{digits}f}".rstrip("0").rstrip(".")
    return f"{text}\N{NO-BREAK SPACE}%"


def quantity(value: float) -> str:
    """Return a number in plain digits, without an exponent.

    >>> quantity(20.0), quantity(0.5), quantity(1e6), quantity(2e-5), quantity(3e-9)
    ('20', '0.5', '1,000,000', '0.00002', 'nearly 0')
    """
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < 1e-6:
        return "nearly 0"
    text = f"{value:,.{max(0, 3 - math.floor(math.log10(abs(value))))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def table(
    caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, marked: int | None = None, css: str = ""
) -> str:
    """Return a table of ready markup; each row's first cell is its header, and one row may be marked."""
    head = "".join(f'<th scope="col">{cell}</th>' for cell in header)
    lines = []
    for number, row in enumerate(rows):
        cells = f'<th scope="row">{row[0]}</th>' + "".join(f"<td>{cell}</td>" for cell in row[1:])
        mark = ' class="marked"' if number == marked else ""
        lines.append(f"<tr{mark}>{cells}</tr>")
    return (
        f'<div class="scroll" role="group" aria-label="Table, scrolls sideways" tabindex="0"><table class="{css}">'
        f"<caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )
