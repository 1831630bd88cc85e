/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_NBD_FIXTURE_H
#define TESTS_NBD_FIXTURE_H

/*
 * weir-nbd as another process, and a client that says every byte itself.  The
 * server is that of the build, or WEIR_NBD.
 */

#include "tests/support/harness.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "programs/weir-nbd/weir-nbd.h"

#define MIB (1u << 20)
#define FILE_SIZE (8u * MIB + 512)
#define MEMORY_SIZE (8u * MIB)

static pid_t nbd_pid;
static char nbd_socket[128];

/* The program of the build.  Where libtool has put a script in its place, what
 * that would run, as it would: the script takes longer than a test. */
static inline const char *nbd_built(void)
{
	static const char inner[] = "programs/weir-nbd/.libs/weir-nbd";

	if (access(inner, X_OK) || getenv("LD_LIBRARY_PATH"))
		return "programs/weir-nbd/weir-nbd";
	setenv("LD_LIBRARY_PATH", ".libs", 1);
	return inner;
}

/* The server with @args after those that tell it where to listen. */
static inline void nbd_exec(void **state, const char *const args[])
{
	const struct world *w = *state;
	const char *program = getenv("WEIR_NBD");
	const char *argv[24] = { "weir-nbd", "--quiet", "--unix", nbd_socket };
	int n = 4;

	for (; *args && n < 23; args++)
		argv[n++] = *args;
	setenv("WEIR_BACKEND", w->backend, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execv(program ? program : nbd_built(), (char *const *)argv);
	_exit(127);
}

static inline void nbd_spawn(void **state, const char *const args[])
{
	snprintf(nbd_socket, sizeof(nbd_socket), "%s",
		 test_path(state, "socket"));
	fflush(NULL);
	nbd_pid = fork();
	assert_true(nbd_pid >= 0);
	if (nbd_pid == 0)
		nbd_exec(state, args);
}

/* Returns a connected socket, or -1. */
static inline int nbd_try_connect(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	memcpy(sun.sun_path, nbd_socket, strlen(nbd_socket));
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0)
		return fd;
	close(fd);
	return -1;
}

/*
 * It greets as soon as it can serve: there is nothing to wait on.  A server that
 * was killed is not it: the kernel closes its socket some time after its end, as
 * io_uring has the socket, too.  Whatever else is to be done meanwhile is @r's.
 * When this returns, the server has closed the connection that it was tried with.
 */
static inline void nbd_await(struct weir_reactor *r)
{
	uint8_t greeting[18];
	bool greeted = false;
	int fd;

	while (!greeted) {
		assert_int_equal(waitpid(nbd_pid, NULL, WNOHANG), 0);
		fd = nbd_try_connect();
		if (fd < 0 && r)
			weir_reactor_turn(r, WEIR_MSEC);
		else if (fd < 0)
			poll(NULL, 0, 1);
		if (fd < 0)
			continue;
		shutdown(fd, SHUT_WR);
		while (recv(fd, greeting, sizeof(greeting), 0) > 0)
			greeted = true;
		close(fd);
	}
}

/* A server with a file, memory, and the file again to be read only. */
static inline void nbd_start_with(void **state, const char *const more[])
{
	const char *args[16] = { "--connections=8", "--cores=2" };
	char file[256], ro[256];
	int n = 2;

	close(test_file(state, "file", FILE_SIZE, 1));
	snprintf(file, sizeof(file), "--export=name=file,text=a file,path=%s",
		 test_path(state, "file"));
	snprintf(ro, sizeof(ro), "--export=name=ro,ro,path=%s",
		 test_path(state, "file"));
	args[n++] = file;
	args[n++] = "--export=name=memory,size=8M";
	args[n++] = ro;
	while (*more)
		args[n++] = *more++;
	nbd_spawn(state, args);
	nbd_await(NULL);
}

static inline void nbd_start(void **state)
{
	nbd_start_with(state, (const char *const[]){ NULL });
}

