/* SPDX-License-Identifier: BSD-3-Clause */

/* The card of the tutorial, as a file that weir info loads. */

#include "examples/card.c"

__attribute__((constructor)) static void begin(void)
{
	if (card_register())
		abort();
}
