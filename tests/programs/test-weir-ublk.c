/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * weir-ublk over a model of the driver.  The program's calls of weir_uring_submit() come
 * to driver_submit(), which does what the kernel's driver does with its commands; devices
 * are files of a directory.  Requests are the test's, which is the kernel's block layer
 * here.  With the driver itself it is tests/interop/weir-ublk.sh.
 */

#include "tests/support/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int ublk_main(int argc, char **argv);
#define main ublk_main
#include "programs/weir-ublk/main.c"
#undef main

#define DEPTH 4u
#define QUEUES 2u
#define DISK (1u << 20)
#define SECTORS (DISK / SECTOR)

struct tag {
	struct weir_op *op;	/* A command waits; NULL: none. */
	uint64_t addr;
	bool busy;		/* The server has a request, or the test its answer. */
	bool answered;
	int32_t result;
	uint32_t op_flags, len;
	void *data;		/* The test's. */
};

static struct driver {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	char dir[32];
	int file;		/* ublkc0 */
	bool exists, live;
	struct ublk_info info;
	struct ublk_params params;
	struct tag tags[QUEUES][DEPTH];
	uint32_t fetched, in_flight;
	struct weir_op *start, *stop;
	uint32_t codes[16], n_codes;	/* Of the commands, in order. */
	uint32_t refused;	/* This command fails, */
	int refused_with;	/* so. */
	uint32_t privileged;
	uint64_t resized;
	pthread_t thread;	/* The program's; */
	int status;		/* its exit status. */
} driver = { .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };

/* The driver.  Its functions are called with the lock. */

static const char *in_dir(const char *name)
{
	static _Thread_local char path[64];

	snprintf(path, sizeof(path), "%s/%s", driver.dir, name);
	return path;
}

static void make_device_file(const char *name)
{
	int fd = open(in_dir(name), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)(QUEUES * UBLK_QUEUE_BYTES)))
		abort();
	close(fd);
}

static bool is_fetched(void)
{
	return driver.fetched == (uint32_t)driver.info.queues * driver.info.depth;
}

static void end_start(int res)
{
	struct weir_op *op = driver.start;

	driver.start = NULL;
	if (!res) {
		driver.live = true;
		driver.info.state = UBLK_LIVE;
		make_device_file("ublkb0");
	}
	weir_op_finish(op, res);
	pthread_cond_broadcast(&driver.cond);
}

/* All commands end: the disk is gone. */
static void abort_all(void)
{
	driver.live = false;
	driver.info.state = UBLK_DEAD;
	unlink(in_dir("ublkb0"));
	for (uint32_t q = 0; q < QUEUES; q++)
		for (uint32_t t = 0; t < DEPTH; t++) {
			if (driver.tags[q][t].op)
				weir_op_finish(driver.tags[q][t].op, UBLK_ABORTED);
			driver.tags[q][t].op = NULL;
		}
	driver.fetched = 0;
	if (driver.stop)
		weir_op_finish(driver.stop, 0);
	driver.stop = NULL;
	pthread_cond_broadcast(&driver.cond);
}

static int add(struct ublk_info *info)
{
	if (driver.exists)
		return -EEXIST;
	if (info->flags & UBLK_F_USER_COPY && !driver.privileged)
		return -EINVAL;
	if (info->queues > QUEUES)
		info->queues = QUEUES;
	if (driver.privileged)
		info->flags &= ~UBLK_F_UNPRIVILEGED;
	info->dev_id = 0;
	driver.info = *info;
	driver.exists = true;
	make_device_file("ublkc0");
	return 0;
}

static int delete(void)
{
	driver.exists = false;
	unlink(in_dir("ublkc0"));
	return 0;
}

