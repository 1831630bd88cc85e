/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_WRITER_FIXTURE_H
#define TESTS_WRITER_FIXTURE_H

/*
 * An importer in another process, which writes to all of the memory again and
 * again, by some engine, until it is refused.  It is forked before anything else
 * is there.
 */

#include "tests/support/export-fixture.h"
#include "tests/support/job-fixture.h"

#include <sys/prctl.h>

#define LEN ((size_t)(UNDER_ASAN || UNDER_TSAN ? 4 : 16) << 20)
#define THEIRS 0xee
#define OURS 0x11

enum engine { INLINE, WORKER, FROM_FILE, STAGED, COPYING, N_ENGINES };

static const char *const engine_names[] __attribute__((unused)) = {
	"cpu", "cpu on a worker", "file", "bounce", "process",
};

struct there {
	uint32_t backend;
	enum engine engine;
	pid_t exporter;
	bool forks;	/* Has a child that outlives it. */
};

/* In the importer. */
struct writer {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_mmap *im;
	struct weir_inventory *inv;
	struct weir_buf *buf;
	struct weir_domain *file;
	int fd;
	char *source;
	struct jrec j;
};

static inline void writer_import(struct writer *w, const struct there *t,
			  const struct parcel *p)
{
	struct weir_exporter_peer peer = { t->exporter, geteuid(), getegid() };
	struct weir_import_opts opts = {
		.size = sizeof(opts),
		.flags = t->engine == COPYING ? WEIR_IMPORT_COPY : 0,
		.peer = &peer,
	};
	struct weir_reactor_opts ro = {
		.size = sizeof(ro), .backend = t->backend,
	};

	EXPECT(!weir_reactor_create(&w->r, &ro));
	EXPECT(!parcel_import(&w->im, p, &opts));
	EXPECT(!weir_inventory_create(&w->inv, w->r, NULL));
	EXPECT(!weir_inventory_attach(w->inv, w->im));
	EXPECT(!weir_inventory_get(&w->buf, w->inv, w->im, fixture_addr(w->im),
				   LEN, NULL, 0));
}

static inline void writer_begin(struct writer *w, const struct there *t)
{
	struct weir_dma_opts opts = {
		.size = sizeof(opts),
		.worker_min = t->engine == WORKER ? 1 : UINT64_MAX,
	};

	w->fd = memfd_create("source", MFD_CLOEXEC);
	w->source = malloc(LEN);
	EXPECT(w->source);
	memset(w->source, THEIRS, LEN);
	EXPECT(write(w->fd, w->source, LEN) == (ssize_t)LEN);
	EXPECT(!weir_domain_file_create(&w->file, w->fd, NULL));
	EXPECT(!weir_dma_create(&w->dma, w->r, &opts));
	EXPECT(!weir_dma_start(w->dma));
	jrec_init(&w->j);
}

/* Write all of it once.  Returns what comes of it. */
static inline int64_t writer_write(struct writer *w, enum engine engine)
{
	struct weir_operand file = weir_operand_at(w->file, 0, LEN);
	struct weir_operand mem = weir_operand_mem(w->source, LEN);
	struct weir_operand to = weir_operand_buf(w->buf);
	int before = w->j.calls;
	int err;

	if (engine == FROM_FILE)
		weir_job_copy(&w->j.job, to, file);
	else if (engine == STAGED)
		weir_job_copy_crc32c(&w->j.job, to, file, 0);
	else
		weir_job_copy(&w->j.job, to, mem);
	w->j.job.flags |= WEIR_JOB_OVERWRITE;
	err = weir_job_start(w->dma, &w->j.job);
	if (err)
		return err;
	while (w->j.calls == before)
		EXPECT(weir_reactor_turn(w->r, WEIR_SEC) >= 0);
	return w->j.res;
}

static inline void writer_end(struct writer *w)
{
	weir_buf_put(w->buf);
	EXPECT(!weir_inventory_destroy(w->inv));
	EXPECT(!weir_mmap_destroy(w->im));
	/* What was staged may not be back yet. */
	while (weir_dma_destroy(w->dma))
		EXPECT(weir_reactor_turn(w->r, WEIR_MSEC) >= 0);
	EXPECT(!weir_domain_destroy(w->file));
	EXPECT(!weir_reactor_destroy(w->r));
	close(w->fd);
	free(w->source);
}

static inline void write_there(int sock, void *arg)
{
	const struct there *t = arg;
	struct writer w = { .r = NULL };
	struct parcel p;
	int64_t res;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	EXPECT(!parcel_recv(sock, &p));
	writer_import(&w, t, &p);
	writer_begin(&w, t);
	if (t->forks && !fork()) {
		(void)hear(sock);
		_exit(0);
	}
	EXPECT(!say(sock));
	do {
		res = writer_write(&w, t->engine);
	} while (res == (int64_t)LEN);
	EXPECT(res == -ESTALE);
	EXPECT(writer_write(&w, t->engine) == -ESTALE);
	EXPECT(!say(sock));
	(void)hear(sock);
	writer_end(&w);
	parcel_drop(&p);
}

#endif /* TESTS_WRITER_FIXTURE_H */
