/* SPDX-License-Identifier: BSD-3-Clause */
/* Aimed faults: which call they hit, and what they do to it. */

#include "tests/support/sim-file-fixture.h"

#include <sys/un.h>

#include <weir/sim/aim.h>
#include <weir/sim/host.h>
#include <weir/sim/socket.h>
#include <weir/socket.h>

#define SECTOR 512

static int aim(struct weir_sim *sim, enum weir_sim_at at,
	       enum weir_sim_aim_what what, const char *name, uint64_t nth)
{
	const struct weir_sim_aim a = { .size = sizeof(a), .at = at,
					.what = what, .name = name,
					.nth = nth };

	return weir_sim_aim(sim, &a);
}

static int open_file(struct sim_world *w)
{
	int fd = sim_open(w, "a/log", O_RDWR | O_CREAT);

	assert_true(fd >= 0);
	sim_sync_dir(w, "a");
	return fd;
}

static void put(struct sim_world *w, int fd, char byte, uint64_t off)
{
	char buf[SECTOR];

	memset(buf, byte, sizeof(buf));
	assert_int_equal(SIM_CALL(w, write, fd, buf, SECTOR, off), SECTOR);
}

static char byte_at(struct sim_world *w, uint64_t off)
{
	char byte = 0;

	weir_sim_file_read(w->sim, "a/log", &byte, 1, off);
	return byte;
}

static void third_sync_of_a_file_fails(void **state)
{
	struct weir_sim_aim a = { .size = sizeof(a), .at = WEIR_SIM_AT_SYNC,
				  .name = "a/log", .nth = 3,
				  .error = -ENOSPC };
	struct sim_world w;
	int fd, other;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	fd = open_file(&w);
	other = sim_open(&w, "a/other", O_RDWR | O_CREAT);
	assert_int_equal(weir_sim_aim(w.sim, &a), 0);
	for (int i = 1; i < 6; i++) {
		put(&w, fd, 'x', 0);
		assert_int_equal(sim_sync(&w, other), 0);
		assert_int_equal(sim_sync(&w, fd), i == 3 ? -ENOSPC : 0);
	}
	sim_world_end(&w);
}

static void failed_sync_loses_data_that_the_next_does_not_save(void **state)
{
	int lost = 0;
	struct sim_world w;
	char byte;
	int fd;

	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		sim_world_begin(&w, seed, 0, 0);
		fd = open_file(&w);
		aim(w.sim, WEIR_SIM_AT_SYNC, WEIR_SIM_AIM_ERROR, "a/log", 1);
		put(&w, fd, 'x', 0);
		assert_int_equal(sim_sync(&w, fd), -EIO);
		assert_int_equal(sim_sync(&w, fd), 0);
		byte = 0;
		weir_sim_file_durable(w.sim, "a/log", &byte, 1, 0);
		lost += byte != 'x';
		sim_world_end(&w);
	}
	assert_in_range(lost, 1, 19);
}

static void sync_that_does_nothing_is_no_sync(void **state)
{
	struct sim_world w;
	char byte = 0;
	int fd;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	fd = open_file(&w);
	put(&w, fd, 'x', 0);
	assert_int_equal(sim_sync(&w, fd), 0);
	aim(w.sim, WEIR_SIM_AT_SYNC, WEIR_SIM_AIM_LOST, NULL, 1);
	put(&w, fd, 'y', 0);
	assert_int_equal(sim_sync(&w, fd), 0);
	assert_int_equal(weir_sim_file_durable(w.sim, "a/log", &byte, 1, 0), 1);
	assert_int_equal(byte, 'x');
	assert_int_equal(sim_sync(&w, fd), 0);
	weir_sim_file_durable(w.sim, "a/log", &byte, 1, 0);
	assert_int_equal(byte, 'y');
	sim_world_end(&w);
}

