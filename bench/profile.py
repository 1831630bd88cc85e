#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""profile.py BUILD PAGE PICTURE: where the nanoseconds go.

Counts the instructions of each function in a few paths of bench/count, by callgrind, and
draws where a turn with one operation spends its time, by perf: a flame graph.  BUILD is a
directory that was configured --without-valgrind; PAGE is written, and PICTURE where perf
can look.
"""

import collections
import os
import re
import subprocess
import sys
import tempfile
from xml.sax.saxutils import escape

ROUNDS = 1000
PATHS = [
    ("nop-1", "An operation by itself, with a turn of the loop of its own"),
    ("nop-32", "An operation of 32 in a turn"),
    ("copy-32", "A job: a copy of 64 bytes, of 32 in a turn"),
    ("call-32", "A call to another core and its answer, of 32; both sides"),
]
WHAT = {
    "cpu_at_once": "copy, and say how it went",
    "do_due": "the steps of a turn: timers, messages, callbacks, submission",
    "enter": "the system call, but for what the kernel does",
    "heed_requests": "look whether a stop or break was asked for",
    "io_uring_submit_and_get_events": "liburing's part of the system call",
    "job_check_operands": "check both sides: domains, rights, lengths, overlap",
    "leave_at_once": "end a job in the call that started it",
    "mailbox_run": "look for messages of other threads",
    "piece": "the next piece of a side",
    "rings_publish": "show other cores what was sent",
    "rings_run": "run messages of other cores, and complete calls",
    "route_note": "remember which engine did it",
    "uring_flush": "give the kernel what was prepared",
    "uring_reap": "take the kernel's completions, and find their operations",
    "uring_submit": "fill a submission entry",
    "weir__op_run_ready": "call back",
    "weir_call": "write a message into the ring",
    "weir_job_start": "admit the job, choose its engine, begin",
    "weir_nop": "admit the operation",
    "weir_reactor_run": "turn until the loop is broken",
    "weir_reactor_turn": "a turn: decide whether to wait",
}
THEIRS = {"on_end", "on_answer", "start_nop", "start_copy", "serve", "run",
          "begin", "nop_1", "nop_32", "copy_32", "call_many", "make_call"}
WIDTH, ROW, LEAST = 880, 19, 0.006


def run(command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          **options).stdout


def own_costs(path):
    """Instructions of each function by itself, in a file of callgrind's."""
    costs, function, of_call = collections.Counter(), None, False
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("fn="):
                function = line[3:].strip()
            elif line.startswith("calls="):
                of_call = True
            elif re.match(r"\d+ \d+$", line):
                if not of_call:
                    costs[function] += int(line.split()[1])
                of_call = False
    return costs


def count(build, where):
    """The costs of all paths, by name."""
    run(["./libtool", "--mode=execute", "valgrind", "-q", "--tool=callgrind",
         "--compress-strings=no", "--compress-pos=no",
         f"--callgrind-out-file={where}/out", "bench/count"], cwd=build,
        env=dict(os.environ, WEIR_BACKEND="uring"))
    found = {}
    for name in os.listdir(where):
        path = os.path.join(where, name)
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("desc: Trigger: Client Request: "):
                    found[line.split()[4]] = own_costs(path)
    return found


def table(costs):
    """Rows of what takes a hundredth or more."""
    total = sum(costs.values())
    ours = [(f, n) for f, n in costs.most_common() if f not in THEIRS]
    rows = ["| function | instructions | share | what it does |", "|---|---|---|---|"]
    rest = total
    for function, n in ours:
        if n < total / 100 or function.startswith("0x"):
            continue
        rest -= n
        rows.append(f"| `{function}()` | {n / ROUNDS:.0f} | {100 * n / total:.0f} % "
                    f"| {WHAT.get(function, '')} |")
    rows.append(f"| the program's own, and the rest | {rest / ROUNDS:.0f} "
                f"| {100 * rest / total:.0f} % | |")
    rows.append(f"| all | {total / ROUNDS:.0f} | | |")
    return rows


