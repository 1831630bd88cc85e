/* SPDX-License-Identifier: BSD-3-Clause */
/* Files and connections, of the system or of the test's world. */

#include "tests/support/harness.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <weir/sim/file.h>
#include <weir/sim/socket.h>

#include "tests/support/sim-calls.h"

void socket_pair(int fd[2])
{
	if (harness_sim) {
		assert_int_equal(weir_sim_socket_pair(harness_sim, fd), 0);
		return;
	}
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
				    fd), 0);
}

void tcp_pair(int fd[2])
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	int l;

	if (harness_sim) {
		socket_pair(fd);
		return;
	}
	l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_true(l >= 0);
	assert_int_equal(bind(l, (struct sockaddr *)&a, len), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&a, &len), 0);
	fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd[0], (struct sockaddr *)&a, len), 0);
	fd[1] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fd[1] >= 0);
	close(l);
}

void pipe_pair(int fd[2])
{
	if (harness_sim)
		assert_int_equal(weir_sim_pipe(harness_sim, fd), 0);
	else
		assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
}

void close_pair(int fd[2])
{
	close(fd[0]);
	close(fd[1]);
}

void set_nonblock(int fd)
{
	assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK),
			 0);
}

size_t stuff(int fd)
{
	static const char zeros[4096];
	int flags = fcntl(fd, F_GETFL);
	size_t sum = 0;
	ssize_t n;

	set_nonblock(fd);
	while ((n = write(fd, zeros, sizeof(zeros))) > 0)
		sum += (size_t)n;
	while ((n = write(fd, zeros, 1)) > 0)
		sum += (size_t)n;
	fcntl(fd, F_SETFL, flags);
	return sum;
}

int test_file(void **state, const char *name, size_t len, unsigned int seed)
{
	int fd = open(test_path(state, name), O_RDWR | O_CREAT | O_CLOEXEC,
		      0600);
	char *buf = malloc(len + 1);

	assert_true(fd >= 0);
	assert_non_null(buf);
	fill_pattern(buf, len, 0, seed);
	assert_true(pwrite(fd, buf, len, 0) == (ssize_t)len);
	free(buf);
	return fd;
}

void test_mkdir(void **state, const char *name)
{
	const char *path = test_path(state, name);

	assert_int_equal(harness_sim ? weir_sim_mkdir(harness_sim, path) :
				       mkdir(path, 0700), 0);
}
