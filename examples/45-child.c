/* SPDX-License-Identifier: CC0-1.0 */

/*
 * Child processes: sort(1) as a filter, with its input and output as operations;
 * a program that does not end, within a deadline; and one that does not exist.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <weir/child.h>
#include <weir/file.h>
#include <weir/reactor.h>

static struct weir_reactor *reactor;

/* A program that is fed, read to the end, and waited for. */
struct filter {
	struct weir_op write, read, wait;
	struct weir_child *child;
	struct weir_child_status status;
	int in, out;
	char text[256];
	size_t len;
	int left;		/* Ends to come: of the output, and the child. */
};

static void ended(struct filter *f)
{
	if (--f->left == 0)
		weir_reactor_stop(reactor);
}

static void on_written(struct weir_op *op, int64_t res)
{
	struct filter *f = weir_container_of(op, struct filter, write);

	/* The close tells the child that this was all; its op may be the same. */
	if (f->in >= 0 && res >= 0) {
		weir_close(reactor, op, f->in);
		f->in = -1;
	}
}

static void on_read(struct weir_op *op, int64_t res)
{
	struct filter *f = weir_container_of(op, struct filter, read);

	if (res <= 0) {
		ended(f);
		return;
	}
	f->len += (size_t)res;
	weir_read(reactor, op, f->out, f->text + f->len,
		  sizeof(f->text) - 1 - f->len, WEIR_OFF_STREAM);
}

static void on_end(struct weir_op *op, int64_t res)
{
	struct filter *f = weir_container_of(op, struct filter, wait);

	if (res == -ETIMEDOUT) {
		printf("it takes too long, and is killed\n");
		weir_child_kill(f->child, SIGKILL);
		weir_child_wait(f->child, op, &f->status);
		return;
	}
	if (f->status.signo)
		printf("ended by signal %d\n", f->status.signo);
	else
		printf("exit code %d\n", f->status.code);
	ended(f);
}

static int sort(struct filter *f)
{
	struct weir_child_opts opts = {
		.size = sizeof(opts),
		.argv = (char *[]){ "sort", "-n", NULL },
		.io = { { WEIR_STDIO_PIPE_TO, 0 },
			{ WEIR_STDIO_PIPE_FROM, 0 } },
	};
	int err = weir_child_create(&f->child, reactor, &opts);

	if (err)
		return err;
	f->left = 2;
	weir_op_init(&f->write, on_written);
	weir_op_init(&f->read, on_read);
	weir_op_init(&f->wait, on_end);
	f->in = weir_child_take_fd(f->child, 0);
	f->out = weir_child_take_fd(f->child, 1);
	weir_write(reactor, &f->write, f->in, "30\n4\n200\n", 9,
		   WEIR_OFF_STREAM);
	weir_read(reactor, &f->read, f->out, f->text, sizeof(f->text) - 1,
		  WEIR_OFF_STREAM);
	return weir_child_wait(f->child, &f->wait, &f->status);
}

static int sleep_too_long(struct filter *f)
{
	struct weir_child_opts opts = {
		.size = sizeof(opts),
		.argv = (char *[]){ "sleep", "1000", NULL },
	};
	int err = weir_child_create(&f->child, reactor, &opts);

	if (err)
		return err;
	f->left = 1;
	weir_op_init(&f->wait, on_end);
	weir_op_set_deadline(&f->wait, weir_reactor_now(reactor) +
			     50 * WEIR_MSEC);
	return weir_child_wait(f->child, &f->wait, &f->status);
}

static int run(int err)
{
	if (!err)
		err = weir_reactor_run(reactor);
	if (!err)
		err = weir_reactor_start(reactor);
	return err;
}

int main(void)
{
	static struct filter filter, sleeper;
	struct weir_child *none;
	struct weir_child_opts opts = {
		.size = sizeof(opts),
		.argv = (char *[]){ "weir-has-no-such-program", NULL },
	};
	int err = weir_reactor_create(&reactor, NULL);

	if (!err)
		err = run(sort(&filter));
	printf("%s", filter.text);
	weir_child_destroy(filter.child);
	if (!err)
		err = run(sleep_too_long(&sleeper));
	weir_child_destroy(sleeper.child);
	if (err == -EOPNOTSUPP) {
		printf("%s\n", weir_why());
		return 77;
	}
	if (err) {
		fprintf(stderr, "%s\n", weir_why());
		return 1;
	}
	weir_child_create(&none, reactor, &opts);
	printf("%s\n", weir_why());
	weir_reactor_destroy(reactor);
	return strcmp(filter.text, "4\n30\n200\n") || filter.status.code ||
	       sleeper.status.signo != SIGKILL;
}
