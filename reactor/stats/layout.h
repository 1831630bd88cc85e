/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_STATS_LAYOUT_H
#define WEIR_REACTOR_STATS_LAYOUT_H

/*
 * The layout of a page of statistics in its file, as <weir/stats.h> promises
 * it.
 *
 *	header    which process, when, and where the rest is
 *	kinds     of sections: a name, and which fields they have
 *	fields    a name, a unit, a line of help, and which words they are
 *	records   one behind the other: a head, then words of 64 bits
 *
 * The header has the sizes of the four, which a later version may make larger:
 * members that a reader does not know follow those that it knows, and are
 * skipped.  Numbers have the byte order of the machine; a page of another byte
 * order has another magic number.
 *
 * A record's .seq is odd while it is written.  If a reader finds it even, and
 * the same before and after it has copied the words, the copy is consistent.
 * The words of a record are written by one thread at a time.
 *
 * If .offered is not 0, the process writes only until .wanted_ns, which readers
 * set: that is all that they write.
 *
 * Records are never moved.  A record whose section is gone has .kind 0, and is
 * used again for one of the same size.  Records end at the header's .used.
 */

#include <stdint.h>

#define STATS_MAGIC UINT64_C(0x7461747372696577)	/* "weirstat" */
#define STATS_MAJOR 1u		/* Another one cannot be read. */
#define STATS_VERSION (STATS_MAJOR << 16 | 0)

#define STATS_SIZE_MAX (UINT64_C(16) << 20)	/* Size of the file. */
#define STATS_KINDS_MAX 64u
#define STATS_FIELDS_MAX 512u
#define STATS_COUNTERS_MAX 4096u /* In a record. */
#define STATS_ALIGN 64u				/* Number of records. */

struct stats_header {
	uint64_t magic;
	uint32_t version;
	uint32_t header_size;
	uint32_t kind_size;
	uint32_t field_size;
	uint32_t record_size;	/* Bytes of a head; words follow. */
	uint32_t n_kinds;
	uint32_t n_fields;
	uint32_t offered;
	uint64_t kinds_at;
	uint64_t fields_at;
	uint64_t records_at;
	uint64_t used;		/* Offset of the records' end. */
	uint64_t left_out;
	int64_t pid;
	uint64_t pid_ns;
	uint64_t start_ticks;	/* Of the process, from /proc. */
	uint64_t since_ns;	/* CLOCK_REALTIME */
	char program[64];
	char weir[16];
	uint64_t wanted_ns;	/* CLOCK_MONOTONIC */
};

struct stats_kind_entry {
	char name[32];
	uint32_t first_field;
	uint32_t n_fields;
	uint32_t reserved[6];
};

struct stats_field_entry {
	char name[32];
	char help[80];
	uint16_t counter; /* The first. */
	uint16_t n_counters;
	uint8_t type;		/* WEIR_STATS_COUNTER, ... */
	uint8_t unit;		/* WEIR_STATS_NS, ... */
	uint8_t shift;		/* Of a histogram, see below. */
	uint8_t sub_bits;
	uint64_t reserved;
};

struct stats_record {
	uint32_t size;		/* All of it, a multiple of STATS_ALIGN. */
	uint32_t kind;		/* Its number + 1; 0: not in use. */
	uint32_t n_counters;
	uint32_t id;
	uint32_t parent;
	uint32_t reserved;
	uint64_t seq;
	uint64_t stamp_ns;	/* CLOCK_MONOTONIC */
	char label[88];
	uint64_t counters[];
};

_Static_assert(sizeof(struct stats_header) == 200, "part of the format");
_Static_assert(sizeof(struct stats_kind_entry) == 64, "part of the format");
_Static_assert(sizeof(struct stats_field_entry) == 128, "part of the format");
_Static_assert(sizeof(struct stats_record) == 128, "part of the format");

/*
 * Histograms.  Values are counted in units of 2^shift; those below 2^(sub+1)
 * have a bucket each, and from there on each power of 2 has 2^sub.  The last
 * bucket has all that is larger.
 */
#define HISTOGRAM_SHIFT 6	/* 64 ns */
#define HISTOGRAM_SUB 3
#define HISTOGRAM_COUNTERS 216u /* The last begins at 32 s. */

static inline uint32_t histogram_bucket(uint64_t value)
{
	unsigned int e;
	uint64_t k;

	value >>= HISTOGRAM_SHIFT;
	if (value < 2u << HISTOGRAM_SUB)
		return (uint32_t)value;
	e = 63u - HISTOGRAM_SUB - (unsigned int)__builtin_clzll(value);
	k = ((uint64_t)e << HISTOGRAM_SUB) + (value >> e);
	return k < HISTOGRAM_COUNTERS ? (uint32_t)k : HISTOGRAM_COUNTERS - 1;
}

/* Returns the lower bound of bucket @k; UINT64_MAX if it exceeds 64 bits. */
static inline uint64_t histogram_begin(uint32_t k, unsigned int shift,
				       unsigned int sub)
{
	unsigned int e = k >> sub;
	uint64_t m;

	if (e < 2)
		e = 0;
	else
		e--;
	m = k - ((uint64_t)e << sub);
	if (e + shift > 63 || m > UINT64_MAX >> (e + shift))
		return UINT64_MAX;
	return m << (e + shift);
}

#endif /* WEIR_REACTOR_STATS_LAYOUT_H */
