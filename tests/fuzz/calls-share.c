/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that share memory, walk the map of it, or read statistics; and what
 * needs no object. */

#include <fcntl.h>
#include <unistd.h>

#include <weir/crc32c.h>

#include "tests/fuzz/calls.h"

char *area;

/* Exports and imports, of this process by itself. */

static void import(const struct weir_export_desc *desc)
{
	struct weir_import_opts opts = { .size = sizeof(opts) };
	struct weir_exporter_peer peer = { getpid(), getuid(), getgid() };
	struct object *o = object_new(A_MMAP, NULL);
	struct weir_mmap *mmap;

	if (!o)
		return;
	opts.flags = rnd(2) * WEIR_IMPORT_COPY;
	opts.peer = &peer;
	o->flag = true;
	object_made(o, &mmap, CALL(weir_mmap_import, &mmap, desc->bytes,
				   desc->len, desc->fds, desc->n_fds, &opts));
}

static void call_mmap_export(struct core *c)
{
	struct weir_export_opts opts = { .size = sizeof(opts) };
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct object *o = any(A_MMAP);

	(void)c;
	if (!o)
		return;
	opts.flags = rnd(2) * WEIR_EXPORT_COPY;
	if (!CALL(weir_mmap_export, o->h, &opts, &desc))
		import(&desc);
}

static void call_mmap_revoke(struct core *c)
{
	struct weir_mmap *mmap = some_mmap();
	struct task *t;

	if (!mmap)
		return;
	if (rnd(2)) {
		(void)CALL(weir_mmap_revoke, mmap, NULL, NULL);
		return;
	}
	t = task_new(c);
	if (!t)
		return;
	START(t, weir_mmap_revoke, mmap, c->r, OP(t));
}

static void call_mmap_watch(struct core *c)
{
	struct object *o = any(A_MMAP);
	struct task *t = o ? task_new(c) : NULL;

	if (!t)
		return;
	START(t, weir_mmap_watch, o->h, c->r, OP(t));
}

static void call_lease_create(struct core *c)
{
	struct weir_lease_opts opts = { .size = sizeof(opts) };
	struct object *mmap = any(A_MMAP), *o;
	struct weir_lease *lease;

	o = mmap ? object_new(A_LEASE, c) : NULL;
	if (!o)
		return;
	opts.flags = rnd(2) * WEIR_EXPORT_COPY;
	opts.duration_ns = some_span();
	object_made(o, &lease, CALL(weir_lease_create, &lease, c->r, mmap->h,
				    &opts));
}

static void call_lease_export(struct core *c)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct object *o = any(A_LEASE);

	(void)c;
	if (o && !CALL(weir_lease_export, o->h, &desc))
		import(&desc);
}

static void call_lease_renew(struct core *c)
{
	struct object *o = any(A_LEASE);

	(void)c;
	if (o)
		(void)CALL(weir_lease_renew, o->h, some_span());
}

static void call_lease_revoke(struct core *c)
{
	struct object *o = any(A_LEASE);
	struct task *t;

	(void)c;
	if (!o)
		return;
	if (rnd(2)) {
		(void)CALL(weir_lease_revoke, o->h, NULL);
		return;
	}
	t = task_new(o->core);
	if (t)
		START(t, weir_lease_revoke, o->h, OP(t));
}

static void call_lease_wait(struct core *c)
{
	struct object *o = any(A_LEASE);
	struct task *t = o ? task_new(o->core) : NULL;

	(void)c;
	if (t)
		START(t, weir_lease_wait, o->h, OP(t));
}

static void call_lease_info(struct core *c)
{
	struct weir_lease_info info = { .size = sizeof(info) };
	struct object *o = any(A_LEASE);

	(void)c;
	if (o)
		MUST(!CALL(weir_lease_info, o->h, &info));
}

static void call_lease_destroy(struct core *c)
{
	struct object *o = any(A_LEASE);

	(void)c;
	if (o)
		object_destroy(o);
}

static const char *socket_path(char *path, size_t len)
{
	snprintf(path, len, "%s/exports", w.dir);
	return path;
}

static int on_request(struct weir_exporter *exporter,
		      const struct weir_exporter_peer *peer, const char *name,
		      void *arg)
{
	struct object *o = arg;

	MUST(o->h == exporter && peer && name);
	act(o);
	return (int)rnd(2);
}