/* Returns 1: it ends later. */
static int control(struct weir_op *op, uint32_t code, const struct ublk_command *c)
{
	uint8_t *at = (uint8_t *)(uintptr_t)c->addr + c->path_len;

	if (driver.n_codes < N_OF(driver.codes))
		driver.codes[driver.n_codes++] = code;
	if (code == driver.refused)
		return driver.refused_with;
	if (code == UBLK_GET_FEATURES)
		return 0;
	if (code == UBLK_ADD)
		return add((struct ublk_info *)at);
	if (!driver.exists)
		return -ENODEV;
	switch (code) {
	case UBLK_GET_INFO:
		memcpy(at, &driver.info, sizeof(driver.info));
		return 0;
	case UBLK_SET_PARAMS:
		memcpy(&driver.params, at, UBLK_PARAMS_LEN);
		return 0;
	case UBLK_GET_PARAMS:
		memcpy(at, &driver.params, UBLK_PARAMS_LEN);
		return 0;
	case UBLK_START_RECOVERY:
		return driver.info.state == UBLK_QUIESCED ? 0 : -EBUSY;
	case UBLK_START:
	case UBLK_END_RECOVERY:
		driver.start = op;
		if (is_fetched())
			end_start(0);
		return 1;
	case UBLK_STOP:
		driver.stop = op;
		if (!driver.in_flight)
			abort_all();
		return 1;
	case UBLK_UPDATE_SIZE:
		driver.resized = c->data;
		pthread_cond_broadcast(&driver.cond);
		return 0;
	case UBLK_DELETE:
		return delete();
	default:
		return -EOPNOTSUPP;
	}
}

/* What a commit brings. */
static void answered(struct tag *tag, const struct ublk_io_command *c)
{
	tag->result = c->result;
	tag->answered = true;
	if (UBLK_OP(tag->op_flags) == UBLK_READ && c->result > 0 && tag->addr)
		memcpy(tag->data, (void *)(uintptr_t)tag->addr, (size_t)c->result);
	driver.in_flight--;
	pthread_cond_broadcast(&driver.cond);
}

static int fetch(struct weir_op *op, uint32_t code, const struct ublk_io_command *c)
{
	struct tag *tag = &driver.tags[c->queue % QUEUES][c->tag % DEPTH];

	if (code == driver.refused)
		return driver.refused_with;
	if (c->queue >= driver.info.queues || c->tag >= driver.info.depth || tag->op ||
	    (code == UBLK_COMMIT_AND_FETCH) != (tag->busy && !tag->answered) ||
	    !c->addr != !!(driver.info.flags & UBLK_F_USER_COPY))
		return -EINVAL;
	tag->op = op;
	if (code == UBLK_FETCH)
		driver.fetched++;
	else
		answered(tag, c);
	tag->addr = c->addr;
	if (driver.start && is_fetched())
		end_start(0);
	if (driver.stop && !driver.in_flight)
		abort_all();
	return 1;
}

/* What waits in the kernel for the queues can be interrupted, and a fetch cannot. */
static void on_cancel(struct weir_op *op, void *arg)
{
	(void)arg;
	pthread_mutex_lock(&driver.lock);
	if (op == driver.start)
		end_start(-EINTR);
	pthread_mutex_unlock(&driver.lock);
}

int driver_submit(struct weir_reactor *r, struct weir_op *op, weir_uring_prep_fn *prep,
		  void *arg)
{
	uint64_t words[16] = { 0 };
	struct io_uring_sqe *sqe = (void *)words;
	uint32_t code;
	int res, err;

	prep(sqe, arg);
	code = sqe->cmd_op;
	err = weir_op_start(r, op, on_cancel, NULL);
	if (err)
		return err;
	pthread_mutex_lock(&driver.lock);
	res = code == UBLK_FETCH || code == UBLK_COMMIT_AND_FETCH ?
	      fetch(op, code, (const void *)sqe->cmd) :
	      control(op, code, (const void *)sqe->cmd);
	pthread_mutex_unlock(&driver.lock);
	if (res <= 0)
		weir_op_finish(op, res);
	return 0;
}

/* The block layer. */

static uint64_t data_at(uint32_t q, uint32_t t)
{
	return UBLK_DATA_AT | (uint64_t)q << UBLK_DATA_QUEUE |
	       (uint64_t)t << UBLK_DATA_TAG;
}

