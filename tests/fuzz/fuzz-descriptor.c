/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The descriptor of an exported mmap, from anybody.  The first byte says how:
 * bit 0, with a key; bit 1, with the frame repaired, so that what is inside is
 * reached.
 */

#include <stdlib.h>

#include "tests/fuzz/descriptor-fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was believed must be so, and must read the same when written again. */
static void must_be_sound(const struct descriptor *d)
{
	uint8_t again[DESCRIPTOR_MAX];
	struct descriptor e;
	int n = descriptor_format(again, d, NULL, 0, FIXTURE_CALL);

	if (n < 0 || descriptor_parse(&e, again, (size_t)n, NULL, 0,
				      FIXTURE_NOW, FIXTURE_CALL))
		abort();
	if (!d->len || d->len > INT64_MAX || d->addr + d->len < d->addr ||
	    !d->permissions || d->permissions > 7 ||
	    (d->kind != DESCRIPTOR_DEVICE &&
	     (!(d->permissions & DESCRIPTOR_READ) || d->permissions > 3)) ||
	    strcmp(d->provider, e.provider) || d->n_bytes != e.n_bytes ||
	    memcmp(d->bytes, e.bytes, d->n_bytes) ||
	    d->len != e.len || d->permissions != e.permissions ||
	    d->kind != e.kind || d->pid != e.pid || d->addr != e.addr)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *key = size && data[0] & 1 ? fixture_key : NULL;
	size_t len = size ? size - 1 : 0;
	struct descriptor d;
	uint8_t *copy;

	if (!size || len > 2 * DESCRIPTOR_MAX)
		return 0;
	copy = malloc(len ? len : 1);	/* Of this size, for ASan. */
	if (!copy)
		return 0;
	memcpy(copy, data + 1, len);
	if (data[0] & 2)
		fixture_repair(copy, len, key != NULL);
	if (!descriptor_parse(&d, copy, len, key, key ? sizeof(fixture_key) : 0,
			      FIXTURE_NOW, FIXTURE_CALL))
		must_be_sound(&d);
	free(copy);
	return 0;
}
