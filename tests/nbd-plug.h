/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_NBD_PLUG_H
#define TESTS_NBD_PLUG_H

/* What tests know of nbd-plug.c: its size, and what happens to a move that
 * begins exactly at one of these offsets. */

#define PLUG_BYTES (2u << 20)
#define PLUG_ADDR UINT64_C(0x7000000)	/* Of its first byte, in its domain. */
#define PLUG_FILLED 0xee		/* What its fill leaves. */

enum {
	PLUG_REFUSES = 1 << 20,		/* -ENOSPC, at once. */
	PLUG_FAILS = PLUG_REFUSES + 4096, /* -EIO, later. */
	PLUG_ENDS_EARLY = PLUG_FAILS + 4096, /* After a byte. */
	PLUG_BUSY = PLUG_ENDS_EARLY + 4096, /* -EAGAIN, twice of three times. */
	PLUG_LATE = PLUG_BUSY + 4096,	/* Done in 20 ms. */
	PLUG_NEVER = PLUG_LATE + 4096,	/* Not before it is cancelled. */
};

#endif /* TESTS_NBD_PLUG_H */