static void call_exporter_create(struct core *c)
{
	struct weir_exporter_opts opts = { .size = sizeof(opts) };
	struct object *o = object_new(AN_EXPORTER, c);
	struct weir_exporter *exporter;
	char path[96];

	if (!o)
		return;
	opts.accept = rnd(2) ? on_request : NULL;
	opts.arg = o;
	opts.connections = 2;
	opts.names = 2;
	object_made(o, &exporter,
		    CALL(weir_exporter_create, &exporter, c->r,
			 socket_path(path, sizeof(path)), &opts));
}

static const char *some_export(void)
{
	return rnd(2) ? "one" : "two";
}

static void call_exporter_add(struct core *c)
{
	struct object *o = any(AN_EXPORTER), *mmap = any(A_MMAP);
	struct object *lease = any(A_LEASE);

	(void)c;
	if (o && mmap)
		(void)CALL(weir_exporter_add, o->h, some_export(), mmap->h,
			   NULL);
	if (o && lease)
		(void)CALL(weir_exporter_add_lease, o->h, some_export(),
			   lease->h);
}

static void call_exporter_remove(struct core *c)
{
	struct object *o = any(AN_EXPORTER);

	(void)c;
	if (o)
		(void)CALL(weir_exporter_remove, o->h, some_export());
}

static void call_exporter_destroy(struct core *c)
{
	struct object *o = any(AN_EXPORTER);

	(void)c;
	if (o)
		object_destroy(o);
}

static void imported(struct task *t, int64_t res)
{
	struct weir_mmap *mmap = GOT(weir_mmap_imported, OP(t));
	struct object *o;

	MUST((res == 0) == (mmap != NULL));
	if (!mmap)
		return;
	o = object_new(A_MMAP, NULL);
	if (o) {
		o->h = mmap;
		o->flag = true;
	} else {
		MUST(!CALL(weir_mmap_destroy, mmap));
	}
}

static void call_mmap_import_from(struct core *c)
{
	struct task *t = task_new(c);
	char path[96];

	if (!t)
		return;
	t->end = imported;
	(void)CALL(weir_op_set_deadline, OP(t), some_time());
	START(t, weir_mmap_import_from, c->r, OP(t),
	      socket_path(path, sizeof(path)), some_export(), NULL);
}

/* The map of memory. */

static int on_segment(const struct weir_segment *segment, void *arg)
{
	MUST(segment->len && arg == &w);
	act(NULL);
	return one_in(4);
}

/* Which lists adjoin depends on addresses, and must not decide anything. */
static int on_run(const struct weir_segment *segment, void *arg)
{
	MUST(segment->len && arg == &w);
	return 0;
}

static int64_t some_list(void)
{
	struct weir_segment s = { .size = sizeof(s) };

	return CALL(weir_segment_find_list, &s, area + rnd(AREA)) ?
		       0 : (int64_t)s.list;
}

static void call_segment_walk(struct core *c)
{
	(void)c;
	switch (rnd(4)) {
	case 0:
		(void)CALL(weir_segment_walk, on_segment, &w);
		break;
	case 1:
		(void)CALL(weir_segment_walk_list, (uint64_t)some_list(),
			   on_segment, &w);
		break;
	case 2:
		(void)CALL(weir_segment_walk_lists, on_segment, &w);
		break;
	default:
		(void)CALL(weir_segment_walk_runs, on_run, &w);
	}
}

static void call_segment_find(struct core *c)
{
	struct weir_segment s = { .size = sizeof(s) };
	char *at = area + rnd(AREA);
	uint64_t n, off;
	void *p;
	int fd;

	(void)c;
	(void)CALL(weir_segment_find, &s, at);
	(void)CALL(weir_segment_iova, &n, at);
	(void)CALL(weir_segment_from_iova, &p, rnd(2) * 4096);
	(void)CALL(weir_segment_phys, &n, at);
	(void)CALL(weir_segment_phys_allowed);
	if (!CALL(weir_segment_fd, &fd, &off, at))
		close(fd);
}

static void call_segment_stats(struct core *c)
{
	struct weir_segment_stats stats = { .size = sizeof(stats) };
	int fd;

	(void)c;
	MUST(!CALL(weir_segment_stats, &stats));
	(void)GOT(weir_segment_node_bytes, 0);
	fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	(void)CALL(weir_segment_dump, fd);
	close(fd);
}

static char *some_area(size_t *len)
{
	*len = (1 + rnd(2)) * 4096;
	return area + rnd(6) * 4096;
}

