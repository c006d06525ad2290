"""Create the tables of a store, or bring those of an older format to the present one."""

from collections.abc import Mapping

from obil.errors import InvalidInputError
from obil.service.storage.tables import META, MODELS, TABLES, Run

# STEPS[0] are the statements from format 1 to format 2, and so on; the types in {} are those of `tables`
STEPS: tuple[tuple[str, ...], ...] = (
    (
        MODELS,
        "INSERT INTO models (version, source, added_by, activated) "
        "SELECT DISTINCT version, 'folder', 'service', 0 FROM model_files",
    ),
)


def set_up(run: Run, types: Mapping[str, str]) -> None:
    """Create or migrate all tables within the current transaction: after an error the store is as it was."""
    present = 1 + len(STEPS)
    run(META)
    found = run("SELECT value FROM obil_meta WHERE name = 'format'")
    statements: tuple[str, ...] = TABLES
    if found:
        (text,) = found[0]
        if not text.isdecimal() or not 1 <= int(text) <= present:
            raise InvalidInputError(
                f"the store has format {text:.20}, this version reads formats up to {present}: install the version "
                "that wrote it, or a newer one"
            )
        statements = tuple(statement for step in STEPS[int(text) - 1 :] for statement in step)
    for statement in statements:
        run(statement.format(**types))
    run("DELETE FROM obil_meta WHERE name = 'format'")
    run("INSERT INTO obil_meta (name, value) VALUES ('format', ?)", (str(present),))
