/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_DESCRIPTOR_H
#define WEIR_MEM_DESCRIPTOR_H

/*
 * The descriptor of an exported mmap: the bytes that go to another process,
 * beside the file descriptors.  This is the one place that writes and reads
 * them.  Little endian:
 *
 *	 0  8  magic "weirmmap"
 *	 8  1  major version: another one is refused
 *	 9  1  minor version: a newer one is read as far as it is known
 *	10  2  flags: DESCRIPTOR_MAC; an unknown one is refused
 *	12  4  bytes in all, which is exactly what there is
 *	16  4  CRC-32C of all bytes, these four taken as 0
 *	20  4  kind
 *	24 16  export id, random
 *	40  8  generation
 *	48  8  length of the range
 *	56  8  not after: seconds of the epoch; 0: no end
 *	64  4  permissions
 *	68  4  0
 *	72     fields, each
 *		 0  2  type; the top bit says that it is critical
 *		 2  2  0
 *		 4  4  length of the value
 *		 8     the value, and zeros up to a multiple of 8
 *
 * A critical field that is not known is refused, another one is passed over; a
 * known one comes once, and with the bit that it has here.  The MAC is the last
 * field and covers all before its value, the CRC taken as 0: so it is checked
 * before any field is looked at.
 *
 * The field of files, of the kinds that go with files: for each file descriptor, in their
 * order, of which file it is.  A pidfd has two zeros: the field of the process
 * says which one that is.
 *
 *	 0  8  device, as of fstat(2)
 *	 8  8  inode
 *	16     the next
 *
 * The field of a provider's device:
 *
 *	 0  8  address of the range, as importers name it
 *	 8 32  name of the provider, padded with zeros, of which there is one
 *	40     0 to 256 bytes of the provider's own
 */

#include <stddef.h>
#include <stdint.h>

#define DESCRIPTOR_MAJOR 1
#define DESCRIPTOR_MINOR 0
#define DESCRIPTOR_HEADER 72
#define DESCRIPTOR_MAX 1024	/* Bytes in all. */

#define DESCRIPTOR_MAC 1u	/* Flag: the last field is a MAC. */
#define DESCRIPTOR_MAC_LEN 32
#define DESCRIPTOR_KEY_MIN 16
#define DESCRIPTOR_KEY_MAX 64

enum descriptor_kind {
	DESCRIPTOR_MEMFD = 1,	/* Pages that are shared by a memfd. */
	DESCRIPTOR_PROCESS = 2,	/* Memory of a process, copied. */
	DESCRIPTOR_DEVICE = 3,	/* Memory that a provider's device has registered. */
};

enum descriptor_field {
	DESCRIPTOR_CRITICAL = 0x8000,
	DESCRIPTOR_FIELD_MAC = 1,
	DESCRIPTOR_FIELD_PROCESS = 2,
	DESCRIPTOR_FIELD_FILES = 3,
	DESCRIPTOR_FIELD_DEVICE = 4,
};

#define DESCRIPTOR_FILES 4	/* That go with memfds and processes. */

#define DESCRIPTOR_NAME 32	/* Of a provider, with its end. */
#define DESCRIPTOR_BYTES_MAX 256	/* Of a provider's own. */

#define DESCRIPTOR_READ 1u
#define DESCRIPTOR_WRITE 2u	/* Only a device's may come without READ. */
#define DESCRIPTOR_ATOMIC 4u	/* Only of a device's. */

/* Which file a file descriptor is of. */
struct descriptor_file {
	uint64_t dev, ino;
};

struct descriptor {
	uint8_t export_id[16];
	uint64_t generation;
	uint64_t len;
	uint64_t not_after;
	uint32_t kind;
	uint32_t permissions;

	/* DESCRIPTOR_MEMFD and _PROCESS.  The second is never all 0. */
	struct descriptor_file files[DESCRIPTOR_FILES];

	/* All but DESCRIPTOR_MEMFD. */
	uint64_t addr;

	/* DESCRIPTOR_PROCESS alone. */
	uint64_t pid;
	uint64_t start_time;	/* Of the process: field 22 of stat. */

	/* DESCRIPTOR_DEVICE alone. */
	char provider[DESCRIPTOR_NAME];	/* Not empty. */
	uint32_t n_bytes;
	uint8_t bytes[DESCRIPTOR_BYTES_MAX];
};

/*
 * Write @d to @buf, which has DESCRIPTOR_MAX bytes.  With @key, @key_len bytes
 * long, it gets a MAC; NULL means none.
 *
 * Returns the number of bytes, or -EOPNOTSUPP if there is a key but no
 * libsodium, or -EINVAL if the key is too short or too long; leaves a message
 * that begins with @call.
 */
int descriptor_format(uint8_t *buf, const struct descriptor *d,
		      const void *key, size_t key_len, const char *call);

/*
 * Read the @len bytes at @bytes, which may be anything, as a descriptor.  With
 * @key it must have a MAC made with that key, with NULL it must have none.
 * @now is the time, in seconds of the epoch.
 *
 * Returns 0 with *@ret filled in, or, with *@ret as it was and a message:
 *   -EBADMSG          not a descriptor, cut, damaged or contradictory
 *   -EPROTONOSUPPORT  made by a version that says what we do not know
 *   -EKEYREJECTED     the MAC is wrong, missing, or there for no key
 *   -EKEYEXPIRED      @now is after its end
 *   -EOPNOTSUPP       a key, and no libsodium
 *   -EINVAL           the key is too short or too long
 */
int descriptor_parse(struct descriptor *ret, const void *bytes, size_t len,
		     const void *key, size_t key_len, uint64_t now,
		     const char *call);

/*
 * export/descriptor-mac.c: the keyed BLAKE2b of a purpose and the @len bytes
 * at @p. Returns 0, -EINVAL for a key of a wrong length, or -EOPNOTSUPP.
 */
int descriptor_mac(uint8_t mac[DESCRIPTOR_MAC_LEN], const void *p, size_t len,
		   const void *key, size_t key_len, const char *call);

#endif /* WEIR_MEM_DESCRIPTOR_H */