static inline int nbd_wait(void)
{
	int status;

	assert_int_equal(waitpid(nbd_pid, &status, 0), nbd_pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline void nbd_stop(void)
{
	kill(nbd_pid, SIGTERM);
	assert_int_equal(nbd_wait(), 0);
}

/* Bytes to and from the server. */

static inline void tell(int fd, const void *p, size_t len)
{
	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		assert_true(n > 0);
		p = (const char *)p + n;
		len -= (size_t)n;
	}
}

static inline void hear(int fd, void *p, size_t len)
{
	while (len) {
		ssize_t n = recv(fd, p, len, 0);

		assert_true(n > 0);
		p = (char *)p + n;
		len -= (size_t)n;
	}
}

/* The server has gone away, having said nothing more. */
static inline void hear_end(int fd)
{
	char c;
	ssize_t n = recv(fd, &c, 1, 0);

	assert_true(n == 0 || (n < 0 && errno == ECONNRESET));
	close(fd);
}

/* Connected, greeted, and with client flags @flags.  Who is one too many, as
 * others that have gone are still being cleared away, comes again. */
static inline int nbd_connect(uint32_t flags)
{
	int fd = nbd_try_connect();
	uint8_t buf[18], said[4];

	assert_true(fd >= 0);
	while (recv(fd, buf, 18, MSG_WAITALL) != 18) {
		close(fd);
		poll(NULL, 0, 1);
		fd = nbd_try_connect();
		assert_true(fd >= 0);
	}
	assert_true(get64(buf) == NBD_MAGIC);
	assert_true(get64(buf + 8) == NBD_OPTION_MAGIC);
	assert_int_equal(get16(buf + 16), 3);
	put32(said, flags);
	tell(fd, said, 4);
	return fd;
}

static inline void say_option(int fd, uint32_t type, const void *data,
			      uint32_t len)
{
	uint8_t buf[16], *p = put64(buf, NBD_OPTION_MAGIC);

	put32(put32(p, type), len);
	tell(fd, buf, 16);
	tell(fd, data, len);
}

/* Returns the type of the next reply to @option, and what it has in @data. */
static inline uint32_t hear_option(int fd, uint32_t option, uint8_t *data,
				   uint32_t *len)
{
	uint8_t buf[20];

	hear(fd, buf, 20);
	assert_true(get64(buf) == NBD_REP_MAGIC);
	assert_int_equal(get32(buf + 8), option);
	*len = get32(buf + 16);
	assert_true(*len <= 1024);
	hear(fd, data, *len);
	return get32(buf + 12);
}

/* Send it, and skip replies up to the last one, whose type is returned. */
static inline uint32_t do_option(int fd, uint32_t type, const void *data,
				 uint32_t len)
{
	uint8_t capacity[1024];
	uint32_t n, reply;

	say_option(fd, type, data, len);
	do {
		reply = hear_option(fd, type, capacity, &n);
	} while (reply != NBD_REP_ACK && !(reply >> 31));
	return reply;
}

/* Data of INFO and GO. */
static inline uint32_t info_data(uint8_t *buf, const char *name,
				 const uint16_t *infos, unsigned int n)
{
	uint8_t *p = put32(buf, (uint32_t)strlen(name));

	memcpy(p, name, strlen(name));
	p = put16(p + strlen(name), n);
	for (unsigned int i = 0; i < n; i++)
		p = put16(p, infos[i]);
	return (uint32_t)(p - buf);
}

static inline uint32_t meta_data(uint8_t *buf, const char *name,
				 const char *const *queries, uint32_t n)
{
	uint8_t *p = put32(buf, (uint32_t)strlen(name));

	memcpy(p, name, strlen(name));
	p = put32(p + strlen(name), n);
	for (uint32_t i = 0; i < n; i++) {
		p = put32(p, (uint32_t)strlen(queries[i]));
		memcpy(p, queries[i], strlen(queries[i]));
		p += strlen(queries[i]);
	}
	return (uint32_t)(p - buf);
}

/* Ready for requests to @name; structured, with base:allocation, or simple. */
static inline int nbd_open(const char *name, bool structured)
{
	static const char *const query = "base:allocation";
	int fd = nbd_connect(3);
	uint8_t buf[512];

	if (structured) {
		assert_int_equal(do_option(fd, NBD_OPT_STRUCTURED_REPLY, "", 0),
				 NBD_REP_ACK);
		assert_int_equal(do_option(fd, NBD_OPT_SET_META_CONTEXT, buf,
					   meta_data(buf, name, &query, 1)),
				 NBD_REP_ACK);
	}
	assert_int_equal(do_option(fd, NBD_OPT_GO, buf,
				   info_data(buf, name, NULL, 0)),
			 NBD_REP_ACK);
	return fd;
}

/* Requests. */

static inline void make_request(uint8_t buf[28], unsigned int flags,
				unsigned int type, uint64_t cookie,
				uint64_t off, uint32_t len)
{
	uint8_t *p = put32(buf, NBD_REQUEST_MAGIC);

	p = put16(p, flags);
	p = put16(p, type);
	p = put64(p, cookie);
	p = put64(p, off);
	put32(p, len);
}

static inline void ask(int fd, unsigned int flags, unsigned int type,
		       uint64_t off, uint32_t len)
{
	uint8_t buf[28];

	make_request(buf, flags, type, off + type, off, len);
	tell(fd, buf, 28);
}

/* The error of the reply to @cookie, which has no data. */
static inline uint32_t hear_error(int fd, uint64_t cookie)
{
	uint8_t buf[20], rest[64];
	uint32_t len;

	hear(fd, buf, 16);
	assert_true(get64(buf + 8) == cookie);
	if (get32(buf) == NBD_SIMPLE_REPLY_MAGIC)
		return get32(buf + 4);
	assert_int_equal(get32(buf), NBD_STRUCTURED_REPLY_MAGIC);
	assert_int_equal(get16(buf + 4), NBD_REPLY_FLAG_DONE);
	hear(fd, buf + 16, 4);
	len = get32(buf + 16);
	assert_true(len <= sizeof(rest));
	hear(fd, rest, len);
	if (get16(buf + 6) == NBD_REPLY_TYPE_NONE)
		return 0;
	assert_int_equal(get16(buf + 6), NBD_REPLY_TYPE_ERROR);
	return get32(rest);
}

static inline uint32_t do_command(int fd, unsigned int flags, unsigned int type,
				  uint64_t off, uint32_t len)
{
	ask(fd, flags, type, off, len);
	return hear_error(fd, off + type);
}

static inline uint32_t do_write(int fd, unsigned int flags, uint64_t off,
				uint32_t len, const void *data)
{
	ask(fd, flags, NBD_CMD_WRITE, off, len);
	tell(fd, data, len);
	return hear_error(fd, off + NBD_CMD_WRITE);
}

static inline void hear_simple_data(int fd, uint64_t off, uint32_t len,
				    uint8_t *to)
{
	assert_int_equal(hear_error(fd, off), 0);
	hear(fd, to, len);
}

/* Chunks come in any order, and none twice. */
static inline void hear_chunks(int fd, uint64_t off, uint32_t len, uint8_t *to)
{
	uint32_t sum = 0;
	uint8_t buf[28];

	do {
		uint64_t at;
		uint32_t n;

		hear(fd, buf, 28);
		assert_int_equal(get32(buf), NBD_STRUCTURED_REPLY_MAGIC);
		assert_int_equal(get16(buf + 6), NBD_REPLY_TYPE_OFFSET_DATA);
		assert_true(get64(buf + 8) == off);
		n = get32(buf + 16) - 8;
		at = get64(buf + 20);
		assert_true(at >= off && at - off <= len && n > 0 &&
			    n <= len - (at - off));
		hear(fd, to + (at - off), n);
		sum += n;
	} while (!(get16(buf + 4) & NBD_REPLY_FLAG_DONE));
	assert_int_equal(sum, len);
}

static inline void do_read(int fd, bool structured, uint64_t off, uint32_t len,
			   uint8_t *to)
{
	ask(fd, 0, NBD_CMD_READ, off, len);
	if (structured)
		hear_chunks(fd, off, len, to);
	else
		hear_simple_data(fd, off, len, to);
}

/* Extents of a block status: lengths and states, by turns. */
static inline uint32_t hear_status(int fd, uint64_t cookie, uint32_t *extents,
				   uint32_t max)
{
	uint8_t buf[24];
	uint32_t n;

	hear(fd, buf, 24);
	assert_int_equal(get32(buf), NBD_STRUCTURED_REPLY_MAGIC);
	assert_int_equal(get16(buf + 6), NBD_REPLY_TYPE_BLOCK_STATUS);
	assert_true(get64(buf + 8) == cookie);
	assert_int_equal(get32(buf + 20), ALLOCATION_ID);
	n = (get32(buf + 16) - 4) / 8;
	assert_true(n > 0 && n <= max);
	hear(fd, extents, n * 8);
	for (uint32_t i = 0; i < 2 * n; i++)
		extents[i] = be32toh(extents[i]);
	return n;
}

static inline uint32_t do_status(int fd, unsigned int flags, uint64_t off,
				 uint32_t len, uint32_t *extents, uint32_t max)
{
	ask(fd, flags, NBD_CMD_BLOCK_STATUS, off, len);
	return hear_status(fd, off + NBD_CMD_BLOCK_STATUS, extents, max);
}

static inline void disconnect(int fd)
{
	ask(fd, 0, NBD_CMD_DISC, 0, 0);
	hear_end(fd);
}

/* Everybody else is served as if nothing had happened. */
static inline void check_served(const char *name)
{
	int fd = nbd_open(name, false);
	uint8_t buf[512];

	do_read(fd, false, 0, 512, buf);
	disconnect(fd);
}

#endif /* TESTS_NBD_FIXTURE_H */
