/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_NBD_PLUGIN_H
#define TESTS_NBD_PLUGIN_H

/* What tests know of nbd-plugin.c: its size, and what happens to a move that
 * begins exactly at one of these offsets. */

#define PLUGIN_BYTES (2u << 20)
#define PLUGIN_ADDR UINT64_C(0x7000000) /* Of its first byte, in its domain. */
#define PLUGIN_FILLED 0xee /* What its fill leaves. */

enum {
	PLUGIN_REFUSES = 1 << 20, /* -ENOSPC, at once. */
	PLUGIN_FAILS = PLUGIN_REFUSES + 4096, /* -EIO, later. */
	PLUGIN_ENDS_EARLY = PLUGIN_FAILS + 4096, /* After a byte. */
	PLUGIN_BUSY =
		PLUGIN_ENDS_EARLY + 4096, /* -EAGAIN, twice of three times. */
	PLUGIN_LATE = PLUGIN_BUSY + 4096, /* Done in 20 ms. */
	PLUGIN_NEVER = PLUGIN_LATE + 4096, /* Not before it is cancelled. */
};

#endif /* TESTS_NBD_PLUGIN_H */
