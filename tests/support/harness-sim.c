/* SPDX-License-Identifier: BSD-3-Clause */
/* The third backend: a world for each test, and what goes for the system's
 * calls there. */

#include "tests/support/harness.h"

#include <arpa/inet.h>
#include <sys/eventfd.h>

#include <weir/sim/file.h>
#include <weir/sim/socket.h>
#include <weir/sim/world.h>

#include "tests/support/sim-calls.h"
#undef open
#undef pread
#undef pwrite
#undef lseek
#undef ftruncate
#undef read
#undef write
#undef close
#undef shutdown
#undef recv
#undef fcntl
#undef socket
#undef connect
#undef getsockopt
#undef setsockopt
#undef eventfd_write

struct weir_sim *harness_sim;
static int first_fd;	/* The lowest number that is free in it. */
static unsigned int port;

/* No descriptor is as low as the world's. */
static bool is_sim(int fd)
{
	return harness_sim && fd >= first_fd;
}

/*
 * Devices take no time, so that what a test has done can be seen at once, as it
 * can on one machine; turns do, or time would stand.
 */
void sim_begin(void)
{
	const char *seed = getenv("WEIR_TEST_SEED");
	const char *faults = getenv("WEIR_TEST_FAULTS");
	struct weir_sim_opts opts = {
		.size = sizeof(opts), .rate = 8, .flags = WEIR_SIM_SWARM,
		.faults = faults ? strtoull(faults, NULL, 0) : 0,
	};
	int fd[2];

	assert_int_equal(weir_sim_create(&harness_sim, seed ?
					 strtoull(seed, NULL, 0) : 1, &opts),
			 0);
	for (int i = 0; i < WEIR_SIM_DEVICES; i++)
		if (i != WEIR_SIM_TURN)
			weir_sim_set_latency(harness_sim,
					     (enum weir_sim_device)i, 0, 0);
	assert_int_equal(weir_sim_pipe(harness_sim, fd), 0);
	first_fd = fd[0];
	weir_sim_close(fd[0]);
	weir_sim_close(fd[1]);
	port = 7000;
}

int sim_end(void)
{
	int err = 0;

	for (int fd = first_fd; fd < first_fd + 4096; fd++)
		if (!weir_sim_close(fd)) {
			fprintf(stderr, "simulated descriptor %d is open\n",
				fd - first_fd);
			err = -1;
		}
	if (weir_sim_destroy(harness_sim)) {
		fprintf(stderr, "weir_sim_destroy: %s\n", weir_why());
		err = -1;
	}
	harness_sim = NULL;
	return err;
}

static ssize_t answer(ssize_t res)
{
	if (res >= 0)
		return res;
	errno = (int)-res;
	return -1;
}

int any_open(const char *path, int flags, int mode)
{
	if (!harness_sim)
		return open(path, flags, mode);
	return (int)answer(weir_sim_file_open(harness_sim, path, flags,
					      (mode_t)mode));
}

ssize_t any_pread(int fd, void *buf, size_t len, off_t off)
{
	return is_sim(fd) ? answer(weir_sim_pread(fd, buf, len,
						  (uint64_t)off)) :
			    pread(fd, buf, len, off);
}

ssize_t any_pwrite(int fd, const void *buf, size_t len, off_t off)
{
	return is_sim(fd) ? answer(weir_sim_pwrite(fd, buf, len,
						   (uint64_t)off)) :
			    pwrite(fd, buf, len, off);
}

off_t any_lseek(int fd, off_t off, int whence)
{
	return is_sim(fd) ? (off_t)answer(weir_sim_lseek(fd, off, whence)) :
			    lseek(fd, off, whence);
}

int any_ftruncate(int fd, off_t len)
{
	return is_sim(fd) ? (int)answer(weir_sim_ftruncate(fd, (uint64_t)len)) :
			    ftruncate(fd, len);
}

ssize_t any_read(int fd, void *buf, size_t len)
{
	return is_sim(fd) ? answer(weir_sim_read(fd, buf, len)) :
			    read(fd, buf, len);
}

ssize_t any_write(int fd, const void *buf, size_t len)
{
	return is_sim(fd) ? answer(weir_sim_write(fd, buf, len)) :
			    write(fd, buf, len);
}

int any_close(int fd)
{
	return is_sim(fd) ? (int)answer(weir_sim_close(fd)) : close(fd);
}

int any_shutdown(int fd, int how)
{
	return is_sim(fd) ? (int)answer(weir_sim_shutdown(fd, how)) :
			    shutdown(fd, how);
}

ssize_t any_recv(int fd, void *buf, size_t len, int flags)
{
	return is_sim(fd) ? answer(weir_sim_read(fd, buf, len)) :
			    recv(fd, buf, len, flags);
}

/* Nothing waits there, and nothing is inherited. */
int any_fcntl(int fd, int cmd, int arg)
{
	if (!is_sim(fd))
		return fcntl(fd, cmd, arg);
	if (weir_sim_connect(fd, NULL, 0) == -EBADF)
		return (int)answer(-EBADF);
	return cmd == F_GETFD ? FD_CLOEXEC : 0;
}

int any_socket(int domain, int type, int protocol)
{
	int fd, err;

	if (!harness_sim)
		return socket(domain, type, protocol);
	err = weir_sim_socket(harness_sim, &fd, "");
	return err ? (int)answer(err) : fd;
}

int any_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	return is_sim(fd) ? (int)answer(weir_sim_connect(fd, addr, len)) :
			    connect(fd, addr, len);
}

/* All options are on. */
int any_getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	if (!is_sim(fd))
		return getsockopt(fd, level, name, val, len);
	*(int *)val = 1;
	return 0;
}

/* To close hard is to reset. */
int any_setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	if (!is_sim(fd))
		return setsockopt(fd, level, name, val, len);
	if (level == SOL_SOCKET && name == SO_LINGER)
		return (int)answer(weir_sim_reset(fd));
	return 0;
}

int any_eventfd_write(int fd, uint64_t n)
{
	if (!is_sim(fd))
		return eventfd_write(fd, n);
	return weir_sim_write(fd, &n, sizeof(n)) == sizeof(n) ? 0 : -1;
}

/* A listener on the loopback interface, at a port of its own. */
int sim_listener(struct sockaddr_in *addr, int backlog)
{
	char name[WEIR_SIM_NAME_MAX];
	int fd;

	*addr = (struct sockaddr_in){ .sin_family = AF_INET };
	addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	addr->sin_port = htons((uint16_t)++port);
	snprintf(name, sizeof(name), "127.0.0.1:%u", port);
	assert_int_equal(weir_sim_listen(harness_sim, &fd, name, backlog), 0);
	return fd;
}