static void lost_write_is_gone_after_a_power_cut(void **state)
{
	struct sim_world w;
	int fd;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	fd = open_file(&w);
	put(&w, fd, '0', 0);
	put(&w, fd, '0', SECTOR);
	assert_int_equal(sim_sync(&w, fd), 0);
	aim(w.sim, WEIR_SIM_AT_WRITE, WEIR_SIM_AIM_LOST, "a/", 2);
	put(&w, fd, 'a', 0);
	put(&w, fd, 'b', SECTOR);
	assert_int_equal(sim_sync(&w, fd), 0);
	assert_int_equal(byte_at(&w, SECTOR), 'b');
	weir_sim_power_cut(w.sim, "");
	assert_int_equal(byte_at(&w, 0), 'a');
	assert_int_equal(byte_at(&w, SECTOR), '0');
	sim_world_end(&w);
}

static void misdirected_write_is_elsewhere_in_the_file(void **state)
{
	int found, hits = 0;
	struct sim_world w;
	int fd;

	(void)state;
	for (uint64_t seed = 0; seed < 8; seed++) {
		sim_world_begin(&w, seed, 0, 0);
		fd = open_file(&w);
		for (uint64_t s = 0; s < 16; s++)
			put(&w, fd, '0', s * SECTOR);
		assert_int_equal(sim_sync(&w, fd), 0);
		aim(w.sim, WEIR_SIM_AT_WRITE, WEIR_SIM_AIM_MISDIRECTED, "a", 1);
		put(&w, fd, 'x', 3 * SECTOR);
		assert_int_equal(sim_sync(&w, fd), 0);
		weir_sim_power_cut(w.sim, "");
		assert_int_equal(byte_at(&w, 3 * SECTOR), '0');
		found = 0;
		for (uint64_t s = 0; s < 16; s++)
			found += byte_at(&w, s * SECTOR) == 'x';
		assert_in_range(found, 0, 1);
		hits += found;
		sim_world_end(&w);
	}
	assert_true(hits >= 6);
}

static void rotten_write_has_one_bit_that_is_wrong(void **state)
{
	unsigned char buf[SECTOR];
	struct sim_world w;
	int fd, bits = 0;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	fd = open_file(&w);
	aim(w.sim, WEIR_SIM_AT_WRITE, WEIR_SIM_AIM_ROTTEN, NULL, 0);
	put(&w, fd, 0, 0);
	assert_int_equal(SIM_CALL(&w, read, fd, buf, SECTOR, 0), SECTOR);
	for (int i = 0; i < SECTOR; i++)
		bits += __builtin_popcount(buf[i]);
	assert_int_equal(bits, 1);
	sim_world_end(&w);
}

