/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_STATS_H
#define WEIR_STATS_H

/*
 * A live view: what a process does, read by another one without its help.
 *
 * A process that publishes has a page of statistics: a file of at most 16 MiB
 * in memory, into which each of its reactors writes its own numbers, and those
 * of what hangs on it, with plain stores and no system call.  Readers copy what
 * they want and look by a sequence counter whether it was whole; the writer
 * does not know of them.
 *
 * The writer has WEIR_STATS=1 in its environment, or calls
 * weir_stats_publish(NULL).  The reader:
 *
 *	weir_stats_open(&s, pid);
 *	for (;; sleep(1)) {
 *		weir_stats_read(s);
 *		for (i = 0; !weir_stats_section(s, i, &section); i++)
 *			for (j = 0; !weir_stats_field(s, i, j, &f); j++)
 *				printf("%s %s %" PRIu64 "\n", section.kind,
 *				       f.name, f.value);
 *	}
 *
 * The page says itself what is in it: kinds of sections, and for each the names
 * of its fields, with their units and a line that explains them.  So a reader
 * shows what a newer library writes, too.  A reader believes nothing: a page
 * that is torn, cut off or made up is an error, and never a crash; texts have
 * no control characters.
 *
 * Publishing is off unless asked for, not for its cost, which is about one
 * twentieth of a turn that does next to nothing, but because a library does not
 * make files unless asked to.
 *
 * WEIR_STATS is "1", or the directory for the page, which begins with a slash;
 * readers look there too.  Without one it is the first of these that is there
 * and can be used: $XDG_RUNTIME_DIR/weir, /run/user/UID/weir, /run/weir (of
 * root alone), /dev/shm/weir-UID.  "0" or nothing: no page.
 *
 * A program does its work without a page, too: where WEIR_STATS asks for one
 * that cannot be had, reactors are made without it, and a program that calls
 * weir_stats_publish() should warn and go on.  Any user can make a directory
 * /dev/shm/weir-UID of another, which then cannot be used.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_reactor;
struct weir_stats;

/* What a number is; weir_stats_field.type. */
#define WEIR_STATS_COUNTER 1	/* Only ever grows. */
#define WEIR_STATS_GAUGE 2	/* As it is now. */
#define WEIR_STATS_HISTOGRAM 3	/* See weir_stats_bucket(). */

/* What it counts; weir_stats_field.unit. */
#define WEIR_STATS_NUMBER 0
#define WEIR_STATS_NS 1		/* Nanoseconds. */
#define WEIR_STATS_BYTES 2

/* About a page; weir_stats_info(), weir_stats_list(). */
struct weir_stats_info {
	size_t size;		/* Set by the caller: the size of the struct. */
	int64_t pid;		/* In the writer's pid namespace. */
	uint64_t pid_ns;	/* Which that is; 0: not known. */
	uint32_t alive;		/* The process has the page in use. */
	uint32_t foreign;	/* It is in a pid namespace that is not ours. */
	uint64_t since_ns;	/* When it was made, by CLOCK_REALTIME. */
	uint64_t read_ns;	/* When it was read, by CLOCK_MONOTONIC. */
	uint64_t left_out;	/* Sections that there was no capacity for. */
	char program[64];
	char version[16];	/* Of the writer's library. */
};

/* One section of what was read: a reactor, a pool, an engine. */
struct weir_stats_section {
	size_t size;		/* Set by the caller: the size of the struct. */
	const char *kind;	/* "reactor" */
	const char *label;	/* Which one, for people. */
	uint32_t id;		/* Differs from that of any other section. */
	uint32_t parent;	/* The id of what it is part of; 0: nothing. */
	uint64_t stamp_ns;	/* When it was written, by CLOCK_MONOTONIC. */
	uint32_t n_fields;
	uint32_t torn;		/* 1: it was being written at each attempt. */
};

/* One number of a section. */
struct weir_stats_field {
	size_t size;		/* Set by the caller: the size of the struct. */
	const char *name;	/* "sleep_ns" */
	const char *help;	/* A line for people. */
	uint32_t type;		/* WEIR_STATS_COUNTER and so on. */
	uint32_t unit;		/* WEIR_STATS_NS and so on. */
	uint64_t value;		/* Of a histogram, how many are in it. */
};

/*
 * Publish this process: make its page, for reactors and shared pools that are
 * created from now on.
 *
 * @dir is the directory for it, or NULL for what WEIR_STATS says, or else the
 * usual one.  It is made if it is not there, with mode 0700.  The page of a
 * process that has ended is removed from it.  A child made by fork() has no
 * page until it publishes itself.
 *
 * Returns 0, also if the process is published already, or
 *   -EINVAL  @dir does not begin with a slash
 *   -EACCES  the directory is another user's, or others may write to it
 *   -ENOSPC, -EFBIG  no capacity for the page; weir_why() says more
 *   -ENOMEM  no memory
 * or what else the system answers to making a file.
 *
 * Any thread.  May block: it makes a file.
 */
WEIR_API int weir_stats_publish(const char *dir);

