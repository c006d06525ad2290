"""Write `docs/scale.md` from the figures of `python -m benchmarks spark`: `python -m benchmarks.spark_page`."""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULT = HERE / "results" / "spark.json"
PAGE = HERE.parent / "docs" / "scale.md"
HEAD = "<!-- made by `python -m benchmarks.spark_page` from benchmarks/results/spark.json -->"
MISSING = "Not measured yet: run `make bench-spark`, then `python -m benchmarks.spark_page`."


def page(record: dict[str, Any] | None) -> str:
    """Return the page, from a record of the benchmark or without one."""
    figures = MISSING if record is None else _figures(record)
    return f"""{HEAD}

# What it costs at scale

{figures}

## Growth
- **Scoring** grows with rows and scales with cores; partitions have only the model's files in common.
- **Estimating a prior** grows with rows and scales with cores; each partition sends 1,296 bytes per group,
  whatever its rows. With K > 2 classes it sends 8 (2 + 2 K + K^2) bytes per pass, in a few passes.
- **Keyed streams** grow with the keys that have a row in a micro-batch, hardly with the rows of each: restoring and
  packing a stream costs more than deciding a few rows. Idle keys cost only disk. A micro-batch of few keys costs what
  Spark takes to plan and commit it, whoever processes the rows.
- **Disk** grows with all keys that did not expire, times the batches whose states Spark keeps
  (`spark.sql.streaming.minBatchesToRetain`, 100 by default, as differences).
- **Rows that wait for labels** grow with the rows of a key up to its horizon, and with them the cost per batch.
- **One huge stream** grows with rows and scales with cores; the driver's work does not depend on the number of rows.

## Limits, in the order they are reached
1. *Keyed streams: time per micro-batch.* If all keys have rows in every batch, the core-seconds above are the
   limit: more cores, longer triggers, or fewer, coarser keys.
2. *One hot key.* A key is decided by one core, in order. A key with most of the rows belongs in `stream_batches`.
3. *Long horizons on busy keys.* A full horizon of 10,000 rows is read and written with every batch of the key:
   set `horizon` to the real label delay, or to 0 if no labels come.
4. *Disk of the checkpoint*, if keys never expire.
5. *The driver* of `stream_batches` or `estimate_prior`, much later: it adds up a few kilobytes per partition.
"""


def _figures(record: dict[str, Any]) -> str:
    found, settings = record["figures"], record["settings"]
    keys = settings["keys"]
    most = keys[-1]
    lines = [
        f"Measured by `make bench-spark` on `local[2]`, {settings['score_rows']:,} cached rows of "
        f"{settings['n_features']} features for scoring, {settings['rows_a_key']} rows per key in a micro-batch, with "
        f"the settings of [Sizing](spark.md#sizing); commit `{str(record['commit'])[:12]}`.",
        "",
        "| | |",
        "| --- | --- |",
        "| scoring with five networks, core-seconds per million rows | "
        f"{found['core_seconds_per_million_scored']:.2f} |",
        "| the same, throughput of a core over that of one process without Spark | "
        f"{found['score_per_core_over_one_process']:.2f} |",
        f"| the same, by processor time | {found['score_per_core_second_over_one_process']:.2f} |",
        "| the same, with Spark's defaults for Arrow and buffers | "
        f"{found['score_per_core_over_one_process.as_spark_comes']:.2f} |",
        f"| keyed streams, processor time per key and micro-batch, all of {settings['known_keys']:,} keys active, "
        f"core-milliseconds | {found['core_milliseconds_a_key']:.2f} |",
        f"| the same, {settings['active_keys']:,} of them active, per active key, beyond a micro-batch of one key | "
        f"{found['core_milliseconds_an_active_key']:.1f} |",
        "| the same, Spark's own work for the micro-batch included | "
        f"{found['core_milliseconds_an_active_key.with_the_batch']:.1f} |",
        f"| a micro-batch of one key, core-milliseconds | {found['core_milliseconds_a_batch_of_one_key']:,.0f} |",
        f"| keyed decisions, core-seconds per million, {most:,} new keys with {settings['rows_a_key']} rows each | "
        f"{found[f'core_seconds_per_million_decisions.{most}']:,.0f} |",
        f"| restoring and packing a new key, milliseconds | {found['key_milliseconds.new']:.1f} |",
        f"| the same with a full horizon of 10,000 waiting rows | {found['key_milliseconds.full_horizon']:.0f} |",
        f"| state of a key after {settings['state_rows']:,} rows and 5 % of labels, bytes | "
        f"{found['state_bytes_a_key']:,.0f} |",
        f"| its rows that wait for labels, bytes | {found['pending_bytes_a_key']:,.0f} |",
        f"| disk of the checkpoint per million keys, {most:,} measured after {settings['turns'] + 1} batches, GB | "
        f"{found[f'disk_bytes_a_key.{most}'] / 1e3:.1f} |",
        "",
        "| keys, all in every micro-batch | seconds per micro-batch, mean | range | batches "
        "| first batch, with new keys | memory of the state store, MB |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for n in keys:
        spread = " to ".join(f"{found[f'batch_seconds.{n}.{end}']:.1f}" for end in ("least", "most"))
        batches = settings["turns"] if n == most else (settings["turns"] + 1) * settings["batches"]
        columns = [f"{n:,}", f"{found[f'batch_seconds.{n}']:.1f}", spread, f"{batches}"]
        columns += [f"{found[f'first_batch_seconds.{n}']:.1f}", f"{n * found[f'memory_bytes_a_key.{n}'] / 1e6:,.0f}"]
        lines.append(f"| {' | '.join(columns)} |")
    lines += [
        "",
        "Batches of fewer keys are timed before, between and after those of the most. Seconds over linear growth, at "
        f"worst: {found['batch_seconds_over_linear']:.2f}. Memory as reported by RocksDB: states are on disk, with a "
        "cache of fixed size, so it hardly grows with the keys.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(json.loads(RESULT.read_text()) if RESULT.exists() else None))


if __name__ == "__main__":
    main()