static void error_without_a_number_is_sticky(void **state)
{
	struct sim_world w;
	char byte;
	int fd;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	fd = open_file(&w);
	put(&w, fd, 'x', 0);
	aim(w.sim, WEIR_SIM_AT_READ, WEIR_SIM_AIM_ERROR, "a/log", 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(SIM_CALL(&w, read, fd, &byte, 1, 0), -EIO);
	weir_sim_set_faults(w.sim, 0);
	assert_int_equal(SIM_CALL(&w, read, fd, &byte, 1, 0), 1);
	sim_world_end(&w);
}

static void names_are_aimed_at_by_both_names_of_a_rename(void **state)
{
	struct sim_world w;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	open_file(&w);
	aim(w.sim, WEIR_SIM_AT_RENAME, WEIR_SIM_AIM_ERROR, "a/new", 1);
	aim(w.sim, WEIR_SIM_AT_UNLINK, WEIR_SIM_AIM_ERROR, "a/new", 1);
	aim(w.sim, WEIR_SIM_AT_OPEN, WEIR_SIM_AIM_ERROR, "a/new", 1);
	assert_int_equal(SIM_CALL(&w, rename, AT_FDCWD, "a/log", AT_FDCWD,
				  "a/new", 0), -EIO);
	assert_int_equal(SIM_CALL(&w, rename, AT_FDCWD, "a/log", AT_FDCWD,
				  "a/new", 0), 0);
	assert_int_equal(sim_open(&w, "a/new", O_RDWR), -EIO);
	assert_true(sim_open(&w, "a/new", O_RDWR) >= 0);
	assert_int_equal(SIM_CALL(&w, unlink, AT_FDCWD, "a/new", 0), -EIO);
	assert_int_equal(SIM_CALL(&w, unlink, AT_FDCWD, "a/new", 0), 0);
	sim_world_end(&w);
}

static void stuck_call_ends_when_faults_do(void **state)
{
	struct sim_world w;
	int fd;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	fd = open_file(&w);
	aim(w.sim, WEIR_SIM_AT_SYNC, WEIR_SIM_AIM_STUCK, "a/log", 1);
	w.calls = 0;
	assert_int_equal(weir_fsync(w.r, &w.op, fd, 0), 0);
	weir_sim_run(w.sim, 3600 * WEIR_SEC, 0);
	assert_int_equal(w.calls, 0);
	weir_sim_set_faults(w.sim, 0);
	weir_sim_run(w.sim, WEIR_SEC, 0);
	assert_int_equal(w.calls, 1);
	assert_int_equal(w.res, 0);
	sim_world_end(&w);
}

/* A connection of c to s:1, whose accept and connect have been done. */
static void connect_pair(struct sim_world *w, int fds[2], int *res)
{
	struct sockaddr_un to = { AF_UNIX, "s:1" };
	int listener;

	assert_int_equal(weir_sim_listen(w->sim, &listener, "s:1", 4), 0);
	assert_int_equal(weir_sim_socket(w->sim, &fds[0], "c"), 0);
	*res = (int)SIM_CALL(w, connect, fds[0], (const void *)&to, sizeof(to));
	if (!*res)
		fds[1] = (int)SIM_CALL(w, accept, listener, NULL, NULL, 0);
}

static void connections_are_aimed_at_by_their_ends(void **state)
{
	struct weir_sim_aim a = { .size = sizeof(a), .at = WEIR_SIM_AT_SEND,
				  .what = WEIR_SIM_AIM_RESET, .name = "c",
				  .peer = "s:1", .nth = 2 };
	struct sim_world w;
	int fds[2], res;
	char buf[8];

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	assert_int_equal(weir_sim_aim(w.sim, &a), 0);
	a.peer = "other";
	a.nth = 1;
	assert_int_equal(weir_sim_aim(w.sim, &a), 0);
	connect_pair(&w, fds, &res);
	assert_int_equal(res, 0);
	assert_int_equal(SIM_CALL(&w, send, fds[1], "x", 1, 0), 1);
	assert_int_equal(SIM_CALL(&w, send, fds[1], "x", 1, 0), 1);
	assert_int_equal(SIM_CALL(&w, recv, fds[0], buf, 1, 0), 1);
	assert_int_equal(SIM_CALL(&w, send, fds[0], "x", 1, 0), 1);
	assert_int_equal(SIM_CALL(&w, send, fds[0], "x", 1, 0), -ECONNRESET);
	sim_world_end(&w);

	sim_world_begin(&w, 1, 0, 0);
	aim(w.sim, WEIR_SIM_AT_CONNECT, WEIR_SIM_AIM_ERROR, "c", 1);
	connect_pair(&w, fds, &res);
	assert_int_equal(res, -EIO);
	sim_world_end(&w);

	sim_world_begin(&w, 1, 0, 0);
	aim(w.sim, WEIR_SIM_AT_ACCEPT, WEIR_SIM_AIM_ERROR, "s:", 1);
	aim(w.sim, WEIR_SIM_AT_RECEIVE, WEIR_SIM_AIM_ERROR, "c", 1);
	connect_pair(&w, fds, &res);
	assert_int_equal(fds[1], -EIO);
	assert_int_equal(SIM_CALL(&w, recv, fds[0], buf, 1, 0), -EIO);
	sim_world_end(&w);
}

/* A host that writes and syncs for ever. */
static struct syncer {
	struct weir_reactor *r;
	struct weir_op op;
	int fd, syncs, step;
} syncer;

static void on_step(struct weir_op *op, int64_t res)
{
	assert_true(res >= 0);
	syncer.syncs += syncer.step & 1;
	if (syncer.step++ & 1)
		assert_int_equal(weir_write(syncer.r, op, syncer.fd, "x", 1, 0),
				 0);
	else
		assert_int_equal(weir_fsync(syncer.r, op, syncer.fd, 0), 0);
}

static void start_syncer(struct weir_sim_host *host, void *arg)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };

	(void)arg;
	opts.sim = weir_sim_host_world(host);
	syncer = (struct syncer){ .op.fn = on_step };
	assert_int_equal(weir_reactor_create(&syncer.r, &opts), 0);
	syncer.fd = weir_sim_file_open(opts.sim, "a/f", O_RDWR | O_CREAT, 0600);
	assert_int_equal(weir_write(syncer.r, &syncer.op, syncer.fd, "x", 1, 0),
			 0);
}