static void call_segment_register(struct core *c)
{
	static const uint64_t iovas[] = { 0, 8192 };
	size_t len;
	char *at = some_area(&len);

	(void)c;
	(void)CALL(weir_segment_register, at, len, rnd(2) ? iovas : NULL,
		   len / 4096, 4096);
}

static void call_segment_unregister(struct core *c)
{
	size_t len;
	char *at = some_area(&len);

	(void)c;
	(void)CALL(weir_segment_unregister, at, len);
	(void)CALL(weir_segment_detach, at, len);
}

static void call_segment_share(struct core *c)
{
	size_t len;
	char *at = some_area(&len);
	int fd;

	(void)c;
	if (CALL(weir_segment_share, &fd, at, len))
		return;
	(void)CALL(weir_segment_attach, some_area(&len), len, fd);
	close(fd);
}

static void call_segment_set(struct core *c)
{
	uint64_t list = (uint64_t)some_list();

	(void)c;
	(void)CALL(weir_segment_set_flags, list, 0, WEIR_SEGMENT_DIRTY);
	(void)CALL(weir_segment_set_flags, list, WEIR_SEGMENT_DIRTY, 0);
	(void)CALL(weir_segment_clean, list);
	(void)CALL(weir_segment_lock, list);
	(void)CALL(weir_segment_unlock, list);
	(void)CALL(weir_segment_check_mask, 40 + rnd(30));
	(void)CALL(weir_segment_set_mask, 0);
}

static void on_segment_event(int event, const struct weir_segment *list,
			     void *arg)
{
	struct object *o = w.destroying;
	void *addr;

	MUST(event && list->len && arg == &w);
	if (o && o->what == A_MMAP && event == WEIR_SEGMENT_REMOVING &&
	    !weir_mmap_memrange(o->h, &addr, NULL) && addr == list->addr) {
		(void)CALL(weir_mmap_stop, o->h, NULL, NULL);
		MUST(CALL(weir_mmap_destroy, o->h) == -EBUSY);
	}
	act(NULL);
}

static int on_validate(int node, uint64_t limit, uint64_t total, void *arg)
{
	MUST(!node && total >= limit && arg == &w);
	act(NULL);
	return one_in(8) ? -EPROTO : 0;
}

static void call_segment_event_register(struct core *c)
{
	const char *name = rnd(2) ? "a" : "b";

	(void)c;
	(void)CALL(weir_segment_event_register, name, on_segment_event, &w);
}

static void call_segment_event_unregister(struct core *c)
{
	const char *name = rnd(2) ? "a" : "b";

	(void)c;
	(void)CALL(weir_segment_event_unregister, name, &w);
}

static void call_segment_validator_register(struct core *c)
{
	(void)c;
	(void)CALL(weir_segment_validator_register, "v", on_validate, &w, 0,
		   4096);
}

static void call_segment_validator_unregister(struct core *c)
{
	(void)c;
	(void)CALL(weir_segment_validator_unregister, "v", 0);
}

void share_begin(void)
{
	if (area)
		return;
	area = aligned_alloc(4096, AREA);
	MUST(area);
	memset(area, 0, AREA);
}

/* What the process has, not a world. */
void share_end(void)
{
	size_t i, n;

	(void)weir_segment_event_unregister("a", &w);
	(void)weir_segment_event_unregister("b", &w);
	(void)weir_segment_validator_unregister("v", 0);
	for (i = 0; i < AREA; i += 4096)
		for (n = 1; n <= 2; n++) {
			(void)weir_segment_unregister(area + i, n * 4096);
			(void)weir_segment_detach(area + i, n * 4096);
		}
}

/* Statistics. */

static void call_stats_open(struct core *c)
{
	struct object *o = object_new(A_PAGE, NULL);
	struct weir_stats *stats;

	(void)c;
	if (o)
		object_made(o, &stats, CALL(weir_stats_open, &stats,
					    (int64_t)getpid()));
}

static void call_stats_close(struct core *c)
{
	struct object *o = any(A_PAGE);

	(void)c;
	if (o)
		object_destroy(o);
}

