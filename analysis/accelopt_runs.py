"""Reads the HDF5 files of accelopt runs into pandas."""
import pathlib

import h5py
import numpy as np
import pandas as pd

# Whole numbers for which -1 is a value of its own; elsewhere it says that the figure is absent.
NOT_ABSENT = {("candidates", "round"), ("runs", "exit_code")}


def _texts(column):
    """A text column: bytes and offsets to a list of strings."""
    data = column["bytes"][:].tobytes()
    offsets = column["offsets"][:]
    return [data[a:b].decode("utf-8", errors="replace") for a, b in zip(offsets, offsets[1:])]


def _column(table, name, column):
    if isinstance(column, h5py.Group):
        return pd.Series(_texts(column), dtype=object)
    values = column[:]
    if np.issubdtype(values.dtype, np.integer) and (table, name) not in NOT_ABSENT:
        return pd.Series(values, dtype="Int64").mask(values == -1)
    return pd.Series(values)


def read_file(path):
    """All tables of one file: a dict of DataFrames by table name."""
    with h5py.File(path, "r") as file:
        return {table: pd.DataFrame({name: _column(table, name, column)
                                     for name, column in group.items()})
                for table, group in file.items()}


def load_run(path):
    """Tables of a run directory or of one file. Without run.h5 the finished rounds are put together;
    what only the whole run knows (problems, baselines, events) is then missing."""
    path = pathlib.Path(path)
    if path.is_file():
        return read_file(path)
    if (path / "run.h5").is_file():
        return read_file(path / "run.h5")
    rounds = [read_file(p) for p in sorted((path / "rounds").glob("*.h5"))]
    if not rounds:
        raise FileNotFoundError(f"{path} holds neither run.h5 nor rounds/*.h5 "
                                f"(accelopt recover {path} makes them from the journals)")
    keep = [t for t in rounds[0] if t not in ("runs", "problems", "events")]
    tables = {t: pd.concat([r[t] for r in rounds], ignore_index=True) for t in keep}
    tables["experience"] = tables["experience"].drop_duplicates("experience", ignore_index=True)
    candidates = tables["candidates"]
    tables["candidates"] = candidates[
        ~((candidates["round"] == -1) & candidates.duplicated("candidate"))].reset_index(drop=True)
    return tables


def baseline_latency(tables):
    """Latency of each problem's baseline in ms, as far as the tables know it."""
    if "problems" in tables:
        return tables["problems"].set_index("problem")["baseline_latency_ms"]
    candidates = tables["candidates"]
    return candidates[candidates["round"] == -1].set_index("problem")["latency_ms"]


def best_per_round(tables):
    """Best verified latency so far and speed-up over the baseline, per problem and round."""
    candidates = tables["candidates"]
    samples = candidates[candidates["round"] >= 0]
    rounds = samples[["problem", "round"]].drop_duplicates()
    # A duplicate repeats an earlier verdict, so that leaving it out changes no minimum.
    verified = samples[samples["verified"] == 1]
    best = verified.groupby(["problem", "round"])["latency_ms"].min().rename("best_of_round_ms")
    table = rounds.merge(best.reset_index(), how="left").sort_values(["problem", "round"])
    table["baseline_ms"] = table["problem"].map(baseline_latency(tables)).astype(float)
    so_far = table.groupby("problem")["best_of_round_ms"].transform(lambda s: s.cummin().ffill())
    table["best_so_far_ms"] = np.fmin(so_far, table["baseline_ms"])
    table["speedup"] = table["baseline_ms"] / table["best_so_far_ms"]
    return table.reset_index(drop=True)


def summary(tables):
    """One row per problem: baseline and best latency, speed-up, evaluations, failed samples."""
    candidates = tables["candidates"]
    rows = []
    for problem, group in candidates.groupby("problem"):
        samples = group[group["round"] >= 0]
        baseline = baseline_latency(tables).get(problem, np.nan)
        verified = group[group["verified"] == 1]["latency_ms"].min()
        evaluated = int((group["status"] == "evaluated").sum())
        failed = samples[(samples["verified"] == 0)
                         & ~samples["status"].isin(["duplicate", "no_change"])]
        rows.append({"problem": problem, "baseline_ms": baseline, "best_ms": verified,
                     "speedup": baseline / verified, "evaluations": evaluated,
                     "failed": len(failed)})
    return pd.DataFrame(rows, columns=["problem", "baseline_ms", "best_ms", "speedup",
                                       "evaluations", "failed"])


def profile_list(tables, name, candidate=None):
    """A list of the predicted profiles, best entries first: "lines", "critical_path", "tensors" or
    "occupancy", of one candidate or of all. Empty for runs without such a table."""
    table = tables.get(f"profile_{name}")
    if table is None:
        return pd.DataFrame(columns=["candidate", "kind", "position"])
    wanted = table["kind"] == "predicted"
    if candidate is not None:
        wanted &= table["candidate"] == candidate
    return table[wanted].reset_index(drop=True)
