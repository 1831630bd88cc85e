/* SPDX-License-Identifier: CC0-1.0 */
/* Read a file and a socket on one reactor. */
#include <stdio.h>
#include <unistd.h>
#include <weir/file.h>
#include <weir/reactor.h>
#include <weir/socket.h>

struct request { struct weir_op op; const char *what; char buf[4096]; };
static struct weir_reactor *reactor;
static int left = 2;

static void done(struct weir_op *op, int64_t res)
{
	struct request *rq = weir_container_of(op, struct request, op);

	printf("%s: %lld bytes\n", rq->what, (long long)res);
	if (--left == 0)
		weir_reactor_stop(reactor);
}

int main(void)
{
	struct request file = { .op.fn = done, .what = "file" };
	struct request sock = { .op.fn = done, .what = "socket" };
	int sv[2], fd = open("/etc/os-release", O_RDONLY);

	if (weir_reactor_create(&reactor, NULL))
		return fprintf(stderr, "%s\n", weir_why()), 1;
	socketpair(AF_UNIX, SOCK_STREAM, 0, sv);
	weir_recv(reactor, &sock.op, sv[0], sock.buf, sizeof(sock.buf), 0);
	weir_read(reactor, &file.op, fd, file.buf, sizeof(file.buf), 0);
	dprintf(sv[1], "hello");
	return weir_reactor_run(reactor) || weir_reactor_destroy(reactor);
}
