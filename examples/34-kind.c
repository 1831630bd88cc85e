/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A kind of job of the program's own: the ends of lines become others, such as
 * "\r\n".  How long the output is shows at its end.  The kind sees pieces; that
 * a side is a file, and a large job is a worker's, is the library's business.
 *
 *	34-kind [FROM TO]	without arguments, files of its own
 */

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weir/dma.h>
#include <weir/domain.h>
#include <weir/job.h>
#include <weir/kind.h>
#include <weir/reactor.h>

#define LINES 50000

static uint32_t lines_kind;

/* The arguments of a job are what lines shall end with. */
static int lines_shape(const struct weir_job *job, uint64_t bytes,
		       struct weir_kind_shape *ret)
{
	const char *end = weir_job_args(job);

	(void)bytes, (void)ret;
	return end && *end ? 0 : -EINVAL;
}

/* As much as there is input and capacity for.  .state[0] is how much of an end
 * is written, for there may be capacity for a part of it. */
static int lines_run(struct weir_kind_run *run)
{
	const char *in = run->in, *end = run->args;
	char *out = run->out;

	while (run->consumed < run->in_len && run->produced < run->out_len) {
		if (in[run->consumed] != '\n') {
			out[run->produced++] = in[run->consumed++];
			continue;
		}
		out[run->produced++] = end[run->state[0]++];
		if (!end[run->state[0]]) {
			run->state[0] = 0;
			run->result[0]++;	/* Lines. */
			run->consumed++;
		}
	}
	return run->last && run->consumed == run->in_len;
}

static const struct weir_kind_ops lines_ops = {
	.size = sizeof(lines_ops),
	.name = "lines",
	.flags = WEIR_KIND_OUTPUT,
	.weight = 16,		/* A byte takes as long as 16 that are copied. */
	.worker_min = 64 << 10,
	.shape = lines_shape,
	.run = lines_run,
};

static void on_done(struct weir_op *op, int64_t res)
{
	*(int64_t *)op->data = res;
}

static int64_t convert(struct weir_dma *dma, struct weir_job *job,
		       struct weir_operand dst, struct weir_operand src,
		       const char *end)
{
	int64_t res;

	weir_job_init(job, on_done);
	weir_job_registered(job, lines_kind, dst, src, end);
	job->op.data = &res;
	res = weir_job_start(dma, job);
	while (weir_op_is_busy(&job->op))
		weir_reactor_turn(weir_dma_reactor(dma), WEIR_FOREVER);
	return res;
}

/* Memory, with more than enough capacity, with just enough, and with less. */
static int try_memory(struct weir_dma *dma)
{
	static const char in[] = "one\ntwo\n\n", want[] = "one\r\ntwo\r\n\r\n";
	struct weir_operand src = weir_operand_mem((void *)(uintptr_t)in, 9);
	struct weir_job job;
	char out[32];

	return convert(dma, &job, weir_operand_mem(out, 32), src, "\r\n") != 12 ||
	       weir_job_result(&job)[0] != 3 || memcmp(out, want, 12) ||
	       convert(dma, &job, weir_operand_mem(out, 12), src, "\r\n") != 12 ||
	       convert(dma, &job, weir_operand_mem(out, 11), src, "\r\n") !=
		       -ENOSPC ||
	       convert(dma, &job, weir_operand_mem(out, 32), src, "") != -EINVAL;
}

static int try_files(struct weir_dma *dma, int from, int to)
{
	off_t size = lseek(from, 0, SEEK_END);
	struct weir_domain *src, *dst;
	struct weir_job job;
	uint64_t lines;
	int64_t res;

	if (size <= 0 || weir_domain_file_create(&src, from, NULL) ||
	    weir_domain_file_create(&dst, to, NULL))
		return -1;
	res = convert(dma, &job, weir_operand_at(dst, 0, INT64_MAX),
		      weir_operand_at(src, 0, (uint64_t)size), "\r\n");
	lines = res < 0 ? 0 : weir_job_result(&job)[0];
	printf("%lld bytes became %lld, with %llu lines\n", (long long)size,
	       (long long)res, (unsigned long long)lines);
	return weir_domain_destroy(src) || weir_domain_destroy(dst) ||
	       res != size + (int64_t)lines;
}

static int own_file(void)
{
	FILE *file = tmpfile();
	int i;

	if (!file)
		return -1;
	for (i = 0; i < LINES; i++)
		fprintf(file, "line %d\n", i);
	fflush(file);
	return dup(fileno(file));
}

int main(int argc, char **argv)
{
	bool own = argc < 3;
	int from = own ? own_file() : open(argv[1], O_RDONLY);
	int to = own ? own_file() : open(argv[2], O_RDWR | O_CREAT | O_TRUNC,
					 0666);
	struct weir_reactor *r;
	struct weir_dma *dma;
	char end[2];
	int bad;

	if (from < 0 || to < 0 || (own && ftruncate(to, 0)))
		return perror("34-kind"), 1;
	if (weir_kind_register(&lines_ops, &lines_kind) ||
	    weir_reactor_create(&r, NULL) || weir_dma_create(&dma, r, NULL) ||
	    weir_dma_start(dma))
		return fprintf(stderr, "34-kind: %s\n", weir_why()), 1;
	bad = try_memory(dma) || try_files(dma, from, to);
	if (own && !bad)
		bad = pread(to, end, 2, lseek(to, 0, SEEK_END) - 2) != 2 ||
		      memcmp(end, "\r\n", 2);
	close(from);
	close(to);
	return weir_dma_destroy(dma) || weir_reactor_destroy(r) || bad;
}
