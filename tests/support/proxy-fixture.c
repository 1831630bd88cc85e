/* SPDX-License-Identifier: BSD-3-Clause */

#include "tests/support/proxy-fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <sys/wait.h>

#define PROGRAM "programs/weir-proxy/weir-proxy"
#define CHUNK 65536

/* Nothing takes any more for so long: it is full. */
#define FULL_MS 150

/* ---- the program ---- */

void fixture_init(void **state, struct fixture *fixture)
{
	memset(fixture, 0, sizeof(*fixture));
	snprintf(fixture->conf, sizeof(fixture->conf), "%s/conf",
		 test_dir(state));
	snprintf(fixture->log, sizeof(fixture->log), "%s/log", test_dir(state));
	snprintf(fixture->err, sizeof(fixture->err), "%s/err", test_dir(state));
	fixture->at = free_port();
	fixture->to = free_port();
	fixture->target = listen_on(fixture->to, 128);
}

void fixture_configure(struct fixture *fixture, const char *fmt, ...)
{
	FILE *out = fopen(fixture->conf, "we");
	va_list ap;

	assert_non_null(out);
	va_start(ap, fmt);
	vfprintf(out, fmt, ap);
	va_end(ap);
	assert_int_equal(fclose(out), 0);
}

static void be_the_program(const char *backend, const struct fixture *fixture,
			   const char *cores)
{
	const char *program = getenv("WEIR_PROXY");
	int err = open(fixture->err, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (!program)
		program = PROGRAM;
	alarm(0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(err, 1);
	dup2(err, 2);
	setenv("WEIR_BACKEND", backend, 1);
	execl(program, program, "-n", cores, "-f", fixture->conf, (char *)NULL);
	_exit(127);
}

void fixture_run(void **state, struct fixture *fixture, const char *cores)
{
	struct world *w = *state;

	fixture->pid = fork();
	assert_true(fixture->pid >= 0);
	if (!fixture->pid)
		be_the_program(w->backend, fixture, cores);
}

void fixture_start(void **state, struct fixture *fixture)
{
	fixture_init(state, fixture);
	fixture_configure(fixture, "listen 127.0.0.1:%u to 127.0.0.1:%u\n",
			  fixture->at, fixture->to);
	fixture_run(state, fixture, "1");
}

void fixture_signal(struct fixture *fixture, int signo)
{
	assert_int_equal(kill(fixture->pid, signo), 0);
}

static void show_errors(const struct fixture *fixture)
{
	char text[4096];
	int fd = open(fixture->err, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof(text));

	if (n > 0)
		print_error("%.*s", (int)n, text);
	close(fd);
}

void fixture_await(struct fixture *fixture)
{
	int status;

	close(fixture->target); /* Nobody is left in its queue. */
	assert_int_equal(waitpid(fixture->pid, &status, 0), fixture->pid);
	if (status)
		show_errors(fixture);
	assert_int_equal(status, 0);
}

void fixture_end(struct fixture *fixture)
{
	fixture_signal(fixture, SIGINT);
	fixture_await(fixture);
}

bool has_text_now(const char *path, const char *text)
{
	char all[8192];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, all, sizeof(all) - 1);

	if (fd >= 0)
		close(fd);
	if (n < 0)
		return false;
	all[n] = 0;
	return strstr(all, text);
}

void await_text(const char *path, const char *text)
{
	while (!has_text_now(path, text))
		poll(NULL, 0, 1);
}

unsigned long count_lines(int fd, unsigned long *dropped)
{
	static char line[1024];
	static size_t len;
	unsigned long n = 0, more;

	while (read(fd, &line[len], 1) == 1) {
		if (line[len++] != '\n' && len < sizeof(line) - 1)
			continue;
		line[len] = 0;
		len = 0;
		if (sscanf(line, "# %lu lines dropped", &more) == 1)
			*dropped += more;
		else
			n++;
	}
	return n;
}

/* ---- sockets ---- */

static struct sockaddr_in loopback(uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET };

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in.sin_port = htons(port);
	return in;
}

static struct sockaddr_un named(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	assert_true(strlen(path) < sizeof(un.sun_path));
	memcpy(un.sun_path, path, strlen(path));
	return un;
}

static int new_socket(int family)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	return fd;
}

int listen_at(const char *addr, uint16_t port, int backlog)
{
	struct sockaddr_in in = loopback(port);
	int fd = new_socket(AF_INET), one = 1;

	in.sin_addr.s_addr = inet_addr(addr);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert_int_equal(bind(fd, (void *)&in, sizeof(in)), 0);
	assert_int_equal(listen(fd, backlog), 0);
	return fd;
}

