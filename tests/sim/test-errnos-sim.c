/* SPDX-License-Identifier: BSD-3-Clause */

/* The errnos that the headers of the simulator document. */

#include "tests/support/errnos-fixture.h"

#include <limits.h>
#include <sys/un.h>

#include <weir/domain.h>
#include <weir/file.h>
#include <weir/sim/aim.h>
#include <weir/sim/file.h>
#include <weir/sim/host.h>
#include <weir/sim/memory.h>
#include <weir/sim/socket.h>
#include <weir/sim/world.h>

/* The world of a row, with a directory and a file. */
static struct weir_sim *world_begin(void)
{
	struct weir_sim *sim = NULL;

	assert_int_equal(weir_sim_create(&sim, 1, NULL), 0);
	assert_int_equal(weir_sim_mkdir(sim, "dir"), 0);
	assert_int_equal(weir_sim_file_write(sim, "file", "x", 1, 0), 1);
	return sim;
}

static int64_t world_end(struct weir_sim *sim, int64_t err)
{
	plenty(0);
	assert_int_equal(weir_sim_destroy(sim), 0);
	return err;
}

/* What @call returns in a world. */
#define IN_WORLD(call)                                \
	do {                                          \
		struct weir_sim *sim = world_begin(); \
		return world_end(sim, call);          \
	} while (0)

#define IN_WORLD_WITHOUT(nothing, call)               \
	do {                                          \
		struct weir_sim *sim = world_begin(); \
		nothing();                            \
		return world_end(sim, call);          \
	} while (0)

/* Longer than a path of a world may be. */
static const char *long_path(void)
{
	static char path[8192];

	memset(path, 'x', sizeof(path) - 1);
	return path;
}

/* Worlds. */

RETURNS(weir_sim_create, EINVAL)
{
	struct weir_sim_opts opts = { .size = sizeof(opts), .flags = ~0u };
	struct weir_sim *sim = NULL;

	return weir_sim_create(&sim, 1, &opts);
}

RETURNS(weir_sim_create, E2BIG)
{
	struct weir_sim *sim = NULL;

	return weir_sim_create(&sim, 1, later_options());
}

RETURNS(weir_sim_create, EMFILE)
{
	struct weir_sim *sims[64];
	size_t n = 0;
	int err;

	for (;;) {
		err = weir_sim_create(&sims[n], 1, NULL);
		if (err || ++n == N_OF(sims))
			break;
	}
	while (n)
		assert_int_equal(weir_sim_destroy(sims[--n]), 0);
	return err;
}

RETURNS(weir_sim_create, ENOMEM)
{
	struct weir_sim *sim = NULL;

	no_memory();
	return plenty(weir_sim_create(&sim, 1, NULL));
}

RETURNS(weir_sim_aim, E2BIG)
{
	IN_WORLD(weir_sim_aim(sim, later_options()));
}

RETURNS(weir_sim_aim, ENOMEM)
{
	const struct weir_sim_aim aim = { .size = sizeof(aim) };

	IN_WORLD_WITHOUT(no_memory, weir_sim_aim(sim, &aim));
}

static void start_nothing(struct weir_sim_host *host, void *arg)
{
	(void)host, (void)arg;
}

static struct weir_sim_host *host_in(struct weir_sim *sim, const char *name)
{
	const struct weir_sim_host_opts opts = { .size = sizeof(opts),
						 .name = name,
						 .start = start_nothing };
	struct weir_sim_host *host = NULL;

	assert_int_equal(weir_sim_host_create(&host, sim, &opts), 0);
	return host;
}

RETURNS(weir_sim_host_create, E2BIG)
{
	struct weir_sim_host *host;

	IN_WORLD(weir_sim_host_create(&host, sim, later_options()));
}

RETURNS(weir_sim_host_create, ENOMEM)
{
	const struct weir_sim_host_opts opts = { .size = sizeof(opts),
						 .name = "a",
						 .start = start_nothing };
	struct weir_sim_host *host;

	IN_WORLD_WITHOUT(no_memory, weir_sim_host_create(&host, sim, &opts));
}

RETURNS(weir_sim_host_link, E2BIG)
{
	IN_WORLD(weir_sim_host_link(host_in(sim, "a"), host_in(sim, "b"),
				    later_options()));
}

RETURNS(weir_sim_host_link, ENOMEM)
{
	const struct weir_sim_link link = { .size = sizeof(link) };
	struct weir_sim *sim = world_begin();
	struct weir_sim_host *a = host_in(sim, "a"), *b = host_in(sim, "b");

	no_memory();
	return world_end(sim, weir_sim_host_link(a, b, &link));
}