static void call_stats_read(struct core *c)
{
	struct weir_stats_section section = { .size = sizeof(section) };
	struct weir_stats_field field = { .size = sizeof(field) };
	struct weir_stats_info info = { .size = sizeof(info) };
	struct object *o = any(A_PAGE);
	uint32_t i = rnd(4), j = rnd(40);
	uint64_t n, end;

	(void)c;
	if (!o)
		return;
	(void)CALL(weir_stats_read, o->h);
	(void)CALL(weir_stats_want, o->h, rnd(2) ? UINT64_MAX : WEIR_MSEC);
	MUST(!CALL(weir_stats_info, o->h, &info));
	(void)CALL(weir_stats_section, o->h, i, &section);
	(void)CALL(weir_stats_field, o->h, i, j, &field);
	(void)CALL(weir_stats_value, o->h, i, "turns", &n);
	(void)CALL(weir_stats_bucket, o->h, i, j, rnd(3), &end, &n);
	(void)CALL(weir_stats_quantile, o->h, i, j, 500000, &n);
}

static int on_page(const struct weir_stats_info *info, void *arg)
{
	MUST(info->pid && arg == &w);
	act(NULL);
	return 0;
}

static void call_stats_list(struct core *c)
{
	(void)c;
	(void)CALL(weir_stats_list, on_page, &w);
}

static void call_stats_update(struct core *c)
{
	(void)CALL(weir_stats_update, c->r);
}

static void call_stats_publish(struct core *c)
{
	(void)c;
	(void)CALL(weir_stats_publish, rnd(2) ? "relative" : w.dir);
}

static void call_stats_withdraw(struct core *c)
{
	(void)CALL(weir_stats_withdraw);
	if (c->r)
		(void)(rnd(2) ? CALL(weir_stats_offer, w.dir) :
		       CALL(weir_stats_publish, w.dir));
}

/* What needs nothing. */

static void call_version(struct core *c)
{
	(void)c;
	MUST(GOT(weir_version));
	MUST(GOT(weir_why));
	MUST(GOT(weir_why_set, -EIO, "fuzz: %d", 1) == -EIO);
	MUST(!strcmp(weir_why(), "fuzz: 1"));
	(void)GOT(weir_fault, "fuzz");
}

static void call_crc32c(struct core *c)
{
	uint32_t all = GOT(weir_crc32c, 0, "abcd", 4);

	(void)c;
	MUST(all == GOT(weir_crc32c_combine, weir_crc32c(0, "ab", 2),
			weir_crc32c(0, "cd", 2), 2));
}

const struct call calls_share[] = {
	{ "weir_mmap_export", call_mmap_export, 16 },
	{ "weir_mmap_revoke", call_mmap_revoke, 8 },
	{ "weir_mmap_watch", call_mmap_watch, 12 },
	{ "weir_lease_create", call_lease_create, 6 },
	{ "weir_lease_export", call_lease_export, 6 },
	{ "weir_lease_renew", call_lease_renew, 4 },
	{ "weir_lease_revoke", call_lease_revoke, 6 },
	{ "weir_lease_wait", call_lease_wait, 6 },
	{ "weir_lease_info", call_lease_info, 2 },
	{ "weir_lease_destroy", call_lease_destroy, 6 },
	{ "weir_exporter_create", call_exporter_create, 4 },
	{ "weir_exporter_add", call_exporter_add, 16 },
	{ "weir_exporter_remove", call_exporter_remove, 4 },
	{ "weir_exporter_destroy", call_exporter_destroy, 2 },
	{ "weir_mmap_import_from", call_mmap_import_from, 12 },
	{ "weir_segment_walk", call_segment_walk, 6 },
	{ "weir_segment_find", call_segment_find, 2 },
	{ "weir_segment_stats", call_segment_stats, 1 },
	{ "weir_segment_register", call_segment_register, 6 },
	{ "weir_segment_unregister", call_segment_unregister, 6 },
	{ "weir_segment_share", call_segment_share, 2 },
	{ "weir_segment_set_flags", call_segment_set, 2 },
	{ "weir_segment_event_register", call_segment_event_register, 4 },
	{ "weir_segment_event_unregister", call_segment_event_unregister, 3 },
	{ "weir_segment_validator_register",
	  call_segment_validator_register, 4 },
	{ "weir_segment_validator_unregister",
	  call_segment_validator_unregister, 4 },
	{ "weir_stats_open", call_stats_open, 1 },
	{ "weir_stats_close", call_stats_close, 1 },
	{ "weir_stats_read", call_stats_read, 1 },
	{ "weir_stats_list", call_stats_list, 1 },
	{ "weir_stats_update", call_stats_update, 1 },
	{ "weir_stats_publish", call_stats_publish, 1 },
	{ "weir_stats_withdraw", call_stats_withdraw, 1 },
	{ "weir_version", call_version, 1 },
	{ "weir_crc32c", call_crc32c, 1 },
	{ NULL, NULL, 0 },
};
