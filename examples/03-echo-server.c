/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A TCP server that sends back what it receives.
 *
 *	03-echo-server [PORT]
 *
 * An acceptor brings connections, a receiver for each brings data in buffers of
 * the reactor's free list, and a buffer is kept until it has been sent.
 * Without a port it is its own client: three of them, in threads, each of
 * which checks what comes back; then it ends.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/reactor.h>
#include <weir/socket.h>

#define N_CLIENTS 3
#define CLIENT_BYTES (1 << 20)

struct connection {
	struct weir_op op;	/* Sends what .data is. */
	struct weir_receiver *receiver;
	void *data;		/* Kept from the receiver; NULL: idle. */
	int fd;
	int ended;		/* Nothing more comes. */
};

static struct weir_reactor *reactor;
static struct weir_acceptor *acceptor;
static struct sockaddr_in address;
static int connections, clients, failures;
static int is_server;		/* For others, and for ever. */

static void stop_if_done(void)
{
	if (clients || connections || is_server)
		return;
	printf("%d clients served, %d wrongly\n", N_CLIENTS, failures);
	weir_reactor_stop(reactor);
}

static void hang_up(struct connection *c)
{
	weir_receiver_destroy(c->receiver);
	close(c->fd);
	free(c);
	connections--;
	stop_if_done();
}

/* All of it is sent, or the connection is broken. */
static void on_sent(struct weir_op *op, int64_t res)
{
	struct connection *c = weir_container_of(op, struct connection, op);

	weir_receiver_release(reactor, c->data);
	c->data = NULL;
	if (res < 0 || c->ended)
		hang_up(c);
	else
		weir_receiver_set(c->receiver, 1);
}

/* One buffer at a time: the client is held up if it does not read. */
static int on_data(struct weir_receiver *receiver, void *data, int64_t len,
		   void *arg)
{
	struct connection *c = arg;

	if (len <= 0) {
		c->ended = 1;
		if (!c->data)
			hang_up(c);
		return WEIR_RECEIVER_DONE;
	}
	if (weir_send(reactor, &c->op, c->fd, data, (size_t)len, 0)) {
		hang_up(c);
		return WEIR_RECEIVER_DONE;
	}
	c->data = data;
	weir_receiver_set(receiver, 0);
	return WEIR_RECEIVER_KEEP;
}

static void on_connection(struct weir_acceptor *a, int fd, void *arg)
{
	struct connection *c;

	(void)a, (void)arg;
	if (fd < 0) {
		fprintf(stderr, "03-echo-server: %s\n", strerror(-fd));
		return;
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		close(fd);
		return;
	}
	c->fd = fd;
	connections++;
	weir_op_init(&c->op, on_sent);
	if (weir_receiver_create(&c->receiver, reactor, fd, NULL, on_data, c))
		hang_up(c);
}

/* From a client's thread; runs in the loop. */
static void client_done(void *failed)
{
	failures += failed != NULL;
	clients--;
	stop_if_done();
}

/* Plain blocking calls, for once. */
static int talk(int fd)
{
	unsigned char out[5000], in[5000];
	size_t sent, got;
	ssize_t n;

	for (sent = 0; sent < CLIENT_BYTES; sent += sizeof(out)) {
		for (size_t i = 0; i < sizeof(out); i++)
			out[i] = (unsigned char)((sent + i) * 31 >> 3);
		if (write(fd, out, sizeof(out)) != sizeof(out))
			return -1;
		for (got = 0; got < sizeof(in); got += (size_t)n) {
			n = read(fd, in + got, sizeof(in) - got);
			if (n <= 0)
				return -1;
		}
		if (memcmp(in, out, sizeof(in)))
			return -1;
	}
	return 0;
}

static void *client(void *arg)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int bad = connect(fd, (void *)&address, sizeof(address)) || talk(fd);

	(void)arg;
	close(fd);
	while (weir_post(reactor, client_done, bad ? reactor : NULL) == -EAGAIN)
		;
	return NULL;
}

static int run_clients(void)
{
	pthread_t threads[N_CLIENTS];
	int err;

	clients = N_CLIENTS;
	for (int i = 0; i < N_CLIENTS; i++)
		if (pthread_create(&threads[i], NULL, client, NULL))
			return -EAGAIN;
	err = weir_reactor_run(reactor);
	for (int i = 0; i < N_CLIENTS; i++)
		pthread_join(threads[i], NULL);
	return err;
}

int main(int argc, char **argv)
{
	socklen_t len = sizeof(address);
	int fd = -1, err;

	is_server = argc > 1;
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address.sin_port = htons(is_server ? (uint16_t)atoi(argv[1]) : 0);

	err = weir_reactor_create(&reactor, NULL);
	if (!err)
		err = weir_listen(&fd, (void *)&address, len, 16, 0);
	if (!err)
		err = weir_acceptor_create(&acceptor, reactor, fd,
					   on_connection, NULL);
	if (err)
		return fprintf(stderr, "03-echo-server: %s\n", weir_why()), 1;
	getsockname(fd, (void *)&address, &len);
	printf("port %u, on %s\n", ntohs(address.sin_port),
	       weir_reactor_backend(reactor));

	err = is_server ? weir_reactor_run(reactor) : run_clients();
	weir_acceptor_destroy(acceptor);
	close(fd);
	if (!err)
		err = weir_reactor_destroy(reactor);
	if (err)
		fprintf(stderr, "03-echo-server: %s\n", weir_why());
	return err || failures;
}
