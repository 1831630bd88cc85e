/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What it costs that a job bounces: against a pull and a push of the same bytes
 * by the caller, one after the other, through memory of its own.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/dma.h>
#include <weir/job.h>
#include <weir/reactor.h>

#include "bench/bench.h"
#include "bench/user-domain.h"

#define LEN ((size_t)1 << 20)

static struct weir_reactor *reactor;
static struct weir_dma *dma;
static struct weir_domain *user[2], *file;
static char *memory[2], *here;
static struct weir_job first, second;
static uint64_t left;
static size_t size;
static struct weir_domain *from;

static void start(struct weir_job *job)
{
	bench_must(weir_job_start(dma, job), "weir_job_start");
}

static void again(struct weir_op *op, int64_t res)
{
	(void)op;
	if (res != (int64_t)size)
		bench_die("job", (int)-res);
	if (--left)
		start(&first);
	else
		weir_reactor_break(reactor);
}

static void then_push(struct weir_op *op, int64_t res)
{
	(void)op;
	if (res != (int64_t)size)
		bench_die("pull", (int)-res);
	start(&second);
}

static double run(uint64_t n)
{
	uint64_t begin;

	left = n;
	begin = bench_wall_ns();
	start(&first);
	bench_must(weir_reactor_run(reactor), "weir_reactor_run");
	return (double)(bench_wall_ns() - begin) / (double)n;
}

static double run_bounce(uint64_t n)
{
	weir_job_init(&first, again);
	weir_job_copy(&first, weir_operand_at(user[1], 0, size),
		      weir_operand_at(from, 0, size));
	return run(n);
}

static double run_pull_push(uint64_t n)
{
	weir_job_init(&first, then_push);
	weir_job_init(&second, again);
	weir_job_copy(&first, weir_operand_mem(here, size),
		      weir_operand_at(from, 0, size));
	weir_job_copy(&second, weir_operand_at(user[1], 0, size),
		      weir_operand_mem(here, size));
	return run(n);
}

static void measure(struct bench *b, const char *what, struct weir_domain *src,
		    size_t len, uint64_t n)
{
	from = src;
	size = len;
	if (b->quick)
		n /= 100;
	bench_add(b, what, "pull, push", "ns", run_pull_push(n));
	bench_add(b, what, "bounce", "ns", run_bounce(n));
}

static int make_file(const struct bench *b)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/weir-bench-XXXXXX", b->dir);
	fd = mkstemp(path);
	if (fd < 0)
		bench_die(path, 0);
	unlink(path);
	if (write(fd, memory[0], LEN) != (ssize_t)LEN)
		bench_die("write", 0);
	return fd;
}

static void goals(struct bench *b)
{
	static const char *const cases[] = {
		"user to user, 4 KiB", "file to user, 4 KiB",
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		bench_goal(b, "a bounce at most 1.5 times pull and push",
			   cases[i], "bounce", "pull, push", BENCH_AT_MOST,
			   1.5);
}

int main(int argc, char **argv)
{
	struct bench b;
	int fd;

	bench_init(&b, "bounce", argc, argv);
	b.reference = "pull, push";
	memory[0] = calloc(1, LEN);
	memory[1] = calloc(1, LEN);
	here = malloc(LEN);
	memset(here, 1, LEN);
	fd = make_file(&b);
	bench_must(weir_domain_file_create(&file, fd, NULL), "file domain");
	user[0] = user_domain_make(memory[0]);
	user[1] = user_domain_make(memory[1]);
	bench_must(weir_reactor_create(&reactor, NULL), "weir_reactor_create");
	bench_must(weir_dma_create(&dma, reactor, NULL), "weir_dma_create");
	bench_must(weir_dma_start(dma), "weir_dma_start");
	for (bench_begin(&b); bench_next(&b);) {
		measure(&b, "user to user, 4 KiB", user[0], 4096, 200000);
		measure(&b, "user to user, 1 MiB", user[0], LEN, 2000);
		measure(&b, "file to user, 4 KiB", file, 4096, 50000);
		measure(&b, "file to user, 1 MiB", file, LEN, 2000);
	}
	goals(&b);
	bench_must(weir_dma_destroy(dma), "weir_dma_destroy");
	bench_must(weir_reactor_destroy(reactor), "weir_reactor_destroy");
	weir_domain_destroy(user[0]);
	weir_domain_destroy(user[1]);
	weir_domain_destroy(file);
	close(fd);
	free(memory[0]);
	free(memory[1]);
	free(here);
	return bench_done(&b);
}