RETURNS(weir_sim_set_latency, EINVAL)
{
	IN_WORLD(weir_sim_set_latency(sim, (enum weir_sim_device)99, 1, 1));
}

RETURNS(weir_sim_stats, EINVAL)
{
	IN_WORLD(weir_sim_stats(sim, no_capacity()));
}

/* Files. */

RETURNS(weir_sim_mkdir, ENAMETOOLONG)
{
	IN_WORLD(weir_sim_mkdir(sim, long_path()));
}

RETURNS(weir_sim_mkdir, ENOENT)
{
	IN_WORLD(weir_sim_mkdir(sim, ""));
}

RETURNS(weir_sim_mkdir, ENOMEM)
{
	IN_WORLD_WITHOUT(no_memory, weir_sim_mkdir(sim, "new"));
}

RETURNS(weir_sim_disk, ENAMETOOLONG)
{
	IN_WORLD(weir_sim_disk(sim, long_path(), 4096, 512));
}

RETURNS(weir_sim_disk, ENOENT)
{
	IN_WORLD(weir_sim_disk(sim, "", 4096, 512));
}

RETURNS(weir_sim_disk, ENOTDIR)
{
	IN_WORLD(weir_sim_disk(sim, "file/disk", 4096, 512));
}

RETURNS(weir_sim_disk, ENOMEM)
{
	IN_WORLD_WITHOUT(no_memory, weir_sim_disk(sim, "disk", 4096, 512));
}

RETURNS(weir_sim_bad_sectors, EISDIR)
{
	IN_WORLD(weir_sim_bad_sectors(sim, "dir", 0, 512, 1));
}

RETURNS(weir_sim_bad_sectors, ENOMEM)
{
	IN_WORLD_WITHOUT(no_memory,
			 weir_sim_bad_sectors(sim, "file", 0, 512, 1));
}

RETURNS(weir_sim_file_corrupt, EISDIR)
{
	IN_WORLD(weir_sim_file_corrupt(sim, "dir", 0, 1));
}

RETURNS(weir_sim_file_corrupt, ENOENT)
{
	IN_WORLD(weir_sim_file_corrupt(sim, "none", 0, 1));
}

RETURNS(weir_sim_file_durable, EISDIR)
{
	char c;

	IN_WORLD(weir_sim_file_durable(sim, "dir", &c, 1, 0));
}

RETURNS(weir_sim_file_read, EISDIR)
{
	char c;

	IN_WORLD(weir_sim_file_read(sim, "dir", &c, 1, 0));
}

RETURNS(weir_sim_file_read, ENOENT)
{
	char c;

	IN_WORLD(weir_sim_file_read(sim, "none", &c, 1, 0));
}

RETURNS(weir_sim_file_write, EFBIG)
{
	IN_WORLD(weir_sim_file_write(sim, "file", "x", 1, INT64_MAX));
}

RETURNS(weir_sim_file_write, EISDIR)
{
	IN_WORLD(weir_sim_file_write(sim, "dir", "x", 1, 0));
}

RETURNS(weir_sim_file_write, ENAMETOOLONG)
{
	IN_WORLD(weir_sim_file_write(sim, long_path(), "x", 1, 0));
}

RETURNS(weir_sim_file_write, ENOENT)
{
	IN_WORLD(weir_sim_file_write(sim, "", "x", 1, 0));
}

RETURNS(weir_sim_file_write, ENOTDIR)
{
	IN_WORLD(weir_sim_file_write(sim, "file/new", "x", 1, 0));
}

RETURNS(weir_sim_file_write, ENOMEM)
{
	IN_WORLD_WITHOUT(no_memory,
			 weir_sim_file_write(sim, "new", "x", 1, 0));
}

RETURNS(weir_sim_file_write, ENOSPC)
{
	struct weir_sim *sim = world_begin();

	assert_int_equal(weir_sim_disk(sim, "disk", 4096, 512), 0);
	return world_end(sim, weir_sim_file_write(sim, "disk", "x", 1, 4096));
}

RETURNS(weir_sim_ftruncate, EBADF)
{
	IN_WORLD(weir_sim_ftruncate(INT_MAX, 1));
}

