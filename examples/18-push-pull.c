/* SPDX-License-Identifier: CC0-1.0 */

/*
 * Two processes: one has a text and does nothing but sleep; the other pulls it
 * from there, works on it, and pushes it back.  For memory that both agree to
 * share see 13-export.c.  Here the kernel copies, if the caller may trace the
 * process; where that is not allowed the program ends with 77.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/dma.h>
#include <weir/domain.h>
#include <weir/job.h>
#include <weir/reactor.h>

/* After fork() it is at the same address in both, and is not shared. */
static char text[] = "the water is high";

/* Sleep until the other side closes the pipe, and look. */
static int owner(int fd)
{
	char c;

	if (read(fd, &c, 1))
		return 1;
	printf("the owner has \"%s\"\n", text);
	fflush(stdout);
	return strcmp(text, "THE WATER IS HIGH") != 0;
}

static void on_moved(struct weir_op *op, int64_t res)
{
	*(int64_t *)op->data = res;
}

static int64_t run(struct weir_dma *dma, struct weir_job *job)
{
	int64_t res;

	job->op.fn = on_moved;
	job->op.data = &res;
	res = weir_job_start(dma, job);
	while (weir_op_is_busy(&job->op))
		weir_reactor_turn(weir_dma_reactor(dma), WEIR_FOREVER);
	return res;
}

/* Pull from @theirs, change it, push it back.  Returns 0, or a negative
 * errno. */
static int64_t work(struct weir_dma *dma, struct weir_domain *theirs)
{
	char mine[sizeof(text)] = "";
	struct weir_operand here = weir_operand_mem(mine, sizeof(mine));
	struct weir_operand there =
		weir_operand_at(theirs, (uintptr_t)text, sizeof(text));
	struct weir_job job;
	int64_t res;

	weir_job_init(&job, on_moved);
	weir_job_copy(&job, here, there);
	job.kind = WEIR_JOB_PULL;
	res = run(dma, &job);
	printf("pulled \"%s\"\n", mine);
	if (res < 0)
		return res;
	for (char *c = mine; *c; c++)
		*c -= *c >= 'a' ? 'a' - 'A' : 0;
	weir_job_copy(&job, there, here);
	job.kind = WEIR_JOB_PUSH;
	res = run(dma, &job);
	return res < 0 ? res : 0;
}

int main(void)
{
	struct weir_domain *theirs = NULL;
	struct weir_reactor *r;
	struct weir_dma *dma;
	int fds[2], status = 1;
	int64_t err;
	pid_t pid;

	if (pipe(fds))
		return 1;
	pid = fork();	/* Before there is a reactor: those are not shared. */
	if (pid < 0)
		return 1;
	close(fds[!pid]);
	if (!pid)
		_exit(owner(fds[0]));

	if (weir_reactor_create(&r, NULL) || weir_dma_create(&dma, r, NULL) ||
	    weir_dma_start(dma))
		return fprintf(stderr, "18-push-pull: %s\n", weir_why()), 1;
	err = weir_domain_process_create(&theirs, pid, NULL);
	if (err)
		fprintf(stderr, "18-push-pull: %s\n", weir_why());
	else
		err = work(dma, theirs);
	close(fds[1]);
	waitpid(pid, &status, 0);
	if (weir_dma_destroy(dma) || weir_domain_destroy(theirs) ||
	    weir_reactor_destroy(r))
		return 1;
	return err == -EPERM || err == -EOPNOTSUPP ? 77 : err || status;
}