def stacks(build, where):
    """Samples of turns with one operation: tuples of frames, outermost first."""
    data = os.path.join(where, "perf")
    run(["./libtool", "--mode=execute", "perf", "record", "-q", "-F", "4999",
         "--call-graph", "dwarf,4096", "-o", data, "bench/bench-nop", "--only",
         "weir turn", "--depth", "1", "--reps", "5"], cwd=build)
    found, frames = collections.Counter(), []
    for line in run(["perf", "script", "-i", data, "-F", "ip,sym,dso"]).splitlines():
        words = line.split()
        if words:
            name = re.sub(r"\+0x[0-9a-f]+$", "", words[1])
            if name == "[unknown]":  # Of a library without symbols.
                name = re.sub(r"^\(?.*/|\.so.*", "", words[-1])
            frames.append((name, "kernel" in line))
            continue
        names = [name for name, _ in frames]
        if "weir_reactor_turn" in names:
            last = len(names) - 1 - names[::-1].index("weir_reactor_turn")
            found[tuple(frames[last::-1])] += 1
        frames = []
    return found


def draw(found, path):
    """A flame graph: callees below, a kernel's in grey."""
    boxes, total = [], sum(found.values())

    def place(group, depth, x):
        by_frame = collections.defaultdict(collections.Counter)
        for stack, n in group.items():
            if len(stack) > depth:
                by_frame[stack[depth]][stack] += n
        for frame, part in sorted(by_frame.items(), key=lambda f: -sum(f[1].values())):
            share = sum(part.values()) / total
            if share >= LEAST:
                boxes.append((x, depth, share, frame))
                place(part, depth + 1, x)
            x += share

    place(found, 0, 0.0)
    height = (max(box[1] for box in boxes) + 1) * ROW + 34
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11">',
        '<style>.t { fill: #222 } @media (prefers-color-scheme: dark) '
        '{ .t { fill: #ddd } }</style>',
        '<text class="t" x="4" y="16" font-size="13">A turn with one operation: '
        'time by function, the library in blue, the kernel in grey</text>',
    ]
    for x, depth, share, (name, is_kernel) in boxes:
        left, width = x * (WIDTH - 8) + 4, share * (WIDTH - 8)
        top = depth * ROW + 26
        fit = int(width / 6.2)
        text = name if len(name) <= fit else name[:fit - 1] + "…" if fit > 4 else ""
        lines.append(
            f'<g><title>{escape(name)}: {100 * share:.1f} %</title>'
            f'<rect x="{left:.1f}" y="{top}" width="{max(width - 1, 0.5):.1f}" '
            f'height="{ROW - 1}" fill="{"#b8b8b8" if is_kernel else "#8ab6e8"}"/>'
            f'<text x="{left + 3:.1f}" y="{top + 13}" fill="#111">{escape(text)}</text></g>')
    lines.append("</svg>")
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")


def kernel_share(found):
    return sum(n for stack, n in found.items() if any(k for _, k in stack)) / \
        sum(found.values())


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: profile.py BUILD PAGE PICTURE")
    build, page, picture = sys.argv[1:]
    with tempfile.TemporaryDirectory() as where:
        os.mkdir(os.path.join(where, "counts"))
        counts = count(build, os.path.join(where, "counts"))
        try:
            found = stacks(build, where)
            draw(found, picture)
        except (OSError, subprocess.CalledProcessError):
            found = None
    text = [
        "# Where the nanoseconds go", "",
        "Made by `make profile`; nothing here is typed by hand but what functions do. The",
        "tables count the library's instructions (callgrind over `bench/count`), which are",
        "the same in every run; the page [performance](../performance.md) has the times.", "",
    ]
    if found:
        text += [
            "## A turn with one operation, by time", "",
            f"![A flame graph of a turn]({os.path.basename(picture)})", "",
            f"Sampled by perf: {100 * kernel_share(found):.0f} % of it is the kernel's. "
            "Point at a box to see",
            "its share.", "",
        ]
    for name, what in PATHS:
        text += [f"## {what}", "", f"`{name}` of `bench/counts.txt`.", ""]
        text += table(counts[name]) + [""]
    with open(page, "w", encoding="utf-8") as out:
        out.write("\n".join(text[:-1]) + "\n")


main()
