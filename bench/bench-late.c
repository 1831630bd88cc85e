/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Late writes: bytes that land in memory after an operation on it has ended.
 *
 * One experiment, for each engine and each ending: a transfer of --size bytes to
 * a piece of memory is in flight.  At a random time it is ended.  When that end is
 * reported as complete the owner fills the memory with a pattern; when nothing
 * can be in flight any more, the bytes that are not the pattern are counted.
 * Each row says how many endings of how many had such bytes, and how long the
 * longest end took.  weir's operations have to complete exactly once, too.
 *
 * "revoke", "stop" and "drain": another process has imported our memory and writes
 * to all of it, again and again, by one engine.  "killed" and "exit": it ends in
 * the middle of a write, and the memory is revoked.  "stopped": it is stopped
 * (SIGSTOP) in the middle of a write; the revoke has a deadline, and is repeated
 * when the process goes on.  "exporter exits": the other process has exported the
 * memory that we read.
 *
 * "cancel" and "deadline": a job of our own.  "recv, ...": a receive of a stream
 * into our memory, while the peer goes on sending.  "destroy": a read of a file,
 * whose reactor is stopped and destroyed.
 *
 * "revoke under load" is 50 times as many revokes, for how soon the other process
 * is told and how soon they end; late-export.c.
 *
 * The peers' endings are beside them: late-peers.c.  With --json each row is also a
 * line of its own, from which build-aux/late-writes.awk makes a page.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/late.h"

/* Each has processes of its own, which cost more than an ending of ours. */
#define PEER_ENDINGS 30

const char *const late_engines[LATE_ENGINES] = {
	"cpu", "worker", "file", "bounce", "process",
};

static const struct {
	uint32_t backend;
	const char *name;
} backends[] = {
	{ WEIR_BACKEND_URING, "uring" }, { WEIR_BACKEND_EV, "ev" },
};

void late_ended(struct late_end *end, int64_t res)
{
	if (end->n++)
		bench_die("an operation has completed twice", EPROTO);
	end->res = res;
}

void late_wait(struct weir_reactor *r, const struct late_end *end)
{
	uint64_t until = bench_wall_ns() + 60 * WEIR_SEC;

	while (!end->n) {
		bench_must(weir_reactor_turn(r, WEIR_SEC), "turn");
		if (bench_wall_ns() > until)
			bench_die("a completion is lost", ETIMEDOUT);
	}
}

struct weir_reactor *late_reactor(const struct late *l)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = l->backend,
	};
	struct weir_reactor *r;

	bench_must(weir_reactor_create(&r, &opts), "weir_reactor_create");
	return r;
}

struct weir_dma *late_dma(struct weir_reactor *r, enum late_engine engine)
{
	struct weir_dma_opts opts = {
		.size = sizeof(opts),
		.worker_min = engine == LATE_WORKER ? 1 : UINT64_MAX,
	};
	struct weir_dma *dma;

	bench_must(weir_dma_create(&dma, r, &opts), "weir_dma_create");
	bench_must(weir_dma_start(dma), "weir_dma_start");
	return dma;
}

int late_file(const char *source, size_t size)
{
	int fd = memfd_create("bench-late", MFD_CLOEXEC);

	for (size_t at = 0; at < size; ) {
		ssize_t n = fd < 0 ? -1 : write(fd, source + at, size - at);

		if (n <= 0)
			bench_die("memfd", errno);
		at += (size_t)n;
	}
	return fd;
}

struct weir_domain *late_domain(int fd)
{
	struct weir_domain *file;

	bench_must(weir_domain_file_create(&file, fd, NULL),
		   "weir_domain_file_create");
	return file;
}

void late_plan(struct weir_job *job, enum late_engine engine,
	       struct weir_operand to, struct weir_domain *file,
	       const char *source, size_t size)
{
	struct weir_operand from = weir_operand_at(file, 0, size);

	if (engine == LATE_FILE)
		weir_job_copy(job, to, from);
	else if (engine == LATE_BOUNCE)
		weir_job_copy_crc32c(job, to, from, 0);
	else
		weir_job_copy(job, to, weir_operand_mem(source, size));
	job->flags |= WEIR_JOB_OVERWRITE;
}

bool late_wants(const struct late *l, const char *engine)
{
	char variant[24];

	snprintf(variant, sizeof(variant), "weir %s %s", engine,
		 l->backend_name);
	return bench_wants(l->b, variant);
}

void late_count(struct late_sum *sum, uint64_t bytes, uint64_t end_ns)
{
	sum->tried++;
	sum->late += bytes > 0;
	sum->bytes += bytes;
	if (bytes > sum->most)
		sum->most = bytes;
	if (end_ns > sum->worst_ns)
		sum->worst_ns = end_ns;
}

static void row_line(const struct bench *b, const struct late_row *row,
		     const struct late_sum *sum)
{
	FILE *out = b->json_path ? fopen(b->json_path, "ae") : NULL;

	if (!out)
		return;
	fprintf(out, "{\"bench\":\"%s\",\"ending\":\"%s\",\"who\":\"%s\","
		"\"version\":\"%s\",\"engine\":\"%s\",\"backend\":\"%s\","
		"\"size\":%zu,\"tried\":%llu,\"late\":%llu,\"most\":%llu,"
		"\"worst_ns\":%llu,\"refused\":%llu,\"crashed\":%llu,"
		"\"hung\":%llu,\"over\":%llu,\"timed_out\":%llu,\"named\":%llu,"
		"\"contract\":\"%s\",\"why\":\"%s\"}\n", b->name, row->ending,
		row->who, row->version, row->engine, row->backend, row->size,
		(unsigned long long)sum->tried, (unsigned long long)sum->late,
		(unsigned long long)sum->most,
		(unsigned long long)sum->worst_ns,
		(unsigned long long)sum->refused,
		(unsigned long long)sum->crashed,
		(unsigned long long)sum->hung,
		(unsigned long long)sum->over,
		(unsigned long long)sum->timed_out,
		(unsigned long long)sum->named, row->contract, sum->why);
	fclose(out);
}

