/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_STATS_PAGE_H
#define WEIR_REACTOR_STATS_PAGE_H

/*
 * The page of this process, for objects that publish statistics.
 *
 *	stats/page.c     the page of this process: create, remove
 *	stats/publish.c  a reactor's part: when it writes, and its own sections
 *	stats/read.c     reading a page;  stats/ask.c  the getters for readers
 *
 * An object that publishes embeds a struct stats_item, adds it with its kind,
 * and writes its words with stats_put() when it is called for that, on the
 * reactor's thread.  If there is no page, all of this does nothing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/stats.h>

struct stats_record;
struct weir_reactor;

/* A field of a kind; the words have the order of the fields. */
struct stats_field {
	const char *name;
	const char *help;	/* A line, 79 characters at most. */
	uint8_t type;
	uint8_t unit;
	uint16_t n_counters; /* 0: one. */
};

/* A kind of section. */
struct stats_kind {
	const char *name;
	const struct stats_field *fields;
	uint32_t n_fields;
	const void *id;		/* By which it is known: a table of fields. */
};

/* Tables of fields, line by line. */
#define STATS_COUNT(name, help) { name, help, WEIR_STATS_COUNTER, 0, 0 }
#define STATS_TIME(name, help) \
	{ name, help, WEIR_STATS_COUNTER, WEIR_STATS_NS, 0 }
#define STATS_BYTE_COUNT(name, help) \
	{ name, help, WEIR_STATS_COUNTER, WEIR_STATS_BYTES, 0 }
#define STATS_NOW(name, help) { name, help, WEIR_STATS_GAUGE, 0, 0 }
#define STATS_BYTES_NOW(name, help) \
	{ name, help, WEIR_STATS_GAUGE, WEIR_STATS_BYTES, 0 }

#define STATS_KIND(name, fields) \
	{ name, fields, sizeof(fields) / sizeof((fields)[0]), fields }

/* Check that the words of @type from @member to its end match @fields. */
#define STATS_FITS(fields, type, member)                              \
	_Static_assert(sizeof(type) - offsetof(type, member) ==       \
		       sizeof(fields) / sizeof((fields)[0]) * 8,      \
		       "a field for each word")

/*
 * A record of @kind, part of the section @parent (0: of none); NULL if this
 * process has no page or it is full.  Any thread; takes a lock.
 */
struct stats_record *stats_record_add(const struct stats_kind *kind,
				      uint32_t parent, const char *label);

/* Remove its section.  NULL is allowed.  Any thread; takes a lock. */
void stats_record_del(struct stats_record *record);

uint32_t stats_record_id(const struct stats_record *record);

/* Write all words of @record, if it belongs to this process.  One thread at a
 * time. */
void stats_put(struct stats_record *record, uint64_t now_ns,
	       const void *counters);

/* Whether there is a page; if WEIR_STATS asks for one, it is made now. */
bool stats_wanted(void);

/* The statistics that a reactor publishes, embedded in it. */
struct stats_item {
	struct stats_record *record;	/* NULL: it does not. */
	void (*publish)(struct stats_item *item, uint64_t now_ns);
	uint32_t n_counters;
	struct weir_reactor *r;
	struct stats_item *next;
	struct stats_item **pprev;
};

/*
 * Have @r publish @item, zeroed before, by @publish, as a section of @kind that
 * is part of section @parent, 0: of the reactor's.  On @r's thread.
 */
void stats_item_add(struct weir_reactor *r, struct stats_item *item,
		    const struct stats_kind *kind,
		    void (*publish)(struct stats_item *item, uint64_t now_ns),
		    uint32_t parent, const char *label);

/* Stop publishing; does nothing if it does not.  On the reactor's thread. */
void stats_item_del(struct stats_item *item);

#endif /* WEIR_REACTOR_STATS_PAGE_H */