RETURNS(weir_sim_file_corrupt, ENOMEM)
{
	struct weir_sim *sim = world_begin();

	/* In a hole, which has no memory yet. */
	assert_int_equal(weir_sim_file_write(sim, "file", "x", 1, 1 << 20), 1);
	no_memory();
	return world_end(sim, weir_sim_file_corrupt(sim, "file", 1 << 19, 1));
}

RETURNS(weir_sim_lseek, EBADF)
{
	IN_WORLD(weir_sim_lseek(INT_MAX, 1, SEEK_SET));
}

RETURNS(weir_sim_pwrite, ESPIPE)
{
	struct weir_sim *sim = world_begin();
	int fds[2];

	assert_int_equal(weir_sim_pipe(sim, fds), 0);
	return world_end(sim, weir_sim_pwrite(fds[1], "x", 1, 0));
}

RETURNS(weir_sim_space, ENOMEM)
{
	IN_WORLD_WITHOUT(no_memory, weir_sim_space(sim, "dir", 4096));
}

/* Sockets. */

RETURNS(weir_sim_socket, ENOMEM)
{
	int fd;

	IN_WORLD_WITHOUT(no_memory, weir_sim_socket(sim, &fd, "me"));
}

RETURNS(weir_sim_listen, ENOMEM)
{
	int fd;

	IN_WORLD_WITHOUT(no_memory, weir_sim_listen(sim, &fd, "me", 1));
}

RETURNS(weir_sim_pipe, ENOMEM)
{
	int fds[2];

	IN_WORLD_WITHOUT(no_memory, weir_sim_pipe(sim, fds));
}

RETURNS(weir_sim_socket_pair, ENOMEM)
{
	int fds[2];

	IN_WORLD_WITHOUT(no_memory, weir_sim_socket_pair(sim, fds));
}

RETURNS(weir_sim_partition, ENOMEM)
{
	IN_WORLD_WITHOUT(no_memory, weir_sim_partition(sim, "a", "b", 1));
}

static struct sockaddr_un named(const char *name)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	snprintf(un.sun_path, sizeof(un.sun_path), "%s", name);
	return un;
}

/* What a connect of @fd to @name, or of a socket, returns. */
static int64_t connect_to(struct weir_sim *sim, int fd, const char *name,
			  sa_family_t family)
{
	struct sockaddr_un un = named(name);

	un.sun_family = family;
	if (fd < 0)
		assert_int_equal(weir_sim_socket(sim, &fd, "me"), 0);
	return world_end(sim, weir_sim_connect(fd, (struct sockaddr *)&un,
					       sizeof(un)));
}

RETURNS(weir_sim_connect, EAFNOSUPPORT)
{
	return connect_to(world_begin(), -1, "peer", AF_NETLINK);
}

RETURNS(weir_sim_connect, EBADF)
{
	return connect_to(world_begin(), INT_MAX, "peer", AF_UNIX);
}

RETURNS(weir_sim_connect, ENOTSOCK)
{
	struct weir_sim *sim = world_begin();

	return connect_to(sim, weir_sim_file_open(sim, "file", O_RDONLY, 0),
			  "peer", AF_UNIX);
}

RETURNS(weir_sim_connect, ECONNREFUSED)
{
	struct weir_sim *sim = world_begin();

	/* Else it is on its way, and the refusal is its completion. */
	assert_int_equal(weir_sim_set_latency(sim, WEIR_SIM_WIRE, 0, 0), 0);
	return connect_to(sim, -1, "peer", AF_UNIX);
}

RETURNS(weir_sim_reset, EBADF)
{
	IN_WORLD(weir_sim_reset(INT_MAX));
}

RETURNS(weir_sim_socket_stats, EINVAL)
{
	IN_WORLD(weir_sim_socket_stats(sim, no_capacity()));
}

/* The table of descriptors is doubled when it is full: with twice as many as
 * there were, that was needed. */
RETURNS(weir_sim_accept, ENOMEM)
{
	struct weir_sim *sim = world_begin();
	struct sockaddr_un un = named("peer");
	int listens, fd = -1, err;

	assert_int_equal(weir_sim_set_latency(sim, WEIR_SIM_WIRE, 0, 0), 0);
	assert_int_equal(weir_sim_listen(sim, &listens, "peer", 128), 0);
	for (int i = 0; i < 128; i++) {
		assert_int_equal(weir_sim_socket(sim, &fd, "me"), 0);
		assert_int_equal(weir_sim_connect(fd, (struct sockaddr *)&un,
						  sizeof(un)), 0);
	}
	no_memory();
	do
		err = weir_sim_accept(listens);
	while (err >= 0);
	return world_end(sim, err);
}