void late_tell(struct bench *b, const struct late_row *row,
	       const struct late_sum *sum)
{
	char variant[24], what[48], size[24];

	row_line(b, row, sum);
	snprintf(variant, sizeof(variant), "%s %s%s%s", row->who, row->engine,
		 *row->backend ? " " : "", row->backend);
	snprintf(what, sizeof(what), "%s, %s", row->ending,
		 bench_size_text(size, row->size));
	if (sum->tried)
		bench_add(b, what, variant, "late bytes", (double)sum->bytes);
	else
		bench_note("%s, %s, was not tried: %s", variant, row->ending,
			   sum->why);
	if (sum->crashed || sum->hung)
		bench_note("%s, %s: %llu of %llu crashed, %llu hung", variant,
			   row->ending, (unsigned long long)sum->crashed,
			   (unsigned long long)sum->tried,
			   (unsigned long long)sum->hung);
}

/* Of all rows of ours, also in repetitions that others have disturbed. */
static struct late_sum ours;

void late_tell_weir(const struct late *l, const char *engine,
		    const char *ending, const struct late_sum *sum)
{
	struct late_row row = {
		.who = "weir", .version = weir_version(), .engine = engine,
		.backend = l->backend_name, .ending = ending, .size = l->size,
		.contract = "no byte after the end",
	};

	late_tell(l->b, &row, sum);
	ours.tried += sum->tried;
	ours.bytes += sum->bytes;
	ours.timed_out += sum->timed_out;
	ours.named += sum->named;
}

/* All of weir's rows over one backend. */
static void by_backend(struct bench *b, size_t k, size_t size, int n)
{
	struct late l = {
		.b = b, .backend = backends[k].backend,
		.backend_name = backends[k].name, .size = size, .n = n,
	};
	const char *why;

	if (!bench_wants_backend(b, l.backend))
		return;
	why = bench_backend_missing(l.backend);
	if (why) {
		bench_note("%s is left out: %s", l.backend_name, why);
		return;
	}
	late_by_others(&l);
	late_by_us(&l);
	late_sockets(&l);
	late_destroy(&l);
}

static void load(struct bench *b, size_t k, int n)
{
	struct late l = {
		.b = b, .backend = backends[k].backend,
		.backend_name = backends[k].name, .n_load = n,
	};

	if (n && bench_wants_backend(b, l.backend) &&
	    !bench_backend_missing(l.backend))
		late_under_load(&l);
}

/* As many endings of @size as take about the time of @n of 16 MiB.  Pages that
 * no cache holds count twice. */
static int endings_of(size_t size, int n)
{
	size_t shares = size >> 24 > 1 ? size >> 23 : 1;

	return (int)(((size_t)n + shares - 1) / shares);
}

static void one_rep(struct bench *b, int n)
{
	int m;

	for (int i = 0; i < b->sizes.n; i++) {
		m = endings_of(b->sizes.value[i], n);
		for (size_t k = 0; k < ARRAY_SIZE(backends); k++)
			by_backend(b, k, b->sizes.value[i], m);
		m = m < 2 * PEER_ENDINGS ? (m + 1) / 2 : PEER_ENDINGS;
		late_by_peers(b, b->sizes.value[i], m);
	}
	for (size_t k = 0; k < ARRAY_SIZE(backends); k++)
		load(b, k, 50 * n);
}

static void goals(struct bench *b)
{
	if (ours.tried) {
		bench_add(b, "all of weir's", "weir", "late bytes",
			  (double)ours.bytes);
		bench_add(b, "all of weir's", "weir", "endings",
			  (double)ours.tried);
		bench_goal(b, "no byte lands after the end", "all of weir's",
			   "weir", NULL, BENCH_AT_MOST, 0);
	}
	if (ours.timed_out) {
		bench_add(b, "stopped, with its pid", "weir", "of 1",
			  (double)ours.named / (double)ours.timed_out);
		bench_goal(b, "-ETIMEDOUT names the process that is stopped",
			   "stopped, with its pid", "weir", NULL,
			   BENCH_AT_LEAST, 1);
	}
	for (size_t k = 0; k < ARRAY_SIZE(backends); k++)
		late_load_goals(b, backends[k].backend, backends[k].name);
}

int main(int argc, char **argv)
{
	static const uint64_t sizes[] = { 16 << 20 };
	static struct bench b;
	int n;

	bench_init_with(&b, "late",
			BENCH_SIZES | BENCH_BACKENDS | BENCH_ENDINGS, argc,
			argv);
	bench_default(&b.sizes, sizes, 1);
	for (int i = 0; i < b.sizes.n; i++)
		if (b.sizes.value[i] > 1 << 30)
			bench_die("--size is more than 1 GiB", EINVAL);
	n = b.endings ? b.endings : b.quick ? 2 : 10;
	for (bench_begin(&b); bench_next(&b); )
		one_rep(&b, n);
	goals(&b);
	return bench_done(&b);
}
