#!/usr/bin/env python3
"""Draws a trace of `accelopt profile KERNEL.py --trace FILE` into a PNG: engines, DMA queues and the
critical path over time, coloured by source line, with SBUF and PSUM below.

    accelopt profile kernel.py --problem silu --no-values --trace silu.json
    analysis/trace_picture.py silu.json silu.png --from-us 100 --to-us 160
"""

import argparse
import collections
import json

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.collections import PolyCollection  # noqa: E402
from matplotlib.patches import Patch  # noqa: E402

NAMED_LINES = 9  # with a colour of their own, the busiest first; the others are grey


def read_trace(path):
    """Track names by id, blocks by track as (start, end, name) in us, counters by name."""
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    names, blocks = {}, collections.defaultdict(list)
    counters, title = collections.defaultdict(list), path
    for event in trace["traceEvents"]:
        if event["ph"] == "M" and event["name"] == "thread_name":
            names[event["tid"]] = event["args"]["name"]
        elif event["ph"] == "M" and event["name"] == "process_name":
            title = event["args"]["name"]
        elif event["ph"] == "X":
            blocks[event["tid"]].append((event["ts"], event["ts"] + event["dur"], event["name"]))
        elif event["ph"] == "C":
            counters[event["name"]].append((event["ts"], next(iter(event["args"].values()))))
    return title, names, blocks, counters, trace["otherData"]


def colours_of(names, blocks, first_us, last_us):
    """A colour per operation and line: those that take most time get one, all queues as one."""
    queues = max(1, sum(1 for name in names.values() if name.startswith("DMA queue")))
    time = collections.Counter()
    for track, of_track in blocks.items():
        weight = 1 / queues if names[track].startswith("DMA queue") else 1
        for start, end, name in of_track:
            time[name] += max(0, min(end, last_us) - max(start, first_us)) * weight
    palette = plt.get_cmap("tab10")
    shades = [palette(i) for i in range(10) if i != 7]  # without grey
    return {name: shades[i] for i, (name, us) in enumerate(time.most_common(NAMED_LINES)) if us > 0}


def draw_tracks(axes, names, blocks, colours, first_us, last_us):
    """One row per track that does anything, the critical path on top."""
    tracks = [t for t in sorted(names) if blocks.get(t)]
    for row, track in enumerate(tracks):
        shapes, shades = [], []
        for start, end, name in blocks[track]:
            if end <= first_us or start >= last_us:
                continue
            bottom, top = row - 0.42, row + 0.42
            shapes.append([(start, bottom), (start, top), (end, top), (end, bottom)])
            shades.append(colours.get(name, (0.7, 0.7, 0.7, 1.0)))
        axes.add_collection(PolyCollection(shapes, facecolors=shades, edgecolors="none"))
    axes.set_yticks(range(len(tracks)), [names[t] for t in tracks], fontsize=8)
    axes.set_ylim(len(tracks) - 0.4, -0.6)
    axes.set_xlim(first_us, last_us)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)


def draw_counter(axes, name, points, last_us):
    """A counter as a filled staircase."""
    if points:
        times = [p[0] for p in points] + [last_us]
        values = [p[1] for p in points] + [points[-1][1]]
        axes.fill_between(times, values, step="post", color="0.6", linewidth=0)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(name.replace(" per partition", "\nper partition").replace(" banks", "\nbanks"),
                    fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("trace")
    parser.add_argument("picture")
    parser.add_argument("--from-us", type=float)
    parser.add_argument("--to-us", type=float)
    arguments = parser.parse_args()
    title, names, blocks, counters, data = read_trace(arguments.trace)
    first = data["from_ns"] / 1e3 if arguments.from_us is None else arguments.from_us
    last = data["to_ns"] / 1e3 if arguments.to_us is None else arguments.to_us
    colours = colours_of(names, blocks, first, last)
    rows = sum(1 for t in names if blocks.get(t))
    figure, (tracks, sbuf, psum) = plt.subplots(
        3, 1, sharex=True, figsize=(13, 2.6 + 0.27 * rows),
        gridspec_kw={"height_ratios": [max(4, rows), 2.6, 2.6], "hspace": 0.08})
    draw_tracks(tracks, names, blocks, colours, first, last)
    draw_counter(sbuf, "SBUF KiB per partition", counters["SBUF KiB per partition"], last)
    draw_counter(psum, "PSUM banks", counters["PSUM banks"], last)
    psum.set_xlabel("us", fontsize=9)
    tracks.set_title(f"{title}: {data['latency_ns'] / 1e6:.3f} ms", fontsize=10, loc="left")
    tracks.legend(handles=[Patch(color=c, label=n) for n, c in colours.items()], fontsize=8,
                  loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    figure.savefig(arguments.picture, dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    main()
