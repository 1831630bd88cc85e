/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_FUZZ_DESCRIPTOR_FIXTURE_H
#define TESTS_FUZZ_DESCRIPTOR_FIXTURE_H

/*
 * What the fuzz target of descriptors, its seeds and the test share: sound
 * descriptors, and the repair of unsound ones.  Without repair hardly any
 * mutation would come past the CRC and the MAC.
 */

#include <string.h>

#include "base/crc32c.h"
#include "mem/export/descriptor.h"

#define FIXTURE_CALL "fixture"
#define FIXTURE_NOW 1000000
#define FIXTURE_DESCRIPTORS 32

static const char fixture_key[32] = "a key of thirty-two bytes, a key";

/* Sound ones, by number; returns 0 after the last. */
static inline int fixture_descriptor(struct descriptor *d, unsigned int i)
{
	memset(d, 0, sizeof(*d));
	memset(d->export_id, 0xa5, sizeof(d->export_id));
	d->generation = 7 + ((uint64_t)i << 60);
	d->len = i & 4 ? INT64_MAX - 0x7f0000001000 : 1;
	d->not_after = i & 1 ? FIXTURE_NOW : 0;
	d->permissions = DESCRIPTOR_READ | (i & 2 ? DESCRIPTOR_WRITE : 0);
	d->kind = (const uint32_t[]){
		DESCRIPTOR_MEMFD,
		DESCRIPTOR_PROCESS,
		DESCRIPTOR_DEVICE,
		DESCRIPTOR_DEVICE,
	}[i / 8 % 4];
	for (int k = 0; k < DESCRIPTOR_FILES && d->kind < DESCRIPTOR_DEVICE; k++)
		d->files[k] = (struct descriptor_file){ 28, 77 + (uint64_t)k };
	if (d->kind != DESCRIPTOR_MEMFD)
		d->addr = 0x7f0000001000;
	if (d->kind == DESCRIPTOR_PROCESS) {
		d->pid = 4711;
		d->start_time = 123456789;
	}
	if (d->kind == DESCRIPTOR_DEVICE)
		d->addr = i & 1 ? d->addr : 0;
	if (d->kind == DESCRIPTOR_DEVICE && i / 8 % 4 == 2) {	/* As by RDMA. */
		d->permissions += i & 2 ? DESCRIPTOR_ATOMIC - 1 : 0;
		memcpy(d->provider, "verbs", 5);
		d->n_bytes = 16;
		memset(d->bytes, 0x11, i & 4 ? 15 : 12);
	} else if (d->kind == DESCRIPTOR_DEVICE) {
		memcpy(d->provider, "a provider of a card and of more", 31);
		memset(d->provider + 1 + i % 4 * 10, 0, 31 - i % 4 * 10);
		d->n_bytes = i & 4 ? 13 : i & 2 ? DESCRIPTOR_BYTES_MAX : 0;
		memset(d->bytes, 0x3c, d->n_bytes);
	}
	return i < FIXTURE_DESCRIPTORS;
}

static inline void fixture_put(uint8_t *p, uint64_t value, unsigned int bytes)
{
	unsigned int i;

	for (i = 0; i < bytes; i++)
		p[i] = (uint8_t)(value >> 8 * i);
}

/* Make the frame of these @len bytes sound, whatever is in them. */
static inline void fixture_repair(uint8_t *p, size_t len, int with_key)
{
	size_t before = len - 8 - DESCRIPTOR_MAC_LEN;

	if (len < DESCRIPTOR_HEADER)
		return;
	memcpy(p, "weirmmap\1", 9);
	fixture_put(p + 10, with_key ? DESCRIPTOR_MAC : 0, 2);
	fixture_put(p + 12, len, 4);
	fixture_put(p + 16, 0, 4);
	if (with_key && len >= DESCRIPTOR_HEADER + 8 + DESCRIPTOR_MAC_LEN) {
		fixture_put(p + before,
			    DESCRIPTOR_FIELD_MAC | DESCRIPTOR_CRITICAL, 4);
		fixture_put(p + before + 4, DESCRIPTOR_MAC_LEN, 4);
		(void)descriptor_mac(p + before + 8, p, before + 8, fixture_key,
				     sizeof(fixture_key), FIXTURE_CALL);
	}
	fixture_put(p + 16, crc32c(0, p, len), 4);
}

#endif /* TESTS_FUZZ_DESCRIPTOR_FIXTURE_H */