/*
 * Take this process's page away.
 *
 * It goes by itself when the process exits, and is removed by the next reader
 * or writer if the process was killed.  Where WEIR_STATS asks for a page, the
 * next reactor makes a new one.
 *
 * Returns 0, also if there is none, or
 *   -EBUSY  reactors, or shared pools, that were created since are on it
 *
 * Any thread.
 */
WEIR_API int weir_stats_withdraw(void);

/*
 * Write @r's sections now.
 *
 * A reactor does so by itself: before it sleeps, and about once a millisecond
 * while it is busy.  This is for a program that makes turns one by one and then
 * stops, or is about to compute for long in a callback.
 *
 * Returns 0, or
 *   -ENOENT  @r is not on a page
 *
 * Call on @r's thread.  Never blocks, never allocates.  Re-creates
 * rte_metrics_update_values().
 */
WEIR_API int weir_stats_update(struct weir_reactor *r);

/*
 * Open the page of the process @pid, and read it once.
 *
 * A page of a process that has ended is removed, if it is the caller's own.
 *
 * Returns 0 with *@ret set, to be freed by weir_stats_close(), or
 *   -ESRCH       there is no such process, or it has ended
 *   -ENOENT      it has no page; weir_why() says what would change that
 *   -EACCES      it is another user's, or its page is
 *   -EBADMSG     it is no page, or a damaged one
 *   -EOPNOTSUPP  it is of a version that this library cannot read
 *   -EMFILE      no descriptor left
 *   -ENOMEM      no memory
 *
 * Any thread; what is opened belongs to one thread at a time.
 */
WEIR_API int weir_stats_open(struct weir_stats **ret, int64_t pid);

/*
 * Close @s.  NULL is allowed.
 *
 * The owner's thread.
 */
WEIR_API void weir_stats_close(struct weir_stats *s);

/*
 * Read the page anew: what weir_stats_section() and the others tell is as of
 * the last call that has succeeded, and strings they gave before are gone.
 *
 * Each section is whole in itself, and is of its own time, .stamp_ns.
 *
 * Returns 0, or, with what was read before in place,
 *   -EBADMSG  the page is damaged
 *   -ENOMEM   no memory
 *
 * The owner's thread.  The writer is not disturbed.
 */
WEIR_API int weir_stats_read(struct weir_stats *s);

/*
 * Copy what is known about the page to *@ret, whose .size the caller has set.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *
 * The owner's thread.
 */
WEIR_API int weir_stats_info(const struct weir_stats *s,
			     struct weir_stats_info *ret);

/*
 * Copy what section @i is to *@ret, whose .size the caller has set.  They are
 * counted from 0, in no order.  Its strings live until @s is read again.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *   -ENOENT  there is no such section
 *
 * The owner's thread.
 */
WEIR_API int weir_stats_section(const struct weir_stats *s, uint32_t i,
				struct weir_stats_section *ret);

/*
 * Copy field @j of section @i to *@ret, whose .size the caller has set.  Its
 * strings live until @s is read again.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *   -ENOENT  there is no such field
 *
 * The owner's thread.
 */
WEIR_API int weir_stats_field(const struct weir_stats *s, uint32_t i,
			      uint32_t j, struct weir_stats_field *ret);

/*
 * The value of the field of section @i that is called @name.
 *
 * Returns 0 with *@ret set, or
 *   -ENOENT  there is none
 *
 * The owner's thread.
 */
WEIR_API int weir_stats_value(const struct weir_stats *s, uint32_t i,
			      const char *name, uint64_t *ret);

/*
 * Bucket @k of the histogram that is field @j of section @i: how many values
 * were at least what the bucket before ends with, and less than *@end.  The
 * last one has no end: UINT64_MAX.
 *
 * Buckets are log-linear: eight for each power of 2, so none is wider than an
 * eighth of what is in it.
 *
 * Returns 0 with *@end and *@count set, or
 *   -ENOENT  there is no such bucket, or the field is no histogram
 *
 * The owner's thread.
 */
WEIR_API int weir_stats_bucket(const struct weir_stats *s, uint32_t i,
			       uint32_t j, uint32_t k, uint64_t *end,
			       uint64_t *count);

/*
 * What @parts_per_million of the values of a histogram are not above: 500000 is
 * the median, 999000 the 99.9th percentile.  It is the end of a bucket.
 *
 * Returns 0 with *@ret set, 0 if the histogram is empty, or
 *   -ENOENT  the field is no histogram
 *
 * The owner's thread.
 */
WEIR_API int weir_stats_quantile(const struct weir_stats *s, uint32_t i,
				 uint32_t j, uint32_t parts_per_million,
				 uint64_t *ret);

/*
 * Call @fn(@info, @arg) for each process that has a page which the caller may
 * read, until it returns something else than 0.  Pages of processes that have
 * ended are removed, if they are the caller's own.
 *
 * Returns what the last call of @fn did, 0 if there was none, or
 *   -ENOMEM, -EMFILE  as they say
 *
 * Any thread.
 */
WEIR_API int weir_stats_list(int (*fn)(const struct weir_stats_info *info,
				       void *arg),
			     void *arg);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_STATS_H */
