/* SPDX-License-Identifier: CC0-1.0 */

/*
 * Operations: a struct of yours, a start, a callback.
 *
 * The op is a member of the request that it belongs to, so nothing is allocated
 * and nothing is looked up.  This program starts three: one that succeeds, one
 * that meets its deadline, and one that is cancelled.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weir/file.h>
#include <weir/reactor.h>
#include <weir/socket.h>

struct request {
	struct weir_op op;
	const char *name;
	int64_t expected;	/* Its result; 1: anything from 1 on. */
	char buf[4096];
};

static struct weir_reactor *reactor;
static int left;
static int surprises;

/* Called once for each request, from the loop, whatever becomes of it. */
static void on_done(struct weir_op *op, int64_t res)
{
	struct request *rq = weir_container_of(op, struct request, op);
	int good = rq->expected > 0 ? res > 0 : res == rq->expected;

	if (res >= 0)
		printf("%s: %lld bytes\n", rq->name, (long long)res);
	else
		printf("%s: %s\n", rq->name, strerror((int)-res));
	surprises += !good;
	if (--left == 0)
		weir_reactor_stop(reactor);
}

static void request_init(struct request *rq, const char *name, int64_t expected)
{
	weir_op_init(&rq->op, on_done);
	rq->name = name;
	rq->expected = expected;
	left++;
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "/etc/passwd";
	struct request file, late, unwanted;
	int fd, silent[2], err;

	err = weir_reactor_create(&reactor, NULL);
	if (err)
		return fprintf(stderr, "01-operation: %s\n", weir_why()), 1;
	printf("%s\n", weir_reactor_describe(reactor));

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, silent))
		return perror(path), 1;

	request_init(&file, "reading a file", 1);
	err = weir_read(reactor, &file.op, fd, file.buf, sizeof(file.buf), 0);

	/* Nobody ever sends anything here. */
	request_init(&late, "waiting until the deadline", -ETIMEDOUT);
	weir_op_set_deadline(&late.op,
			     weir_reactor_now(reactor) + 20 * WEIR_MSEC);
	if (!err)
		err = weir_recv(reactor, &late.op, silent[0], late.buf,
				sizeof(late.buf), 0);

	request_init(&unwanted, "waiting until cancelled", -ECANCELED);
	if (!err)
		err = weir_recv(reactor, &unwanted.op, silent[1], unwanted.buf,
				sizeof(unwanted.buf), 0);

	/* A request: on_done() will still be called, from the loop. */
	if (!err)
		err = weir_op_cancel(&unwanted.op);
	if (err)
		return fprintf(stderr, "01-operation: %s\n", strerror(-err)), 1;

	err = weir_reactor_run(reactor);
	if (!err)
		err = weir_reactor_destroy(reactor);
	close(fd);
	close(silent[0]);
	close(silent[1]);
	return err || surprises;
}
