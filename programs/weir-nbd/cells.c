/* SPDX-License-Identifier: CC0-1.0 */
/* Places in a slab: runs of cells, the first that is long enough. */
#include "weir-nbd.h"

static bool is_taken(const struct cells *cells, uint32_t i)
{
	return cells->taken[i / 64] >> i % 64 & 1;
}

static void flip(struct cells *cells, uint32_t first, uint32_t n)
{
	for (uint32_t i = first; i < first + n; i++)
		cells->taken[i / 64] ^= UINT64_C(1) << i % 64;
}

/* Returns the first of @n cells, or -1: there is no such run. */
int cells_take(struct cells *cells, uint32_t n)
{
	uint32_t i = 0, run = 0;

	while (i < CELLS && run < n) {
		if (i % 64 == 0 && cells->taken[i / 64] == UINT64_MAX) {
			i += 64;
			run = 0;
			continue;
		}
		run = is_taken(cells, i) ? 0 : run + 1;
		i++;
	}
	if (run < n)
		return -1;
	flip(cells, i - n, n);
	return (int)(i - n);
}

void cells_give(struct cells *cells, uint32_t first, uint32_t n)
{
	flip(cells, first, n);
}
