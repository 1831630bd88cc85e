/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the guest says to the host through its one port: frames, one after the
 * other.  One port, so that output and status cannot overtake one another, and
 * what is written to stdout and stderr arrives in the order it was written.
 */
#ifndef WEIR_VM_FRAME_H
#define WEIR_VM_FRAME_H

#include <stdint.h>

enum {
	FRAME_STARTED = 'S', /* Booted: what follows is the command's. */
	FRAME_OUT = 1,	     /* Of standard output; equals its descriptor. */
	FRAME_ERR = 2,
	FRAME_STATUS = 'X', /* It ended with this status: four bytes. */
};

struct frame {
	uint32_t kind;
	uint32_t length; /* Of what follows, at most FRAME_MOST. */
};

/* The kernel takes at most 32 KiB in one write. */
#define FRAME_MOST (16 << 10)

#endif
