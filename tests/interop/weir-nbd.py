# SPDX-License-Identifier: BSD-3-Clause
"""Each command and flag of NBD_URI's export, by libnbd, which checks replies."""

import errno
import os

import nbd

MIB = 1 << 20


def connect(structured=True):
    """A handle that lets everything pass, wrong or not."""
    h = nbd.NBD()
    h.set_strict_mode(0)
    h.set_request_structured_replies(structured)
    h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    h.set_uri_allow_local_file(True)
    h.connect_uri(os.environ["NBD_URI"])
    return h


def fails(number, fn, *args, **named):
    """The server says this error, and goes on."""
    try:
        fn(*args, **named)
    except nbd.Error as e:
        assert e.errnum == number, e
    else:
        raise AssertionError("no error")


def extents(h, length, offset, flags=0):
    """What a block status tells: pairs of length and state."""
    found = []

    def on_extent(context, at, entries, _error):
        assert context == nbd.CONTEXT_BASE_ALLOCATION and at == offset
        found.extend(zip(entries[::2], entries[1::2]))

    h.block_status(length, offset, on_extent, flags)
    return found


def data(h):
    """Reads and writes."""
    size = h.get_size()
    block = os.urandom(MIB + 1)
    h.pwrite(block, 4095)
    assert h.pread(len(block), 4095) == block
    h.pwrite(block[:512], size - 512, nbd.CMD_FLAG_FUA)
    assert h.pread(512, size - 512) == block[:512]
    h.flush()
    h.cache(MIB, 0)
    fails(errno.ENOSPC, h.pwrite, block, size - 512)
    fails(errno.EINVAL, h.pread, 1024, size - 512)
    fails(errno.EINVAL, h.cache, 1024, size)


def zeroes(h):
    """Zeroes of all kinds, and holes."""
    for flags in 0, nbd.CMD_FLAG_NO_HOLE, nbd.CMD_FLAG_FUA:
        h.pwrite(b"x" * MIB, 0)
        h.zero(MIB - 2, 1, flags)
        assert h.pread(MIB, 0) == b"x" + bytes(MIB - 2) + b"x"
    try:
        h.zero(MIB, 0, nbd.CMD_FLAG_FAST_ZERO)
        assert h.pread(MIB, 0) == bytes(MIB)
    except nbd.Error as e:
        assert e.errnum == errno.ENOTSUP, e
    h.trim(MIB, MIB)
    fails(errno.ENOSPC, h.zero, MIB, h.get_size())
    fails(errno.EINVAL, h.trim, MIB, h.get_size())


def status(h):
    """Extents add up, and one is one."""
    found = extents(h, 4 * MIB, 0)
    assert sum(length for length, _ in found) == 4 * MIB
    assert len(extents(h, 4 * MIB, 0, nbd.CMD_FLAG_REQ_ONE)) == 1
    fails(errno.EINVAL, extents, h, 512, h.get_size())


def many(h):
    """Sixty-four reads in flight."""
    bufs = [nbd.Buffer(65536) for _ in range(64)]
    cookies = [h.aio_pread(b, i * 4096) for i, b in enumerate(bufs)]
    while cookies:
        h.poll(-1)
        cookies = [c for c in cookies if not h.aio_command_completed(c)]


for wanted in True, False:
    handle = connect(wanted)
    data(handle)
    zeroes(handle)
    many(handle)
    if wanted:
        status(handle)
        assert len(handle.pread(65536, 0, nbd.CMD_FLAG_DF)) == 65536
    handle.shutdown()