/* Calls of programs at once. */

static int a_file(struct weir_sim *sim, int flags)
{
	int fd = weir_sim_file_open(sim, "file", flags, 0);

	assert_true(fd >= 0);
	return fd;
}

static int cut_file(struct weir_sim *sim)
{
	int fd = a_file(sim, O_RDWR);

	weir_sim_power_cut(sim, "");
	return fd;
}

static int a_socket(struct weir_sim *sim)
{
	int fd = -1;

	assert_int_equal(weir_sim_socket(sim, &fd, "a"), 0);
	return fd;
}

static int cut_socket(struct weir_sim *sim)
{
	int fd = a_socket(sim);

	weir_sim_power_cut(sim, "");
	return fd;
}

static int bind_to(int fd, const char *name)
{
	struct sockaddr_un un = named(name);

	return weir_sim_bind(fd, (struct sockaddr *)&un, sizeof(un));
}

static int bound(struct weir_sim *sim)
{
	int fd = a_socket(sim);

	assert_int_equal(bind_to(fd, "at"), 0);
	return fd;
}

static int name_of(int fd)
{
	struct sockaddr_un un;
	socklen_t len = sizeof(un);

	return weir_sim_getsockname(fd, (struct sockaddr *)&un, &len);
}

static int peer_of(int fd)
{
	struct sockaddr_un un;
	socklen_t len = sizeof(un);

	return weir_sim_getpeername(fd, (struct sockaddr *)&un, &len);
}

static struct stat the_stat;

RETURNS(weir_sim_bind, EBADF)
{
	IN_WORLD(((void)sim, bind_to(INT_MAX, "at")));
}

RETURNS(weir_sim_bind, ENOTSOCK)
{
	IN_WORLD(bind_to(a_file(sim, O_RDWR), "at"));
}

RETURNS(weir_sim_bind, EIO)
{
	IN_WORLD(bind_to(cut_socket(sim), "at"));
}

RETURNS(weir_sim_bound_listen, EBADF)
{
	IN_WORLD(((void)sim, weir_sim_bound_listen(INT_MAX, 1)));
}

RETURNS(weir_sim_bound_listen, ENOTSOCK)
{
	IN_WORLD(weir_sim_bound_listen(a_file(sim, O_RDWR), 1));
}

RETURNS(weir_sim_bound_listen, EIO)
{
	IN_WORLD(weir_sim_bound_listen(cut_socket(sim), 1));
}

RETURNS(weir_sim_bound_listen, EADDRINUSE)
{
	struct weir_sim *sim = world_begin();
	int fd = bound(sim), other;

	assert_int_equal(weir_sim_listen(sim, &other, "at", 1), 0);
	return world_end(sim, weir_sim_bound_listen(fd, 1));
}

RETURNS(weir_sim_bound_listen, ENOMEM)
{
	struct weir_sim *sim = world_begin();
	int fd = bound(sim);

	no_memory();
	return world_end(sim, weir_sim_bound_listen(fd, 1));
}

RETURNS(weir_sim_getsockname, EBADF)
{
	IN_WORLD(((void)sim, name_of(INT_MAX)));
}

RETURNS(weir_sim_getsockname, ENOTSOCK)
{
	IN_WORLD(name_of(a_file(sim, O_RDWR)));
}

RETURNS(weir_sim_getsockname, EIO)
{
	IN_WORLD(name_of(cut_socket(sim)));
}

RETURNS(weir_sim_getpeername, EBADF)
{
	IN_WORLD(((void)sim, peer_of(INT_MAX)));
}

RETURNS(weir_sim_getpeername, ENOTSOCK)
{
	IN_WORLD(peer_of(a_file(sim, O_RDWR)));
}

RETURNS(weir_sim_getpeername, EIO)
{
	IN_WORLD(peer_of(cut_socket(sim)));
}

RETURNS(weir_sim_close_resets, EBADF)
{
	IN_WORLD(((void)sim, weir_sim_close_resets(INT_MAX, 1)));
}

RETURNS(weir_sim_close_resets, ENOTSOCK)
{
	IN_WORLD(weir_sim_close_resets(a_file(sim, O_RDWR), 1));
}

RETURNS(weir_sim_close_resets, EIO)
{
	IN_WORLD(weir_sim_close_resets(cut_socket(sim), 1));
}

RETURNS(weir_sim_getpeername, ENOTCONN)
{
	IN_WORLD(peer_of(a_socket(sim)));
}

