"""Write rows of text as a GitHub Markdown table."""


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """Return a table whose first column is left-aligned and whose others are right-aligned."""
    lines = ["| " + " | ".join(header) + " |", "| --- " + "| ---: " * (len(header) - 1) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