static void ask(uint32_t q, uint32_t t, uint32_t op_flags, uint64_t sector, uint32_t n,
		void *data)
{
	const struct ublk_request rq = { .op_flags = op_flags, .sectors = n,
					 .sector = sector };
	struct tag *tag = &driver.tags[q][t];
	struct weir_op *op;

	pthread_mutex_lock(&driver.lock);
	while (!tag->op || tag->busy)
		pthread_cond_wait(&driver.cond, &driver.lock);
	assert_int_equal(pwrite(driver.file, &rq, sizeof(rq),
				(off_t)(q * UBLK_QUEUE_BYTES + t * sizeof(rq))),
			 sizeof(rq));
	if (UBLK_OP(op_flags) == UBLK_WRITE && tag->addr)
		memcpy((void *)(uintptr_t)tag->addr, data, n * SECTOR);
	else if (UBLK_OP(op_flags) == UBLK_WRITE)
		assert_int_equal(pwrite(driver.file, data, n * SECTOR,
					(off_t)data_at(q, t)), n * SECTOR);
	op = tag->op;
	tag->op = NULL;
	tag->busy = true;
	tag->answered = false;
	tag->op_flags = op_flags;
	tag->len = n * SECTOR;
	tag->data = data;
	driver.in_flight++;
	pthread_mutex_unlock(&driver.lock);
	weir_op_finish(op, 0);
}

static int answer(uint32_t q, uint32_t t)
{
	struct tag *tag = &driver.tags[q][t];

	pthread_mutex_lock(&driver.lock);
	while (!tag->answered)
		pthread_cond_wait(&driver.cond, &driver.lock);
	if (UBLK_OP(tag->op_flags) == UBLK_READ && tag->result > 0 &&
	    driver.info.flags & UBLK_F_USER_COPY)
		assert_int_equal(pread(driver.file, tag->data, tag->len,
				       (off_t)data_at(q, t)), tag->len);
	tag->busy = false;
	pthread_cond_broadcast(&driver.cond);
	pthread_mutex_unlock(&driver.lock);
	return tag->result;
}

static int request(uint32_t q, uint32_t t, uint32_t op_flags, uint64_t sector, uint32_t n,
		   void *data)
{
	ask(q, t, op_flags, sector, n, data);
	return answer(q, t);
}

/* The program. */

static char words[8][256];

static void *run(void *arg)
{
	char *argv[9] = { words[0] };
	int argc = 1;

	(void)arg;
	while (*words[argc]) {
		argv[argc] = words[argc];
		argc++;
	}
	optind = 0;
	driver.status = ublk_main(argc, argv);
	pthread_mutex_lock(&driver.lock);
	driver.thread = 0;
	pthread_cond_broadcast(&driver.cond);
	pthread_mutex_unlock(&driver.lock);
	return NULL;
}

static pthread_t thread;

/* Runs it with @options, until it serves or has ended. */
static void begin_program(const char *const *options)
{
	int n = 1;

	memset(words, 0, sizeof(words));
	strcpy(words[0], "weir-ublk");
	strcpy(words[n++], "-q");
	strcpy(words[n++], "--queues=2");
	strcpy(words[n++], "--depth=4");
	for (; *options; options++)
		snprintf(words[n++], sizeof(words[0]), "%s", *options);
	driver.status = -1;
	driver.n_codes = 0;
	pthread_mutex_lock(&driver.lock);
	driver.thread = 1;
	assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
	while (driver.thread && !driver.live)
		pthread_cond_wait(&driver.cond, &driver.lock);
	pthread_mutex_unlock(&driver.lock);
	driver.file = open(in_dir("ublkc0"), O_RDWR | O_CLOEXEC);
}

/* Returns its exit status. */
static int end_program(void)
{
	pthread_join(thread, NULL);
	if (driver.file >= 0)
		close(driver.file);
	driver.file = -1;
	return driver.status;
}

#define BEGIN(...) begin_program((const char *const[]){ __VA_ARGS__, NULL })

static int stop_program(void)
{
	kill(getpid(), SIGTERM);
	return end_program();
}

static char disk[64];

