/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_PROGRAMS_WORLDS_DISK_H
#define TESTS_PROGRAMS_WORLDS_DISK_H

/*
 * What a client of a disk may rely on, in a simulated world in which the disk's
 * server is killed and loses power: what was acknowledged is there as long as the
 * host has power, and what was flushed, or written with FUA, is there in any case.
 *
 * The client writes numbers to sectors, each greater than those before, and knows of
 * each sector the least number that it may have now (.least), and after a power cut
 * (.durable).  A write that was in flight when a connection ended may still happen
 * until the server's program ends (.loose).  An answer may arrive after that, and is
 * true of the time before.  After an error of a flush nothing more becomes durable
 * until the power was cut: the page cache may have forgotten what it did not write,
 * and the kernel tells that once.  The same holds if no client heard of the error.
 * After an error of a write with FUA the flushes of the same program tell the truth.
 *
 *	disk_begin()		sets it up
 *	disk_next() ...		requests, until it returns NULL
 *	disk_answered()		each of them has been answered, or else
 *	disk_interrupted()	it never will be, or
 *	disk_again()		the program that follows does it once more
 *	disk_server_ended()	the server's program was killed, or its power was cut
 */

#include <stdbool.h>
#include <stdint.h>

#include "tests/programs/worlds.h"

#define SECTOR 512u
#define SECTORS 1024u
#define DEPTH 8u
#define MOST 700u		/* Sectors of a request: more than a piece. */
#define END_NS (600 * WEIR_SEC)	/* Until all is well again, without faults. */

struct sector {
	uint32_t newest;	/* That was sent. */
	uint32_t least, durable;
	uint32_t loose;		/* The least that may still happen; 0: none. */
	uint32_t zeroed;	/* The newest that is zeros. */
	bool busy;		/* A write is in flight. */
	bool torn;		/* There may be something of several writes: the
				 * newest is not durable. */
};

enum want_kind { WANT_READ, WANT_WRITE, WANT_FLUSH, WANT_ZERO, WANT_TRIM };

struct want {
	enum want_kind kind;
	bool fua;
	uint32_t first, n;	/* Sectors. */
	uint32_t number;
	uint32_t program, power;	/* Of the server, when it was sent, */
	uint64_t errors;		/* and errors that the world had drawn. */
	uint32_t snapshot[SECTORS];	/* A flush: .least when it was sent. */
	bool used;
	bool late;		/* A flush of this program had failed before. */
};

struct disk {
	struct weir_sim *sim;
	uint32_t fua_of;	/* One of so many changes has FUA; 0: none. */
	bool checks, done;	/* All is read in the end; it was. */
	/* Of flushes, in this period of power, and in the one before: one has
	 * failed; after so many errors one began whose end is not known (plus
	 * 1; 0: none). */
	bool doubt[2];
	uint64_t unknown[2];
	uint32_t left;		/* Requests that are to be made, */
	uint32_t most;		/* of so many sectors at most. */
	uint32_t number, at;	/* The last number; the next sector to check. */
	uint32_t program, power; /* Of the server: how often each has ended. */
	bool lost;		/* A flush of this program has failed; */
	bool suspect;		/* or a write with FUA. */
	struct want wants[DEPTH];
	struct sector sectors[SECTORS];
	uint64_t verified;
};

/* How a request has ended. */
enum disk_result {
	DISK_OK,
	DISK_FAILED,		/* It may be done again. */
	DISK_LOST,		/* A flush: no later one of this program may succeed. */
};

extern struct disk disk;

/* There is a host "server" with an empty disk.img. */
void disk_begin(struct weir_sim *sim);

/* The next request, which is in flight now; NULL: there is none, or no place. */
struct want *disk_next(void);

/* What a write brings, of .n sectors. */
void disk_fill(const struct want *w, uint8_t *to);

/* @data: what was read. */
void disk_answered(struct want *w, enum disk_result res, const uint8_t *data);
void disk_interrupted(struct want *w);
void disk_again(struct want *w);
void disk_server_ended(bool power);

/* From now on @go is called every now and then, as by a machine that nothing disturbs. */
void disk_tick(void (*go)(void));

/* The rest of a scenario: .left requests come in portions, and after each the host
 * @server is killed, or loses its power; @powered_off is called if that ends no program.
 * In the end all is read.  @go has requests sent. */
void disk_run(struct weir_sim_trial *trial, struct weir_sim_host *server, void (*go)(void),
	      void (*powered_off)(void));

#endif /* TESTS_PROGRAMS_WORLDS_DISK_H */
