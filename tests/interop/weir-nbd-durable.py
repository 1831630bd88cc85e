# SPDX-License-Identifier: BSD-3-Clause
"""A flush, and a write with FUA, are answered when the device has the bytes.

NBD_URI's export is the block device whose numbers of requests are in the file
that is named.  A server that is killed leaves what it wrote in the page cache,
so nothing less than the device can tell."""

import os
import sys

import nbd

WRITTEN, FLUSHES = 6, 15  # Sectors, requests: Documentation/block/stat.rst.
BLOCK = 65536


def told():
    """What the device was told since it was made."""
    with open(sys.argv[1], encoding="ascii") as f:
        numbers = [int(word) for word in f.read().split()]
    return numbers[WRITTEN], numbers[FLUSHES]


def has_it(size, fn, *args):
    """What @fn does brings that many bytes to the device, and a flush."""
    before = told()
    fn(*args)
    after = told()
    assert after[0] - before[0] >= size / 512, (before, after)
    assert after[1] > before[1], (before, after)


def write_all(handles, flags=0):
    """A block from each connection."""
    for i, h in enumerate(handles):
        h.pwrite(os.urandom(BLOCK), i * BLOCK, flags)


def connect():
    """One more connection."""
    h = nbd.NBD()
    h.connect_uri(os.environ["NBD_URI"])
    return h


writers = [connect() for _ in range(3)]
other = connect()
has_it(BLOCK, write_all, writers[:1], nbd.CMD_FLAG_FUA)
has_it(3 * BLOCK, write_all, writers, nbd.CMD_FLAG_FUA)
# More than the server writes at once.
has_it(1 << 20, other.pwrite, os.urandom(1 << 20), 0, nbd.CMD_FLAG_FUA)
has_it(BLOCK, writers[0].zero, BLOCK, 0, nbd.CMD_FLAG_FUA | nbd.CMD_FLAG_NO_HOLE)
write_all(writers)
# It covers what others wrote.  Some of that may have gone already.
has_it(0, other.flush)