RETURNS(weir_sim_take_error, EBADF)
{
	IN_WORLD(((void)sim, weir_sim_take_error(INT_MAX)));
}

RETURNS(weir_sim_take_error, ENOTSOCK)
{
	IN_WORLD(weir_sim_take_error(a_file(sim, O_RDWR)));
}

RETURNS(weir_sim_poll, EBADF)
{
	IN_WORLD(((void)sim, weir_sim_poll(INT_MAX, 0)));
}

RETURNS(weir_sim_pipe_size, EBADF)
{
	IN_WORLD(weir_sim_pipe_size(a_socket(sim), 0));
}

RETURNS(weir_sim_pipe_size, EPERM)
{
	struct weir_sim *sim = world_begin();
	int fds[2];

	assert_int_equal(weir_sim_pipe(sim, fds), 0);
	assert_int_equal(weir_sim_pipe_size(fds[0], 1 << 20), 1 << 20);
	return world_end(sim, weir_sim_pipe_size(fds[0], (1 << 20) + 1));
}

RETURNS(weir_sim_pipe_size, EBUSY)
{
	struct weir_sim *sim = world_begin();
	static char bytes[40000];
	int fds[2];

	assert_int_equal(weir_sim_pipe(sim, fds), 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(weir_sim_write(fds[1], bytes, 4000), 4000);
	return world_end(sim, weir_sim_pipe_size(fds[0], 4096));
}

RETURNS(weir_sim_host_socket, ENOMEM)
{
	struct weir_sim *sim = world_begin();
	struct weir_sim_host *host = host_in(sim, "a");
	int fd;

	no_memory();
	return world_end(sim, weir_sim_host_socket(host, &fd, AF_INET));
}

RETURNS(weir_sim_fallocate, EBADF)
{
	IN_WORLD(weir_sim_fallocate(a_file(sim, O_RDONLY), 0, 0, 1));
}

RETURNS(weir_sim_fallocate, EOPNOTSUPP)
{
	IN_WORLD(weir_sim_fallocate(a_file(sim, O_RDWR), 1 << 20, 0, 1));
}

RETURNS(weir_sim_fallocate, EIO)
{
	IN_WORLD(weir_sim_fallocate(cut_file(sim), 0, 0, 1));
}

RETURNS(weir_sim_fallocate, ENOSPC)
{
	struct weir_sim *sim = world_begin();

	assert_int_equal(weir_sim_space(sim, "", 1), 0);
	return world_end(sim, weir_sim_fallocate(a_file(sim, O_RDWR), 0, 0,
						 1 << 20));
}

RETURNS(weir_sim_fstat, EIO)
{
	IN_WORLD(weir_sim_fstat(cut_file(sim), &the_stat));
}

RETURNS(weir_sim_fsync, EIO)
{
	IN_WORLD(weir_sim_fsync(cut_file(sim)));
}

RETURNS(weir_sim_link, ENAMETOOLONG)
{
	IN_WORLD(weir_sim_link(a_file(sim, O_RDWR), long_path()));
}

RETURNS(weir_sim_link, ENOENT)
{
	IN_WORLD(weir_sim_link(a_file(sim, O_RDWR), ""));
}

RETURNS(weir_sim_link, ENOTDIR)
{
	IN_WORLD(weir_sim_link(a_file(sim, O_RDWR), "file/x"));
}

RETURNS(weir_sim_link, ENOMEM)
{
	struct weir_sim *sim = world_begin();
	int fd = a_file(sim, O_RDWR);

	no_memory();
	return world_end(sim, weir_sim_link(fd, "new"));
}

RETURNS(weir_sim_stat, ENAMETOOLONG)
{
	IN_WORLD(weir_sim_stat(sim, long_path(), &the_stat));
}

RETURNS(weir_sim_stat, ENOMEM)
{
	struct weir_sim *sim = NULL;
	int64_t err;

	assert_int_equal(weir_sim_create(&sim, 1, NULL), 0);
	no_memory();
	err = weir_sim_stat(sim, "file", &the_stat);
	return world_end(sim, err);
}

/* Datagrams. */

static int a_datagram(struct weir_sim *sim)
{
	int fd = -1;

	assert_int_equal(weir_sim_datagram(sim, NULL, &fd, AF_UNIX), 0);
	assert_int_equal(bind_to(fd, "me"), 0);
	return fd;
}

static ssize_t send_one(int fd, const char *name)
{
	struct sockaddr_un un = named(name);

	return weir_sim_sendto(fd, "x", 1, (struct sockaddr *)&un, sizeof(un));
}

static int cut_datagram(struct weir_sim *sim)
{
	int fd = a_datagram(sim);

	weir_sim_power_cut(sim, "");
	return fd;
}

RETURNS(weir_sim_datagram, ENOMEM)
{
	int fd;

	IN_WORLD_WITHOUT(no_memory, weir_sim_datagram(sim, NULL, &fd, AF_INET));
}

RETURNS(weir_sim_sendto, EBADF)
{
	IN_WORLD(((void)sim, send_one(INT_MAX, "to")));
}

RETURNS(weir_sim_sendto, ENOTSOCK)
{
	IN_WORLD(send_one(a_file(sim, O_RDWR), "to"));
}

RETURNS(weir_sim_sendto, EIO)
{
	IN_WORLD(send_one(cut_datagram(sim), "to"));
}

RETURNS(weir_sim_sendto, EINVAL)
{
	const struct sockaddr short_one = { .sa_family = AF_INET };

	IN_WORLD(weir_sim_sendto(a_datagram(sim), "x", 1, &short_one, 2));
}

RETURNS(weir_sim_sendto, EAFNOSUPPORT)
{
	const struct sockaddr other = { .sa_family = AF_PACKET };

	IN_WORLD(weir_sim_sendto(a_datagram(sim), "x", 1, &other,
				 sizeof(other)));
}

RETURNS(weir_sim_sendto, ENOMEM)
{
	struct weir_sim *sim = world_begin();
	int fd = a_datagram(sim);

	no_memory();
	return world_end(sim, send_one(fd, "to"));
}

RETURNS(weir_sim_sendto, ECONNREFUSED)
{
	struct weir_sim *sim = world_begin();
	struct sockaddr_un un = named("none");
	int fd = a_datagram(sim);

	assert_int_equal(weir_sim_connect(fd, (struct sockaddr *)&un,
					  sizeof(un)), 0);
	assert_int_equal(weir_sim_sendto(fd, "x", 1, NULL, 0), 1);
	weir_sim_run(sim, WEIR_SEC, 0);
	return world_end(sim, weir_sim_sendto(fd, "x", 1, NULL, 0));
}

RETURNS(weir_sim_recvfrom, ENOTSOCK)
{
	char byte;

	IN_WORLD(weir_sim_recvfrom(a_file(sim, O_RDWR), &byte, 1, NULL, NULL));
}

RETURNS(weir_sim_recvfrom, EIO)
{
	char byte;

	IN_WORLD(weir_sim_recvfrom(cut_datagram(sim), &byte, 1, NULL, NULL));
}

/* Memory. */

RETURNS(weir_sim_card_create, E2BIG)
{
	struct weir_sim_card *card;

	IN_WORLD(weir_sim_card_create(&card, sim, later_options()));
}

RETURNS(weir_sim_card_create, ENOMEM)
{
	struct weir_sim_card_opts opts = { .size = sizeof(opts),
					   .bytes = 4096 };
	struct weir_sim_card *card;

	IN_WORLD_WITHOUT(no_memory, weir_sim_card_create(&card, sim, &opts));
}

static struct weir_sim_card *card_of(struct weir_sim *sim)
{
	struct weir_sim_card_opts opts = { .size = sizeof(opts),
					   .bytes = 4096 };
	struct weir_sim_card *card = NULL;

	assert_int_equal(weir_sim_card_create(&card, sim, &opts), 0);
	return card;
}

RETURNS(weir_sim_card_get, ERANGE)
{
	char c;

	IN_WORLD(weir_sim_card_get(card_of(sim), 4096, &c, 1));
}

RETURNS(weir_sim_card_stats, EINVAL)
{
	IN_WORLD(weir_sim_card_stats(card_of(sim), no_capacity()));
}

RETURNS(weir_sim_peer_create, E2BIG)
{
	struct weir_sim_peer *peer;

	IN_WORLD(weir_sim_peer_create(&peer, sim, later_options()));
}

RETURNS(weir_sim_peer_create, ENOMEM)
{
	struct weir_sim_peer_opts opts = { .size = sizeof(opts),
					   .bytes = 4096 };
	struct weir_sim_peer *peer;

	IN_WORLD_WITHOUT(no_memory, weir_sim_peer_create(&peer, sim, &opts));
}

int main(void)
{
	return run_errno_rows();
}
