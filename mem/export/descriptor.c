/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The descriptor of an exported mmap, written and read.
 *
 * What is read is hostile.  Every byte goes through get(), which takes from a
 * piece that is known to be there, and nothing is believed before the whole is
 * what it says: length, CRC, MAC, then the fields.
 */

#include "mem/export/descriptor.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/why.h"

#define CRC_OFF 16
#define FIELD_HEADER 8
#define PROCESS_LEN 24
#define DEVICE_LEN (8 + DESCRIPTOR_NAME)	/* And the provider's bytes. */
#define FILES_LEN (16 * DESCRIPTOR_FILES)
#define MAC_FIELD (FIELD_HEADER + DESCRIPTOR_MAC_LEN)

static const char magic[8] = { 'w', 'e', 'i', 'r', 'm', 'm', 'a', 'p' };

static void put(uint8_t *p, uint64_t value, unsigned int bytes)
{
	unsigned int i;

	for (i = 0; i < bytes; i++)
		p[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *p, unsigned int bytes)
{
	uint64_t value = 0;
	unsigned int i;

	for (i = 0; i < bytes; i++)
		value |= (uint64_t)p[i] << 8 * i;
	return value;
}

/* Of the @len bytes at @p, the four of the CRC itself taken as 0. */
static uint32_t crc_of(const uint8_t *p, size_t len)
{
	static const uint8_t zeros[4];
	uint32_t crc = crc32c(0, p, CRC_OFF);

	crc = crc32c(crc, zeros, sizeof(zeros));
	return crc32c(crc, p + CRC_OFF + 4, len - CRC_OFF - 4);
}

/* Over a copy, for the CRC in it is taken as 0: it covers the MAC. */
static int mac_of(uint8_t mac[DESCRIPTOR_MAC_LEN], const uint8_t *p, size_t len,
		  const void *key, size_t key_len, const char *call)
{
	uint8_t copy[DESCRIPTOR_MAX];

	memcpy(copy, p, len);
	memset(copy + CRC_OFF, 0, 4);
	return descriptor_mac(mac, copy, len, key, key_len, call);
}

static void put_header(uint8_t *p, const struct descriptor *d, size_t len,
		       bool has_mac)
{
	memcpy(p, magic, sizeof(magic));
	p[8] = DESCRIPTOR_MAJOR;
	p[9] = DESCRIPTOR_MINOR;
	put(p + 10, has_mac ? DESCRIPTOR_MAC : 0, 2);
	put(p + 12, len, 4);
	put(p + 20, d->kind, 4);
	memcpy(p + 24, d->export_id, sizeof(d->export_id));
	put(p + 40, d->generation, 8);
	put(p + 48, d->len, 8);
	put(p + 56, d->not_after, 8);
	put(p + 64, d->permissions, 4);
}

/* Returns the place of its value. */
static uint8_t *put_field(uint8_t *p, unsigned int type, size_t len)
{
	put(p, type | DESCRIPTOR_CRITICAL, 2);
	put(p + 4, len, 4);
	return p + FIELD_HEADER;
}

static size_t put_files(uint8_t *p, const struct descriptor *d)
{
	int i;

	p = put_field(p, DESCRIPTOR_FIELD_FILES, FILES_LEN);
	for (i = 0; i < DESCRIPTOR_FILES; i++, p += 16) {
		put(p, d->files[i].dev, 8);
		put(p + 8, d->files[i].ino, 8);
	}
	return FIELD_HEADER + FILES_LEN;
}

static bool kind_has_files(uint32_t kind)
{
	return kind == DESCRIPTOR_MEMFD || kind == DESCRIPTOR_PROCESS;
}

static size_t put_device(uint8_t *p, const struct descriptor *d)
{
	p = put_field(p, DESCRIPTOR_FIELD_DEVICE, DEVICE_LEN + d->n_bytes);
	put(p, d->addr, 8);
	memcpy(p + 8, d->provider, DESCRIPTOR_NAME);
	memcpy(p + DEVICE_LEN, d->bytes, d->n_bytes);
	return FIELD_HEADER + ((DEVICE_LEN + d->n_bytes + 7) & ~(size_t)7);
}

/* What belongs to the kind.  Returns its bytes. */
static size_t put_kind(uint8_t *p, const struct descriptor *d)
{
	size_t len = 0;

	if (kind_has_files(d->kind))
		len = put_files(p, d);
	p += len;
	if (d->kind == DESCRIPTOR_PROCESS) {
		p = put_field(p, DESCRIPTOR_FIELD_PROCESS, PROCESS_LEN);
		put(p, d->pid, 8);
		put(p + 8, d->start_time, 8);
		put(p + 16, d->addr, 8);
		return len + FIELD_HEADER + PROCESS_LEN;
	}
	return d->kind == DESCRIPTOR_DEVICE ? put_device(p, d) : len;
}

int descriptor_format(uint8_t *buf, const struct descriptor *d,
		      const void *key, size_t key_len, const char *call)
{
	size_t len = DESCRIPTOR_HEADER, total;
	uint8_t *p;
	int err;

	memset(buf, 0, DESCRIPTOR_MAX);
	len += put_kind(buf + len, d);
	total = len + (key ? MAC_FIELD : 0);
	put_header(buf, d, total, key);
	if (key) {
		p = put_field(buf + len, DESCRIPTOR_FIELD_MAC,
			      DESCRIPTOR_MAC_LEN);
		err = mac_of(p, buf, len + FIELD_HEADER, key, key_len, call);
		if (err)
			return err;
	}
	put(buf + CRC_OFF, crc_of(buf, total), 4);
	return (int)total;
}

static int bad(const char *call, const char *what)
{
	return why(-EBADMSG, "%s: the descriptor is not one: %s", call, what);
}

/* Is it a whole descriptor of ours, undamaged? */
static int check_frame(const uint8_t *p, size_t len, const char *call)
{
	if (len < sizeof(magic) || memcmp(p, magic, sizeof(magic)))
		return bad(call, "it does not begin like one");
	if (len < DESCRIPTOR_HEADER)
		return bad(call, "it is cut off in its header");
	if (p[8] != DESCRIPTOR_MAJOR)
		return why(-EPROTONOSUPPORT, "%s: the descriptor has version "
			   "%u.%u, this library knows %d", call, p[8], p[9],
			   DESCRIPTOR_MAJOR);
	if (len > DESCRIPTOR_MAX)
		return bad(call, "it is too long");
	if (get(p + 12, 4) != len)
		return bad(call, "it has another length than it says");
	if (get(p + CRC_OFF, 4) != crc_of(p, len))
		return bad(call, "it is damaged");
	if (get(p + 10, 2) & ~DESCRIPTOR_MAC)
		return why(-EPROTONOSUPPORT, "%s: the descriptor has flags "
			   "that this library does not know", call);
	return 0;
}

/* In a time that does not depend on where they differ. */
static bool same_mac(const uint8_t *a, const uint8_t *b)
{
	unsigned int i, differ = 0;

	for (i = 0; i < DESCRIPTOR_MAC_LEN; i++)
		differ |= a[i] ^ b[i];
	return !differ;
}

/* Without one, *@len stays; else it becomes that of what the MAC follows. */
static int check_mac(const uint8_t *p, size_t *len, const void *key,
		     size_t key_len, const char *call)
{
	bool has_mac = get(p + 10, 2) & DESCRIPTOR_MAC;
	uint8_t mac[DESCRIPTOR_MAC_LEN];
	size_t before;
	int err;

	if (!has_mac && !key)
		return 0;
	if (!has_mac)
		return why(-EKEYREJECTED, "%s: the descriptor has no MAC, but "
			   "a key is given", call);
	if (!key)
		return why(-EKEYREJECTED, "%s: the descriptor has a MAC; give "
			   "the key it was made with", call);
	if (*len < DESCRIPTOR_HEADER + MAC_FIELD)
		return bad(call, "it has no space for its MAC");
	before = *len - MAC_FIELD;
	err = mac_of(mac, p, before + FIELD_HEADER, key, key_len, call);
	if (err)
		return err;
	if (!same_mac(mac, p + before + FIELD_HEADER))
		return why(-EKEYREJECTED, "%s: the descriptor was not made "
			   "with this key", call);
	if (get(p + before, 8) != (DESCRIPTOR_FIELD_MAC | DESCRIPTOR_CRITICAL |
				   (uint64_t)DESCRIPTOR_MAC_LEN << 32))
		return bad(call, "its MAC is in the wrong place");
	*len = before;
	return 0;
}

static bool all_zero(const uint8_t *p, size_t len)
{
	while (len && !*p)
		p++, len--;
	return !len;
}

static int read_process(struct descriptor *d, const uint8_t *p, size_t len,
			const char *call)
{
	if (d->pid)
		return bad(call, "a field is there twice");
	if (len != PROCESS_LEN)
		return bad(call, "a field has a wrong length");
	d->pid = get(p, 8);
	d->start_time = get(p + 8, 8);
	d->addr = get(p + 16, 8);
	if (!d->pid || d->pid > INT32_MAX || !d->addr || d->addr > INT64_MAX ||
	    d->len > INT64_MAX - d->addr)
		return bad(call, "it names no memory of a process");
	return 0;
}

/* Every file but a pidfd has a number. */
static bool has_files(const struct descriptor *d)
{
	return d->files[1].dev || d->files[1].ino;
}

static int read_files(struct descriptor *d, const uint8_t *p, size_t len,
		      const char *call)
{
	int i;

	if (has_files(d))
		return bad(call, "a field is there twice");
	if (len != FILES_LEN)
		return bad(call, "a field has a wrong length");
	for (i = 0; i < DESCRIPTOR_FILES; i++, p += 16) {
		d->files[i].dev = get(p, 8);
		d->files[i].ino = get(p + 8, 8);
	}
	return has_files(d) ? 0 : bad(call, "it names no files");
}

static int read_device(struct descriptor *d, const uint8_t *p, size_t len,
		       const char *call)
{
	const uint8_t *end;

	if (d->provider[0])
		return bad(call, "a field is there twice");
	if (len < DEVICE_LEN || len > DEVICE_LEN + DESCRIPTOR_BYTES_MAX)
		return bad(call, "a field has a wrong length");
	d->addr = get(p, 8);
	end = memchr(p + 8, 0, DESCRIPTOR_NAME);
	if (!p[8] || !end ||
	    !all_zero(end, (size_t)(p + DEVICE_LEN - end)) ||
	    d->addr > INT64_MAX || d->len > INT64_MAX - d->addr)
		return bad(call, "it names no provider's memory");
	memcpy(d->provider, p + 8, DESCRIPTOR_NAME);
	d->n_bytes = (uint32_t)(len - DEVICE_LEN);
	memcpy(d->bytes, p + DEVICE_LEN, d->n_bytes);
	return 0;
}

static int read_field(struct descriptor *d, unsigned int type,
		      const uint8_t *p, size_t len, const char *call)
{
	if (type == (DESCRIPTOR_FIELD_PROCESS | DESCRIPTOR_CRITICAL))
		return read_process(d, p, len, call);
	if (type == (DESCRIPTOR_FIELD_FILES | DESCRIPTOR_CRITICAL))
		return read_files(d, p, len, call);
	if (type == (DESCRIPTOR_FIELD_DEVICE | DESCRIPTOR_CRITICAL))
		return read_device(d, p, len, call);
	if ((type & ~DESCRIPTOR_CRITICAL) == DESCRIPTOR_FIELD_DEVICE ||
	    (type & ~DESCRIPTOR_CRITICAL) == DESCRIPTOR_FIELD_PROCESS ||
	    (type & ~DESCRIPTOR_CRITICAL) == DESCRIPTOR_FIELD_FILES ||
	    (type & ~DESCRIPTOR_CRITICAL) == DESCRIPTOR_FIELD_MAC)
		return bad(call, "a field is out of place");
	if (type & DESCRIPTOR_CRITICAL)
		return why(-EPROTONOSUPPORT, "%s: the descriptor has field "
			   "%#x, which must be understood and is not known "
			   "here", call, type);
	return 0;
}

static int read_fields(struct descriptor *d, const uint8_t *p, size_t left,
		       const char *call)
{
	size_t len, padded;
	int err;

	while (left) {
		if (left < FIELD_HEADER)
			return bad(call, "bytes trail it");
		len = (size_t)get(p + 4, 4);
		if (len > left - FIELD_HEADER)
			return bad(call, "a field does not end in it");
		padded = (len + 7) & ~(size_t)7;
		if (padded > left - FIELD_HEADER || get(p + 2, 2) ||
		    !all_zero(p + FIELD_HEADER + len, padded - len))
			return bad(call, "a field is not padded with zeros");
		err = read_field(d, (unsigned int)get(p, 2), p + FIELD_HEADER,
				 len, call);
		if (err)
			return err;
		p += FIELD_HEADER + padded;
		left -= FIELD_HEADER + padded;
	}
	return 0;
}

static bool makes_sense(const struct descriptor *d)
{
	uint32_t p = d->permissions;

	if (d->kind == DESCRIPTOR_DEVICE)
		return p && p <= (DESCRIPTOR_READ | DESCRIPTOR_WRITE |
				  DESCRIPTOR_ATOMIC);
	return p == DESCRIPTOR_READ ||
	       p == (DESCRIPTOR_READ | DESCRIPTOR_WRITE);
}

static int read_header(struct descriptor *d, const uint8_t *p, const char *call)
{
	memcpy(d->export_id, p + 24, sizeof(d->export_id));
	d->kind = (uint32_t)get(p + 20, 4);
	d->generation = get(p + 40, 8);
	d->len = get(p + 48, 8);
	d->not_after = get(p + 56, 8);
	d->permissions = (uint32_t)get(p + 64, 4);

	if (d->kind != DESCRIPTOR_MEMFD && d->kind != DESCRIPTOR_PROCESS &&
	    d->kind != DESCRIPTOR_DEVICE)
		return why(-EPROTONOSUPPORT, "%s: the descriptor is of kind "
			   "%u, which is not known here", call, d->kind);
	if (!d->len || d->len > INT64_MAX)
		return bad(call, "it names no range");
	if (!makes_sense(d))
		return bad(call, "its permissions make no sense");
	if (get(p + 68, 4))
		return bad(call, "what must be 0 is not");
	return 0;
}

int descriptor_parse(struct descriptor *ret, const void *bytes, size_t len,
		     const void *key, size_t key_len, uint64_t now,
		     const char *call)
{
	struct descriptor d = { .pid = 0 };
	const uint8_t *p = bytes;
	int err = check_frame(p, len, call);

	if (!err)
		err = check_mac(p, &len, key, key_len, call);
	if (!err)
		err = read_header(&d, p, call);
	if (!err)
		err = read_fields(&d, p + DESCRIPTOR_HEADER,
				  len - DESCRIPTOR_HEADER, call);
	if (err)
		return err;
	if ((d.kind == DESCRIPTOR_PROCESS) != (d.pid != 0) ||
	    kind_has_files(d.kind) != has_files(&d) ||
	    (d.kind == DESCRIPTOR_DEVICE) != (d.provider[0] != 0))
		return bad(call, "its fields are those of another kind");
	if (d.not_after && now > d.not_after)
		return why(-EKEYEXPIRED, "%s: the descriptor has expired; ask "
			   "for a new one", call);
	*ret = d;
	return 0;
}