static void set_up(void)
{
	struct weir_uring_info info = { .size = sizeof(info) };
	static char block[DISK];
	sigset_t set;
	int fd;

	if (weir_uring_probe(&info) || !(info.features & WEIR_URING_SQE128))
		skip_because("no io_uring");
	/* Those that the program waits for come to no other thread. */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	memset(driver.tags, 0, sizeof(driver.tags));
	driver.exists = driver.live = false;
	driver.fetched = driver.in_flight = 0;
	driver.refused = 0;
	driver.privileged = 1;
	driver.resized = 0;
	strcpy(driver.dir, "/tmp/wuXXXXXX");
	assert_non_null(mkdtemp(driver.dir));
	device_dir = driver.dir;
	make_device_file("ublk-control");
	snprintf(disk, sizeof(disk), "%s", in_dir("disk"));
	fd = open(disk, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	fill_pattern(block, sizeof(block), 0, 1);
	assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
	close(fd);
}

static void tear_down(void)
{
	assert_false(driver.exists);
	assert_null(driver.start);
	assert_null(driver.stop);
	unlink(disk);
	unlink(in_dir("ublk-control"));
	assert_int_equal(rmdir(driver.dir), 0);
}

static void assert_on_disk(uint64_t off, const void *data, size_t len)
{
	uint8_t *is = malloc(len);
	int fd = open(disk, O_RDONLY | O_CLOEXEC);

	assert_int_equal(pread(fd, is, len, (off_t)off), (ssize_t)len);
	assert_memory_equal(is, data, len);
	close(fd);
	free(is);
}

static void requests_reach_the_file(void **state)
{
	static uint8_t data[64 << 10], zeroes[64 << 10], got[64 << 10];

	(void)state;
	set_up();
	BEGIN(disk);
	assert_int_equal(driver.params.basic.sectors, SECTORS);
	assert_int_equal(driver.params.basic.attrs, UBLK_VOLATILE_CACHE | UBLK_FUA);
	assert_int_equal(driver.info.flags & (UBLK_F_RECOVERY | UBLK_F_REISSUE),
			 UBLK_F_RECOVERY | UBLK_F_REISSUE);
	for (uint32_t q = 0; q < QUEUES; q++)
		for (uint32_t t = 0; t < DEPTH; t++) {
			assert_int_equal(request(q, t, UBLK_READ, 8 * t, 8, got), 4096);
			assert_true(is_pattern(got, 4096, 4096 * t, 1));
		}
	fill_pattern(data, sizeof(data), 0, 7);
	assert_int_equal(request(1, 2, UBLK_WRITE, 100, 128, data), sizeof(data));
	assert_on_disk(100 * SECTOR, data, sizeof(data));
	assert_int_equal(request(0, 3, UBLK_WRITE | UBLK_IO_FUA, 1000, 1, data), SECTOR);
	assert_on_disk(1000 * SECTOR, data, SECTOR);
	assert_int_equal(request(0, 0, UBLK_FLUSH, 0, 0, NULL), 0);
	assert_int_equal(request(0, 1, UBLK_DISCARD, 104, 16, NULL), 0);
	assert_on_disk(104 * SECTOR, zeroes, 16 * SECTOR);
	assert_on_disk(120 * SECTOR, data + 20 * SECTOR, SECTOR);
	assert_int_equal(request(0, 1, UBLK_WRITE_ZEROES | UBLK_IO_NO_UNMAP, 120, 8, NULL),
			 0);
	assert_on_disk(120 * SECTOR, zeroes, 8 * SECTOR);
	assert_int_equal(stop_program(), EXIT_OK);
	tear_down();
}

static void senseless_requests_are_refused(void **state)
{
	uint8_t data[2 * SECTOR] = { 0 };
	struct stat st;

	(void)state;
	set_up();
	BEGIN(disk);
	assert_int_equal(request(0, 0, UBLK_WRITE, SECTORS - 1, 2, data), -EIO);
	assert_int_equal(request(0, 0, UBLK_WRITE, SECTORS, 1, data), -EIO);
	assert_int_equal(stat(disk, &st), 0);
	assert_int_equal(st.st_size, DISK);
	assert_int_equal(request(0, 0, UBLK_READ, SECTORS, 1, data), -EIO);
	assert_int_equal(request(0, 0, UBLK_READ, UINT64_MAX, 1, data), -EIO);
	assert_int_equal(request(0, 0, UBLK_READ, SECTORS - 1, 2, data), -EIO);
	assert_int_equal(request(0, 0, UBLK_READ, 0, 0, data), -EIO);
	assert_int_equal(request(0, 0, UBLK_READ, 0, IO_MAX / SECTOR + 1, data), -EIO);
	assert_int_equal(request(0, 0, 4, 0, 1, data), -EOPNOTSUPP);
	assert_int_equal(request(0, 0, 15, 0, 1, data), -EOPNOTSUPP);
	assert_int_equal(request(0, 0, UBLK_READ, SECTORS - 1, 1, data), SECTOR);
	assert_int_equal(stop_program(), EXIT_OK);
	tear_down();
}

static void read_only_device_is_said_to_be_and_refuses_writes(void **state)
{
	uint8_t data[SECTOR] = { 0 };
	char export[128];

	(void)state;
	set_up();
	snprintf(export, sizeof(export), "path=%s,ro", disk);
	BEGIN(export);
	assert_true(driver.params.basic.attrs & UBLK_READ_ONLY);
	assert_int_equal(request(0, 0, UBLK_WRITE, 0, 1, data), -EROFS);
	assert_int_equal(request(0, 0, UBLK_DISCARD, 0, 8, NULL), -EOPNOTSUPP);
	assert_int_equal(request(0, 0, UBLK_WRITE_ZEROES, 0, 8, NULL), -EOPNOTSUPP);
	assert_int_equal(request(0, 0, UBLK_READ, 0, 1, data), SECTOR);
	assert_true(is_pattern(data, SECTOR, 0, 1));
	assert_int_equal(stop_program(), EXIT_OK);
	tear_down();
}

/* By the driver's copies, or, for those without privileges, by buffers. */
static void memory_is_served(void **state)
{
	static uint8_t data[IO_MAX], got[IO_MAX];

	(void)state;
	for (uint32_t privileged = 0; privileged < 2; privileged++) {
		set_up();
		driver.privileged = privileged;
		BEGIN("size=1M");
		assert_int_equal(!!(driver.info.flags & UBLK_F_USER_COPY), privileged);
		assert_int_equal(!!(driver.info.flags & UBLK_F_UNPRIVILEGED), !privileged);
		assert_false(driver.info.flags & UBLK_F_RECOVERY);
		assert_int_equal(driver.params.basic.attrs, 0);
		memset(data, 0, sizeof(data));
		memset(got, 1, sizeof(got));
		assert_int_equal(request(1, 1, UBLK_READ, 3, 1000, got), 1000 * SECTOR);
		assert_memory_equal(got, data, 1000 * SECTOR);
		fill_pattern(data, sizeof(data), 0, 9);
		assert_int_equal(request(1, 3, UBLK_WRITE, 17, IO_MAX / SECTOR, data), IO_MAX);
		assert_int_equal(request(0, 2, UBLK_READ, 17, IO_MAX / SECTOR, got), IO_MAX);
		assert_memory_equal(got, data, IO_MAX);
		assert_int_equal(request(0, 0, UBLK_DISCARD, 24, 8, NULL), 0);
		assert_int_equal(request(0, 2, UBLK_READ, 17, 16, got), 16 * SECTOR);
		memset(data + 7 * SECTOR, 0, 8 * SECTOR);
		assert_memory_equal(got, data, 16 * SECTOR);
		assert_int_equal(stop_program(), EXIT_OK);
		tear_down();
	}
}

/* All tags of both queues at once, again and again; each has its own part. */
static void requests_of_all_tags_at_once_do_not_mix(void **state)
{
	static uint8_t data[QUEUES][DEPTH][8192];
	unsigned int rounds = scaled(200);

	(void)state;
	set_up();
	BEGIN(disk);
	for (unsigned int i = 0; i < rounds; i++) {
		for (uint32_t q = 0; q < QUEUES; q++)
			for (uint32_t t = 0; t < DEPTH; t++) {
				uint32_t part = q * DEPTH + t;

				fill_pattern(data[q][t], 8192, 0, i * 8 + part);
				ask(q, t, UBLK_WRITE, part * 64 + i % 8, 16, data[q][t]);
			}
		for (uint32_t q = 0; q < QUEUES; q++)
			for (uint32_t t = 0; t < DEPTH; t++)
				assert_int_equal(answer(q, t), 8192);
		for (uint32_t q = 0; q < QUEUES; q++)
			for (uint32_t t = 0; t < DEPTH; t++) {
				memset(data[q][t], 0, 8192);
				ask(q, t, UBLK_READ, (q * DEPTH + t) * 64 + i % 8, 16,
				    data[q][t]);
			}
		for (uint32_t q = 0; q < QUEUES; q++)
			for (uint32_t t = 0; t < DEPTH; t++) {
				assert_int_equal(answer(q, t), 8192);
				assert_true(is_pattern(data[q][t], 8192, 0,
						       i * 8 + q * DEPTH + t));
			}
	}
	assert_int_equal(stop_program(), EXIT_OK);
	tear_down();
}

static void signal_waits_for_the_requests_in_flight(void **state)
{
	static uint8_t data[DEPTH][64 << 10];

	(void)state;
	for (unsigned int i = 0; i < scaled(20); i++) {
		set_up();
		BEGIN(disk);
		for (uint32_t t = 0; t < DEPTH; t++)
			ask(1, t, UBLK_WRITE, t * 128, 128, data[t]);
		kill(getpid(), SIGTERM);
		for (uint32_t t = 0; t < DEPTH; t++)
			assert_int_equal(answer(1, t), sizeof(data[t]));
		assert_int_equal(end_program(), EXIT_OK);
		assert_int_equal(driver.codes[driver.n_codes - 2], UBLK_STOP);
		assert_int_equal(driver.codes[driver.n_codes - 1], UBLK_DELETE);
		tear_down();
	}
}

/* Which has deleted it, too, or will. */
static void device_stopped_by_another_process_ends_the_server(void **state)
{
	(void)state;
	set_up();
	BEGIN(disk);
	pthread_mutex_lock(&driver.lock);
	abort_all();
	pthread_mutex_unlock(&driver.lock);
	assert_int_equal(end_program(), EXIT_OK);
	for (uint32_t i = 0; i < driver.n_codes; i++)
		assert_int_not_equal(driver.codes[i], UBLK_DELETE);
	delete();
	tear_down();
}

static void command_that_the_driver_refuses_leaves_no_device(void **state)
{
	static const struct { uint32_t code; int err; } all[] = {
		{ UBLK_GET_FEATURES, -EOPNOTSUPP }, { UBLK_ADD, -EPERM },
		{ UBLK_SET_PARAMS, -EINVAL }, { UBLK_START, -ENOMEM },
		{ UBLK_FETCH, -EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < N_OF(all); i++) {
		set_up();
		driver.refused = all[i].code;
		driver.refused_with = all[i].err;
		BEGIN(disk);
		assert_int_equal(end_program(), EXIT_SETUP);
		tear_down();
	}
}

/* As the kernel has it after SIGKILL: all that the process had is gone. */
static void lose_server(uint64_t server_flags)
{
	driver.exists = true;
	driver.info.state = UBLK_QUIESCED;
	driver.info.server_flags = server_flags;
	driver.info.pid = 1;
	driver.live = false;
	driver.fetched = 0;
	make_device_file("ublkc0");
	make_device_file("ublkb0");
}

static bool has_sent(uint32_t code)
{
	bool has = false;

	pthread_mutex_lock(&driver.lock);
	for (uint32_t i = 0; i < driver.n_codes; i++)
		has |= driver.codes[i] == code;
	pthread_mutex_unlock(&driver.lock);
	return has;
}

static void lost_device_is_taken_over_by_the_same_export_only(void **state)
{
	uint8_t data[SECTOR];
	uint64_t own;
	char export[128], twin[64];
	int fd;

	(void)state;
	set_up();
	BEGIN("--id=0", disk);
	own = driver.info.server_flags;
	assert_int_not_equal(own, 0);
	assert_int_equal(stop_program(), EXIT_OK);

	/* Another file, in which all else is the same. */
	snprintf(twin, sizeof(twin), "%s", in_dir("twin"));
	fd = open(twin, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, DISK), 0);
	close(fd);
	lose_server(own);
	BEGIN("--id=0", twin);
	assert_int_equal(end_program(), EXIT_SETUP);
	unlink(twin);
	BEGIN("--id=0", "size=1M");
	assert_int_equal(end_program(), EXIT_SETUP);
	snprintf(export, sizeof(export), "path=%s,ro", disk);
	BEGIN("--id=0", export);
	assert_int_equal(end_program(), EXIT_SETUP);
	assert_false(has_sent(UBLK_START_RECOVERY));
	assert_int_equal(truncate(disk, DISK / 2), 0);
	BEGIN("--id=0", disk);
	assert_int_equal(end_program(), EXIT_SETUP);
	assert_false(has_sent(UBLK_START_RECOVERY));
	assert_true(driver.exists);

	assert_int_equal(truncate(disk, DISK), 0);
	BEGIN("--id=0", disk);
	assert_true(has_sent(UBLK_END_RECOVERY));
	assert_false(has_sent(UBLK_ADD) || has_sent(UBLK_SET_PARAMS));
	assert_int_equal(request(0, 0, UBLK_READ, 0, 1, data), SECTOR);
	assert_true(is_pattern(data, SECTOR, 0, 1));
	assert_int_equal(stop_program(), EXIT_OK);

	/* What the kernel has removed has its number still. */
	lose_server(0);
	driver.info.state = UBLK_DEAD;
	unlink(in_dir("ublkb0"));
	BEGIN("--id=0", "size=1M");
	assert_true(has_sent(UBLK_DELETE) && has_sent(UBLK_ADD));
	assert_int_equal(stop_program(), EXIT_OK);
	tear_down();
}

/* As of a server whose last write has not ended. */
static void file_of_another_server_is_refused_until_that_has_closed_it(void **state)
{
	unsigned int usual = attempts;
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 0 };
	char export[128];
	int fd;

	(void)state;
	set_up();
	snprintf(export, sizeof(export), "path=%s,ro", disk);
	fd = open(disk, O_RDWR | O_CLOEXEC);
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
	attempts = 2;
	BEGIN(disk);
	assert_int_equal(end_program(), EXIT_SETUP);
	assert_false(driver.exists);
	BEGIN(export);
	assert_int_equal(stop_program(), EXIT_OK);
	close(fd);
	BEGIN(disk);
	assert_int_equal(stop_program(), EXIT_OK);
	attempts = usual;
	tear_down();
}