int listen_on(uint16_t port, int backlog)
{
	return listen_at("127.0.0.1", port, backlog);
}

int listen_unix(const char *path)
{
	struct sockaddr_un un = named(path);
	int fd = new_socket(AF_UNIX);

	assert_int_equal(bind(fd, (void *)&un, sizeof(un)), 0);
	assert_int_equal(listen(fd, 16), 0);
	return fd;
}

static bool is_free(uint16_t port)
{
	struct sockaddr_in in = loopback(port);
	int fd = new_socket(AF_INET);
	bool is = !bind(fd, (void *)&in, sizeof(in));

	close(fd);
	return is;
}

/*
 * Nor one that somebody gets who connects meanwhile, as other tests do by the
 * thousand: those begin at 32768.  Each process begins somewhere else.
 */
uint16_t free_port(void)
{
	static unsigned int port;

	if (!port)
		port = 10000 + (unsigned int)getpid() % 2000 * 11;
	do {
		port = port < 32000 ? port + 1 : 10000;
	} while (!is_free((uint16_t)port));
	return (uint16_t)port;
}

int dial_once(uint16_t port)
{
	struct sockaddr_in in = loopback(port);
	int fd = new_socket(AF_INET);

	if (!connect(fd, (void *)&in, sizeof(in)))
		return fd;
	close(fd);
	return -1;
}

int dial(uint16_t port)
{
	int fd;

	while ((fd = dial_once(port)) < 0)
		poll(NULL, 0, 1);
	return fd;
}

int dial_unix(const char *path)
{
	struct sockaddr_un un = named(path);
	int fd = new_socket(AF_UNIX);

	while (connect(fd, (void *)&un, sizeof(un)))
		poll(NULL, 0, 1);
	return fd;
}

bool comes(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

int take(int fd)
{
	int taken = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

	assert_true(taken >= 0);
	return taken;
}

struct pair connect_both(struct fixture *fixture)
{
	struct pair p = { .client = dial(fixture->at) };

	p.server = take(fixture->target);
	return p;
}

void close_both(struct pair *p)
{
	close(p->client);
	close(p->server);
}

/* ---- bytes ---- */

void say(int fd, const char *text)
{
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

void hear(int fd, const char *text)
{
	char buf[256];

	assert_int_equal(recv(fd, buf, strlen(text), MSG_WAITALL),
			 strlen(text));
	assert_memory_equal(buf, text, strlen(text));
}

void hear_end(int fd)
{
	char c;

	assert_int_equal(read(fd, &c, 1), 0);
}

void hear_reset(int fd)
{
	char buf[4096];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		;
	assert_int_equal(n, -1);
	assert_int_equal(errno, ECONNRESET);
}

void reset(int fd)
{
	struct linger none = { .l_onoff = 1 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(fd);
}

/* As much as goes without waiting. */
static size_t push(int fd, size_t at, size_t len, unsigned int seed)
{
	unsigned char buf[CHUNK];
	size_t n = len < sizeof(buf) ? len : sizeof(buf);
	ssize_t sent;

	fill_pattern(buf, n, at, seed);
	sent = send(fd, buf, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0)
		assert_int_equal(errno, EAGAIN);
	return sent < 0 ? 0 : (size_t)sent;
}

static size_t pull(int fd, size_t at, size_t len, unsigned int seed, int flags)
{
	unsigned char buf[CHUNK];
	ssize_t n = recv(fd, buf, len < sizeof(buf) ? len : sizeof(buf), flags);

	if (n < 0)
		assert_int_equal(errno, EAGAIN);
	else
		assert_true(n && is_pattern(buf, (size_t)n, at, seed));
	return n < 0 ? 0 : (size_t)n;
}

void transfer(int a, int b, size_t len, unsigned int seed)
{
	struct pollfd p[2] = { { .fd = b, .events = POLLIN },
			       { .fd = a, .events = POLLOUT } };
	size_t in = 0, out = 0;

	while (out < len) {
		poll(p, in < len ? 2 : 1, -1);
		if (in < len)
			in += push(a, in, len - in, seed);
		out += pull(b, out, len - out, seed, MSG_DONTWAIT);
	}
}

size_t fill(int fd, unsigned int seed)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	size_t at = 0;

	while (poll(&p, 1, FULL_MS) == 1)
		at += push(fd, at, CHUNK, seed);
	return at;
}

void drink(int fd, size_t len, unsigned int seed)
{
	size_t at = 0;

	while (at < len)
		at += pull(fd, at, len - at, seed, 0);
}
