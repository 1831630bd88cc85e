/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a page: nothing in it is trusted. */

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/own.h"
#include "base/why.h"
#include "reactor/stats/place.h"
#include "reactor/stats/read.h"

#define KINDS_MAX 4096u
#define FIELDS_MAX 65536u
#define ENTRY_MAX 4096u
#define TRIES 100

/* Keep loads before this point.  TSan does not support fences, and needs none
 * here. */
static inline void loads_done(void)
{
#ifndef OWN_TSAN
	atomic_thread_fence(memory_order_acquire);
#endif
}

static int damaged(const char *call, const char *what)
{
	return why(-EBADMSG, "%s: %s; the page is damaged, or is none", call,
		   what);
}

/* -EBADMSG: it ends before. */
static int read_at(int fd, uint64_t off, void *buf, size_t len)
{
	ssize_t n;

	while (len) {
		n = fault("stats read") ? 0 : pread(fd, buf, len, (off_t)off);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EBADMSG;
		buf = (char *)buf + n;
		off += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

/* Texts are shown on terminals: nothing but printable ASCII. */
static void make_text(char *s, size_t size)
{
	s[size - 1] = '\0';
	for (; *s; s++)
		if (*s < ' ' || *s > '~')
			*s = '?';
}

/* Names become parts of other names: a-z, 0-9 and _. */
static void make_name(char *s, size_t size)
{
	if (!*s)
		*s = '_';
	s[size - 1] = '\0';
	for (; *s; s++)
		if ((*s < 'a' || *s > 'z') && (*s < '0' || *s > '9'))
			*s = '_';
}

static bool lies_in(uint64_t at, uint64_t n, uint64_t size, uint64_t end)
{
	return at <= end && n * size <= end - at;
}

static bool is_sound(const struct stats_header *h, uint64_t file)
{
	return h->header_size >= sizeof(*h) && h->header_size <= ENTRY_MAX &&
	       h->kind_size >= sizeof(struct stats_kind_entry) &&
	       h->kind_size <= ENTRY_MAX &&
	       h->field_size >= sizeof(struct stats_field_entry) &&
	       h->field_size <= ENTRY_MAX &&
	       h->record_size >= sizeof(struct stats_record) &&
	       h->record_size <= ENTRY_MAX && h->record_size % 8 == 0 &&
	       h->n_kinds <= KINDS_MAX && h->n_fields <= FIELDS_MAX &&
	       h->used <= file && h->used <= STATS_READ_MAX &&
	       lies_in(h->kinds_at, h->n_kinds, h->kind_size, h->used) &&
	       lies_in(h->fields_at, h->n_fields, h->field_size, h->used) &&
	       h->records_at >= h->header_size && h->records_at <= h->used;
}

int header_read(struct stats_header *h, int fd, const char *call)
{
	struct stat st;

	if (fstat(fd, &st) || read_at(fd, 0, h, sizeof(*h)))
		return damaged(call, "it is too short");
	if (h->magic != STATS_MAGIC)
		return damaged(call, "it does not begin as one");
	if (h->version >> 16 != STATS_MAJOR)
		return why(-EOPNOTSUPP, "%s: the page has version %u, and this "
			   "library reads %u; use the weir of the process", call,
			   h->version >> 16, STATS_MAJOR);
	if (!is_sound(h, (uint64_t)st.st_size))
		return damaged(call, "its header makes no sense");
	make_text(h->program, sizeof(h->program));
	make_text(h->weir, sizeof(h->weir));
	return 0;
}

/* @n entries of @size, of which @known bytes each are put to @to. */
static int read_table(int fd, uint64_t off, uint32_t n, uint32_t size,
		      void *to, size_t known)
{
	char *all = mem_calloc(n ? n : 1, size);
	int err;

	if (!all)
		return -ENOMEM;
	err = read_at(fd, off, all, (size_t)n * size);
	for (uint32_t i = 0; i < n && !err; i++)
		memcpy((char *)to + i * known, all + (size_t)i * size, known);
	free(all);
	return err;
}

static bool field_is_sound(struct stats_field_entry *f)
{
	make_name(f->name, sizeof(f->name));
	make_text(f->help, sizeof(f->help));
	return f->n_counters &&
	       f->counter + f->n_counters <= (int)STATS_COUNTERS_MAX &&
	       (f->type != WEIR_STATS_HISTOGRAM ||
		(f->shift < 64 && f->sub_bits <= 8));
}

static bool kind_is_sound(struct stats_kind_entry *k, uint32_t n_fields)
{
	make_name(k->name, sizeof(k->name));
	return k->first_field <= n_fields &&
	       k->n_fields <= n_fields - k->first_field;
}

static int read_tables(struct snapshot *snap, int fd, const char *call)
{
	const struct stats_header *h = &snap->header;
	bool sound = true;
	uint32_t i;
	int err;

	snap->kinds = mem_calloc(h->n_kinds + 1, sizeof(*snap->kinds));
	snap->fields = mem_calloc(h->n_fields + 1, sizeof(*snap->fields));
	if (!snap->kinds || !snap->fields)
		return why(-ENOMEM, "%s: no memory", call);
	err = read_table(fd, h->kinds_at, h->n_kinds, h->kind_size,
			 snap->kinds, sizeof(*snap->kinds));
	if (!err)
		err = read_table(fd, h->fields_at, h->n_fields, h->field_size,
				 snap->fields, sizeof(*snap->fields));
	if (err == -ENOMEM)
		return why(err, "%s: no memory", call);
	for (i = 0; i < h->n_fields && !err; i++)
		sound &= field_is_sound(&snap->fields[i]);
	for (i = 0; i < h->n_kinds && !err; i++)
		sound &= kind_is_sound(&snap->kinds[i], h->n_fields);
	return err || !sound ? damaged(call, "its tables make no sense") : 0;
}

/* Capacity for one more section, and @n more words. */
static int make_capacity(struct snapshot *snap, uint32_t n)
{
	uint32_t max = 2 * snap->sections_max + 64;
	size_t counters = 2 * (snap->n_counters + n) + 1024;
	void *more;

	if (snap->n_sections == snap->sections_max) {
		more = fault("stats grow") ? NULL :
		       realloc(snap->sections, max * sizeof(*snap->sections));
		if (!more)
			return -ENOMEM;
		snap->sections = more;
		snap->sections_max = max;
	}
	if (!snap->counters || snap->n_counters + n > snap->counters_max) {
		more = fault("stats grow") ?
			       NULL :
			       realloc(snap->counters,
				       counters * sizeof(*snap->counters));
		if (!more)
			return -ENOMEM;
		snap->counters = more;
		snap->counters_max = counters;
	}
	return 0;
}

/* Whether the words of @kind's fields are all in a record of @n_words. */
static bool counters_suffice(const struct snapshot *snap, uint32_t kind,
			     uint32_t n_counters)
{
	const struct stats_kind_entry *k = &snap->kinds[kind];
	const struct stats_field_entry *f = &snap->fields[k->first_field];
	uint32_t i;

	for (i = 0; i < k->n_fields; i++)
		if (f[i].counter + (uint32_t)f[i].n_counters > n_counters)
			return false;
	return true;
}

/* Returns 1 if the record is to be kept.  A record of a kind that was added
 * since is left for the next snapshot. */
static int check_record(const struct snapshot *snap,
			const struct stats_record *head, uint64_t at)
{
	const struct stats_header *h = &snap->header;

	if (head->size < h->record_size || head->size % 8 ||
	    head->size > h->used - at ||
	    head->n_counters > (head->size - h->record_size) / 8 ||
	    head->n_counters > STATS_COUNTERS_MAX)
		return -EBADMSG;
	if (!head->kind || head->kind > h->n_kinds)
		return 0;
	return counters_suffice(snap, head->kind - 1, head->n_counters) ?
		       1 :
		       -EBADMSG;
}

/* Returns 1 if all was read from one moment, 0 if not, or an errno. */
static int read_once(struct snapshot *snap, int fd, uint64_t at,
		     struct stats_record *head)
{
	uint64_t seq;
	int err = read_at(fd, at, head, sizeof(*head));

	if (!err)
		err = check_record(snap, head, at);
	if (err <= 0)
		return err < 0 ? err : 1;
	loads_done();
	if (make_capacity(snap, head->n_counters))
		return -ENOMEM;
	err = read_at(fd, at + snap->header.record_size,
		      snap->counters + snap->n_counters, head->n_counters * 8);
	loads_done();
	if (!err)
		err = read_at(fd, at + offsetof(struct stats_record, seq), &seq,
			      sizeof(seq));
	return err ? err : !(seq & 1) && seq == head->seq;
}

/* A page that is being written all the time, or was left so, ends this too. */
static int read_record(struct snapshot *snap, int fd, uint64_t *at)
{
	struct read_section *s;
	struct stats_record head;
	int whole = 0, i;

	for (i = 0; i < TRIES && !whole; i++) {
		whole = read_once(snap, fd, *at, &head);
		if (!whole)
			sched_yield();
	}
	if (whole < 0)
		return whole;
	*at += head.size;
	if (!head.kind || head.kind > snap->header.n_kinds)
		return 0;
	s = &snap->sections[snap->n_sections++];
	make_text(head.label, sizeof(head.label));
	s->head = head;
	s->counters = snap->n_counters;
	s->torn = !whole;
	snap->n_counters += head.n_counters;
	return 0;
}

int snapshot_read(struct snapshot *snap, int fd, const char *call)
{
	struct timespec now;
	uint64_t at;
	int err;

	clock_gettime(CLOCK_MONOTONIC, &now);
	snap->read_ns = (uint64_t)now.tv_sec * WEIR_SEC + (uint64_t)now.tv_nsec;
	err = header_read(&snap->header, fd, call);
	if (!err)
		err = read_tables(snap, fd, call);
	if (err)
		return err;
	snap->alive = !page_is_stale(fd);
	for (at = snap->header.records_at; !err && at < snap->header.used;)
		err = read_record(snap, fd, &at);
	if (err == -ENOMEM)
		return why(err, "%s: no memory", call);
	return err ? damaged(call, "a section makes no sense") : 0;
}

void snapshot_free(struct snapshot *snap)
{
	free(snap->kinds);
	free(snap->fields);
	free(snap->sections);
	free(snap->counters);
}
