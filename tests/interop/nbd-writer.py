# SPDX-License-Identifier: BSD-3-Clause
"""A client of the NBD server at the socket that is named, which writes blocks of 4 KiB,
"block 00000001" from 4096 on and so forth, and says the number of each when it is
durable: by a flush, or with the argument "fua" by that."""

import itertools
import os
import sys
import time

import nbd

BLOCK = 4096

while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
h = nbd.NBD()
h.connect_unix(sys.argv[1])
for i in itertools.count(1):
    block = f"block {i:08}".encode().ljust(BLOCK, b"\0")
    if sys.argv[2] == "fua":
        h.pwrite(block, i * BLOCK, nbd.CMD_FLAG_FUA)
    else:
        h.pwrite(block, i * BLOCK)
        h.flush()
    print(i, flush=True)