static void host_ends_in_the_call_that_is_aimed_at(void **state)
{
	const struct weir_sim_host_opts opts = { .size = sizeof(opts),
						 .name = "a",
						 .start = start_syncer };
	struct weir_sim_host *host;
	struct weir_sim *sim;

	(void)state;
	for (int off = 0; off < 2; off++) {
		assert_int_equal(weir_sim_create(&sim, 1, NULL), 0);
		assert_int_equal(weir_sim_host_create(&host, sim, &opts), 0);
		assert_int_equal(weir_sim_host_start(host), 0);
		aim(sim, WEIR_SIM_AT_SYNC, off ? WEIR_SIM_AIM_POWER :
		    WEIR_SIM_AIM_KILL, "a/f", 3);
		weir_sim_run(sim, WEIR_SEC, 0);
		assert_int_equal(syncer.syncs, 2);
		assert_int_equal(weir_sim_host_state(host), off ?
				 WEIR_SIM_HOST_OFF : WEIR_SIM_HOST_DOWN);
		assert_int_equal(weir_sim_host_start(host), 0);
		weir_sim_run(sim, 10 * WEIR_MSEC, 0);
		assert_true(syncer.syncs > 3);
		assert_int_equal(weir_sim_destroy(sim), 0);
	}
}

static void aims_that_make_no_sense_are_refused(void **state)
{
	struct weir_sim_aim a = { .size = sizeof(a), .at = WEIR_SIM_ATS };
	struct sim_world w;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	assert_int_equal(weir_sim_aim(w.sim, &a), -EINVAL);
	a.at = WEIR_SIM_AT_READ;
	a.error = 1;
	assert_int_equal(weir_sim_aim(w.sim, &a), -EINVAL);
	a.error = 0;
	for (int what = WEIR_SIM_AIM_RESET; what <= WEIR_SIM_AIMS; what++) {
		a.what = (enum weir_sim_aim_what)what;
		assert_int_equal(weir_sim_aim(w.sim, &a), -EINVAL);
	}
	sim_world_end(&w);
}

static const struct harness_case cases[] = {
	CASE(third_sync_of_a_file_fails),
	CASE(failed_sync_loses_data_that_the_next_does_not_save),
	CASE(sync_that_does_nothing_is_no_sync),
	CASE(lost_write_is_gone_after_a_power_cut),
	CASE(misdirected_write_is_elsewhere_in_the_file),
	CASE(rotten_write_has_one_bit_that_is_wrong),
	CASE(error_without_a_number_is_sticky),
	CASE(names_are_aimed_at_by_both_names_of_a_rename),
	CASE(stuck_call_ends_when_faults_do),
	CASE(connections_are_aimed_at_by_their_ends),
	CASE(host_ends_in_the_call_that_is_aimed_at),
	CASE(aims_that_make_no_sense_are_refused),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