static void wait_for_size(uint64_t sectors)
{
	pthread_mutex_lock(&driver.lock);
	while (driver.resized != sectors)
		pthread_cond_wait(&driver.cond, &driver.lock);
	pthread_mutex_unlock(&driver.lock);
}

static void device_grows_with_its_file(void **state)
{
	uint8_t data[SECTOR];

	(void)state;
	set_up();
	BEGIN(disk);
	assert_int_equal(request(0, 0, UBLK_READ, SECTORS, 1, data), -EIO);
	assert_int_equal(truncate(disk, 2 * DISK), 0);
	kill(getpid(), SIGHUP);
	wait_for_size(2 * SECTORS);
	assert_int_equal(request(0, 0, UBLK_READ, 2 * SECTORS - 1, 1, data), SECTOR);
	assert_int_equal(stop_program(), EXIT_OK);
	tear_down();
}

static void devices_are_listed_and_stopped(void **state)
{
	(void)state;
	set_up();
	BEGIN(disk);
	assert_int_equal(list_devices(true), EXIT_OK);
	assert_true(has_sent(UBLK_GET_INFO) && has_sent(UBLK_GET_PARAMS));
	assert_int_equal(stop_device(1, false), EXIT_OK);
	assert_int_equal(end_program(), EXIT_OK);
	assert_int_equal(stop_device(0, false), EXIT_FAILED);
	tear_down();
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(requests_reach_the_file),
		CASE(senseless_requests_are_refused),
		CASE(read_only_device_is_said_to_be_and_refuses_writes),
		CASE(memory_is_served),
		CASE(requests_of_all_tags_at_once_do_not_mix),
		CASE(signal_waits_for_the_requests_in_flight),
		CASE(device_stopped_by_another_process_ends_the_server),
		CASE(command_that_the_driver_refuses_leaves_no_device),
		CASE(lost_device_is_taken_over_by_the_same_export_only),
		CASE(file_of_another_server_is_refused_until_that_has_closed_it),
		CASE(device_grows_with_its_file),
		CASE(devices_are_listed_and_stopped),
	};

	return harness_run_plain(cases, N_OF(cases));
}
