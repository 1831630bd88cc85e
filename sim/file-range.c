/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of bytes of a file: what takes space, what is bad. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/file.h"

/* The first range that ends after @off. */
static uint32_t place(const struct ranges *set, uint64_t off)
{
	uint32_t low = 0, high = set->n, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (set->at[mid].to <= off)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int reserve(struct ranges *set)
{
	uint32_t max = set->max ? 2 * set->max : 4;
	struct range *at;

	if (set->n < set->max)
		return 0;
	at = realloc(set->at, max * sizeof(*at));
	if (!at)
		return -ENOMEM;
	set->at = at;
	set->max = max;
	return 0;
}

/* Have @n ranges from @i on be @by instead; 0 or 1 of it. */
static void replace(struct ranges *set, uint32_t i, uint32_t n,
		    const struct range *by)
{
	uint32_t one = by ? 1 : 0;

	memmove(set->at + i + one, set->at + i + n,
		(set->n - i - n) * sizeof(*set->at));
	if (by)
		set->at[i] = *by;
	set->n = set->n - n + one;
}

int ranges_add(struct ranges *set, uint64_t from, uint64_t to)
{
	struct range whole = { from, to };
	uint32_t i, end;

	if (from >= to)
		return 0;
	if (reserve(set))
		return -ENOMEM;
	i = from ? place(set, from - 1) : 0;
	for (end = i; end < set->n && set->at[end].from <= to; end++) {
		if (set->at[end].from < whole.from)
			whole.from = set->at[end].from;
		if (set->at[end].to > whole.to)
			whole.to = set->at[end].to;
	}
	replace(set, i, end - i, &whole);
	return 0;
}

int ranges_del(struct ranges *set, uint64_t from, uint64_t to)
{
	struct range after;
	uint32_t i, end;

	if (from >= to)
		return 0;
	if (reserve(set))
		return -ENOMEM;
	i = place(set, from);
	if (i < set->n && set->at[i].from < from) {
		after = (struct range){ to, set->at[i].to };
		set->at[i++].to = from;
		if (after.to > to) {
			replace(set, i, 0, &after);
			return 0;
		}
	}
	for (end = i; end < set->n && set->at[end].to <= to; end++)
		;
	if (end < set->n && set->at[end].from < to)
		set->at[end].from = to;
	replace(set, i, end - i, NULL);
	return 0;
}

uint64_t ranges_in(const struct ranges *set, uint64_t from, uint64_t to)
{
	const struct range *r;
	uint64_t sum = 0;

	for (uint32_t i = place(set, from); i < set->n; i++) {
		r = &set->at[i];
		if (r->from >= to)
			break;
		sum += (r->to < to ? r->to : to) -
		       (r->from > from ? r->from : from);
	}
	return sum;
}

uint64_t ranges_first(const struct ranges *set, uint64_t from, uint64_t to)
{
	uint32_t i = place(set, from);

	if (i == set->n || set->at[i].from >= to)
		return to;
	return set->at[i].from > from ? set->at[i].from : from;
}

uint64_t ranges_capacity(const struct ranges *set, uint64_t from, uint64_t to,
			 uint64_t capacity)
{
	uint64_t next;

	for (uint32_t i = place(set, from); from < to; i++) {
		next = i < set->n ? set->at[i].from : to;
		if (next > to)
			next = to;
		if (next > from && next - from > capacity)
			return from + capacity;
		if (next > from)
			capacity -= next - from;
		from = i < set->n ? set->at[i].to : to;
	}
	return to;
}

void ranges_fini(struct ranges *set)
{
	free(set->at);
	*set = (struct ranges){ 0 };
}
