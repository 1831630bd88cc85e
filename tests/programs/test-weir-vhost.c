/* SPDX-License-Identifier: BSD-3-Clause */

/* weir-vhost as a front end sees it: requests however they are cut, rings and
 * messages that make no sense, and servers that are killed. */

#include "tests/support/harness.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/support/vhost-front.h"

#define MIB (1u << 20)
#define DISK (4u * MIB)
#define MEMORY (8u * MIB)
#define NUM 256u
#define SLOTS (NUM / 3)
#define WAIT_MS 20000
/* Where requests have what: behind the rings, across the regions, and further. */
#define HEADS (FRONT_QUEUES * FRONT_RING_BYTES)
#define DATA (6 * MIB)

static pid_t vhost_pid;
static char vhost_socket[128];

static const char *built(void)
{
	static const char inner[] = "programs/weir-vhost/.libs/weir-vhost";

	if (access(inner, X_OK) || getenv("LD_LIBRARY_PATH"))
		return "programs/weir-vhost/weir-vhost";
	setenv("LD_LIBRARY_PATH", ".libs", 1);
	return inner;
}

static void spawn(void **state, const char *const args[])
{
	const struct world *w = *state;
	const char *program = getenv("WEIR_VHOST");
	const char *argv[16] = { "weir-vhost", "--quiet", "--unix",
				 vhost_socket };
	int n = 4;

	snprintf(vhost_socket, sizeof(vhost_socket), "%s",
		 test_path(state, "socket"));
	for (; *args && n < 15; args++)
		argv[n++] = *args;
	fflush(NULL);
	vhost_pid = fork();
	assert_true(vhost_pid >= 0);
	if (vhost_pid)
		return;
	setenv("WEIR_BACKEND", w->backend, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execv(program ? program : built(), (char *const *)argv);
	_exit(127);
}

/* A server of a file, of which the first sectors are a pattern. */
static void serve_file(void **state, const char *more)
{
	char export[256];

	snprintf(export, sizeof(export), "path=%s%s",
		 test_path(state, "disk"), more);
	spawn(state, (const char *const[]){ export, NULL });
}

static void serve(void **state)
{
	close(test_file(state, "disk", DISK, 1));
	serve_file(state, ",name=number one");
}

static int ended(void)
{
	int status;

	assert_int_equal(waitpid(vhost_pid, &status, 0), vhost_pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void stop(void)
{
	kill(vhost_pid, SIGTERM);
	assert_int_equal(ended(), 0);
}

static void connect_to_it(struct front *f)
{
	while (!front_connect(f, vhost_socket)) {
		assert_int_equal(waitpid(vhost_pid, NULL, WNOHANG), 0);
		poll(NULL, 0, 1);
	}
}

/* A virtual machine with one queue, without the features of @without. */
static void begin(struct front *f, uint64_t without)
{
	front_memory(f, MEMORY, false);
	connect_to_it(f);
	front_hello(f, without);
	front_place(f, f->queues, NUM, true);
	assert_int_equal(front_start(f, f->queues), 0);
}

static uint64_t head_at(uint32_t slot)
{
	return HEADS + 32 * slot;
}

static uint8_t *status_at(const struct front *f, uint32_t slot)
{
	return f->mem + head_at(slot) + sizeof(struct virtio_blk_outhdr);
}

/* Have one request done; returns its status. */
static int ask(struct front *f, uint32_t type, uint64_t sector, uint64_t data,
	       uint32_t len)
{
	struct front_queue *q = f->queues;
	struct vring_used_elem e;

	front_request(f, q, 0, type, sector, head_at(0), data, len);
	front_kick(f, q);
	assert_true(front_wait(q, &e, WAIT_MS));
	assert_int_equal(e.id, 0);
	return *status_at(f, 0);
}

static void data_written_is_read_back(void **state)
{
	static const uint64_t without[] = {
		0, BIT(VIRTIO_RING_F_EVENT_IDX), BIT(VIRTIO_RING_F_INDIRECT_DESC),
	};
	static const uint32_t lens[] = { 512, 4096, 65536, MIB };

	serve(state);
	for (size_t i = 0; i < N_OF(without); i++) {
		struct front f;

		begin(&f, without[i]);
		for (size_t k = 0; k < N_OF(lens); k++) {
			uint8_t *p = f.mem + DATA;

			fill_pattern(p, lens[k], 0, (unsigned int)(10 + k));
			assert_int_equal(ask(&f, VIRTIO_BLK_T_OUT, k, DATA,
					     lens[k]), VIRTIO_BLK_S_OK);
			assert_int_equal(ask(&f, VIRTIO_BLK_T_FLUSH, 0, 0, 0),
					 VIRTIO_BLK_S_OK);
			memset(p, 0, lens[k]);
			assert_int_equal(ask(&f, VIRTIO_BLK_T_IN, k, DATA,
					     lens[k]), VIRTIO_BLK_S_OK);
			assert_true(is_pattern(p, lens[k], 0,
					       (unsigned int)(10 + k)));
		}
		front_end(&f);
	}
	stop();
}

/* Memory, and whether it is what it was. */
static void memory_is_a_disk_too(void **state)
{
	struct front f;
	uint8_t *p;

	spawn(state, (const char *const[]){ "size=4M", NULL });
	begin(&f, 0);
	p = f.mem + DATA;
	fill_pattern(p, 256 << 10, 0, 3);
	assert_int_equal(ask(&f, VIRTIO_BLK_T_OUT, 8, DATA, 256 << 10), 0);
	memset(p, 0, 256 << 10);
	assert_int_equal(ask(&f, VIRTIO_BLK_T_IN, 8, DATA, 256 << 10), 0);
	assert_true(is_pattern(p, 256 << 10, 0, 3));
	front_end(&f);
	stop();
}

/* By jobs: the file has other bytes. */
static void plugin_is_a_disk_too(void **state)
{
	static const char cipher[] = "programs/block/.libs/cipher.so";
	char here[4096], export[4096 + 512];
	struct front f;
	uint8_t *p;
	int fd;

	if (access(cipher, R_OK) || !realpath(cipher, here))
		skip_because("built without shared objects");
	fd = test_file(state, "disk", DISK, 1);
	snprintf(export, sizeof(export), "plugin=%s,args=%s:key", here,
		 test_path(state, "disk"));
	spawn(state, (const char *const[]){ export, NULL });
	begin(&f, 0);
	/* It lies across the regions. */
	p = f.mem + f.half - 4096;
	fill_pattern(p, 65536, 0, 3);
	assert_int_equal(ask(&f, VIRTIO_BLK_T_OUT, 8, f.half - 4096, 65536),
			 0);
	assert_int_equal(ask(&f, VIRTIO_BLK_T_FLUSH, 0, 0, 0), 0);
	memset(p, 0, 65536);
	assert_int_equal(ask(&f, VIRTIO_BLK_T_IN, 8, f.half - 4096, 65536), 0);
	assert_true(is_pattern(p, 65536, 0, 3));
	assert_int_equal(pread(fd, p, 65536, 4096), 65536);
	assert_false(is_pattern(p, 65536, 0, 3));
	close(fd);
	front_end(&f);
	stop();
}

/* A request of @n descriptors in the ring, or in a table of its own. */
static void offer_pieces(struct front *f, const struct iovec *pieces,
			 uint32_t n, uint32_t n_out, bool table)
{
	struct front_queue *q = f->queues;
	struct front_queue in_table = *q;
	uint64_t at = HEADS + 65536;

	if (table) {
		in_table.desc = (void *)(f->mem + at);
		front_desc(q, 0, front_gpa(at), n * 16, VRING_DESC_F_INDIRECT,
			   0);
	}
	for (uint32_t i = 0; i < n; i++)
		front_desc(&in_table, i, (uintptr_t)pieces[i].iov_base,
			   (uint32_t)pieces[i].iov_len,
			   (i + 1 < n ? VRING_DESC_F_NEXT : 0u) |
			   (i < n_out ? 0u : VRING_DESC_F_WRITE), i + 1);
	front_offer(q, 0);
	front_kick(f, q);
}

static struct iovec piece(uint64_t off, size_t len)
{
	return (struct iovec){ (void *)(uintptr_t)front_gpa(off), len };
}

/* Header and data are one piece of memory, and so are data and status. */
static void write_cut_at(struct front *f, uint32_t cut, bool table)
{
	struct virtio_blk_outhdr head = { .type = VIRTIO_BLK_T_OUT };
	/* It lies across the regions. */
	uint64_t at = f->half - 100, status = HEADS;
	const struct iovec v[] = { piece(at, cut), piece(at + cut, 528 - cut),
				   piece(status, 1) };
	struct vring_used_elem e;

	memcpy(f->mem + at, &head, sizeof(head));
	fill_pattern(f->mem + at + 16, 512, 0, cut);
	f->mem[status] = 0xff;
	offer_pieces(f, v, 3, 2, table);
	assert_true(front_wait(f->queues, &e, WAIT_MS));
	assert_int_equal(f->mem[status], VIRTIO_BLK_S_OK);
	assert_int_equal(e.len, 1);
	assert_int_equal(ask(f, VIRTIO_BLK_T_IN, 0, DATA, 512), 0);
	assert_true(is_pattern(f->mem + DATA, 512, 0, cut));
}

static void read_cut_at(struct front *f, uint32_t cut, uint32_t seed,
			bool table)
{
	struct virtio_blk_outhdr head = { .type = VIRTIO_BLK_T_IN };
	uint64_t at = f->half - 200;
	const struct iovec v[] = { piece(HEADS, 16), piece(at, cut),
				   piece(at + cut, 513 - cut) };
	struct vring_used_elem e;

	memcpy(f->mem + HEADS, &head, sizeof(head));
	memset(f->mem + at, 0xff, 513);
	offer_pieces(f, v, 3, 1, table);
	assert_true(front_wait(f->queues, &e, WAIT_MS));
	assert_int_equal(f->mem[at + 512], VIRTIO_BLK_S_OK);
	assert_int_equal(e.len, 513);
	assert_true(is_pattern(f->mem + at, 512, 0, seed));
}

static void request_may_be_cut_anywhere(void **state)
{
	struct front f;

	serve(state);
	begin(&f, 0);
	for (uint32_t cut = 1; cut < 528; cut++)
		write_cut_at(&f, cut, cut % 2);
	for (uint32_t cut = 1; cut < 513; cut++)
		read_cut_at(&f, cut, 527, cut % 2);
	front_end(&f);
	stop();
}

/* Round the page cache memory must be aligned; the guest's need not be. */
static void direct_request_may_be_cut_anywhere(void **state)
{
	static const uint32_t cuts[] = { 512, 100, 4095, 4096 };
	struct virtio_blk_outhdr head = { .type = VIRTIO_BLK_T_OUT };
	const struct iovec status = piece(HEADS + 64, 1);
	struct front f;
	int fd = test_file(state, "disk", DISK, 1);

	close(fd);
	fd = open(test_path(state, "disk"), O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0)
		skip_because("this file system has no O_DIRECT");
	close(fd);
	serve_file(state, ",direct");
	begin(&f, 0);
	for (uint32_t i = 0; i < 2 * N_OF(cuts); i++) {
		uint32_t cut = cuts[i / 2], len = i % 2 ? MIB : 8192;
		struct vring_used_elem e;
		uint8_t *p = f.mem + DATA + cut;

		memcpy(f.mem + HEADS, &head, sizeof(head));
		fill_pattern(p, len, 0, i);
		offer_pieces(&f, (struct iovec[]){
			piece(HEADS, 16), piece(DATA + cut, cut),
			piece(DATA + 2 * cut, len - cut), status }, 4, 3,
			i % 4 == 0);
		assert_true(front_wait(f.queues, &e, WAIT_MS));
		assert_int_equal(f.mem[HEADS + 64], VIRTIO_BLK_S_OK);
		memset(p, 0, len);
		assert_int_equal(ask(&f, VIRTIO_BLK_T_IN, 0, DATA + cut, len),
				 0);
		assert_true(is_pattern(p, len, 0, i));
	}
	front_end(&f);
	stop();
}

static void trims_and_zeroes_read_as_zeroes(void **state)
{
	static const uint32_t types[] = { VIRTIO_BLK_T_DISCARD,
					  VIRTIO_BLK_T_WRITE_ZEROES };
	struct virtio_blk_discard_write_zeroes d = { .sector = 8,
						     .num_sectors = 16 };
	struct front f;

	serve(state);
	begin(&f, 0);
	for (size_t i = 0; i < 2; i++) {
		uint8_t *p = f.mem + DATA;

		memset(p, 0x77, 16384);
		assert_int_equal(ask(&f, VIRTIO_BLK_T_OUT, 0, DATA, 16384), 0);
		memcpy(p, &d, sizeof(d));
		assert_int_equal(ask(&f, types[i], 0, DATA, sizeof(d)), 0);
		assert_int_equal(ask(&f, VIRTIO_BLK_T_IN, 0, DATA, 16384), 0);
		for (uint32_t k = 0; k < 16384; k++)
			assert_int_equal(p[k], k >= 4096 && k < 12288 ? 0 :
									0x77);
	}
	front_end(&f);
	stop();
}

static void disk_says_what_it_is(void **state)
{
	struct message m = front_message(VHOST_USER_GET_CONFIG);
	struct virtio_blk_config config;
	struct front f;

	serve(state);
	begin(&f, 0);
	m.u.config.size = sizeof(config);
	assert_true(front_send(&f, &m, 12 + sizeof(config), NULL, 0));
	assert_true(front_receive(f.fd, &m, NULL));
	memcpy(&config, m.u.config.at, sizeof(config));
	assert_int_equal(config.capacity, DISK / 512);
	assert_int_equal(config.blk_size, 512);
	assert_int_equal(config.seg_max, SEG_MAX);
	assert_int_equal(config.num_queues, QUEUES_MAX);
	assert_int_equal(config.wce, 1);
	assert_int_equal(front_ask(&f, VHOST_USER_GET_QUEUE_NUM), QUEUES_MAX);
	assert_int_equal(ask(&f, VIRTIO_BLK_T_GET_ID, 0, DATA, 20), 0);
	assert_string_equal((char *)f.mem + DATA, "number one");
	front_end(&f);
	stop();
}

/* Set the byte at @offset; returns what the server says. */
static int set_config(struct front *f, uint32_t offset, uint8_t value)
{
	struct message m = front_message(VHOST_USER_SET_CONFIG);

	m.u.config.offset = offset;
	m.u.config.size = 1;
	m.u.config.at[0] = value;
	return front_tell(f, &m, 13, NULL, 0);
}

static int write_cache(struct front *f)
{
	struct message m = front_message(VHOST_USER_GET_CONFIG);

	m.u.config.offset = offsetof(struct virtio_blk_config, wce);
	m.u.config.size = 1;
	assert_true(front_send(f, &m, 13, NULL, 0));
	assert_true(front_receive(f->fd, &m, NULL));
	return m.u.config.at[0];
}

static void write_cache_may_be_switched_off(void **state)
{
	struct front f;

	serve(state);
	begin(&f, 0);
	assert_int_equal(write_cache(&f), 1);
	assert_int_equal(set_config(&f, 0, 9), 1);
	assert_int_equal(set_config(&f, offsetof(struct virtio_blk_config, wce),
				    0), 0);
	assert_int_equal(write_cache(&f), 0);
	fill_pattern(f.mem + DATA, 65536, 0, 3);
	assert_int_equal(ask(&f, VIRTIO_BLK_T_OUT, 8, DATA, 65536), 0);
	memset(f.mem + DATA, 0, 65536);
	assert_int_equal(ask(&f, VIRTIO_BLK_T_IN, 8, DATA, 65536), 0);
	assert_true(is_pattern(f.mem + DATA, 65536, 0, 3));
	front_end(&f);
	stop();
}

/* The first flush fails, and by that a write is known that has one. */
static void write_without_a_cache_is_flushed(void **state)
{
	static const char export[] =
		"plugin=tests/programs/.libs/nbd-plugin.so,args=unsafe";
	struct front f;

	if (access("tests/programs/.libs/nbd-plugin.so", R_OK))
		skip_because("built without shared objects");
	for (int i = 0; i < 2; i++) {
		spawn(state, (const char *const[]){ export, NULL });
		begin(&f, 0);
		assert_int_equal(ask(&f, VIRTIO_BLK_T_OUT, 8, DATA, 512), 0);
		if (i == 0) {
			uint32_t at = offsetof(struct virtio_blk_config, wce);

			assert_int_equal(set_config(&f, at, 0), 0);
		} else {
			/* A guest that cannot flush has none. */
			front_end(&f);
			begin(&f, BIT(VIRTIO_BLK_F_FLUSH) |
				  BIT(VIRTIO_BLK_F_CONFIG_WCE));
		}
		assert_int_equal(ask(&f, VIRTIO_BLK_T_OUT, 8, DATA, 512),
				 VIRTIO_BLK_S_IOERR);
		front_end(&f);
		kill(vhost_pid, SIGTERM);
		assert_int_equal(ended(), EXIT_FAILED);
	}
}

static void read_only_disk_is_not_written(void **state)
{
	struct front f;

	close(test_file(state, "disk", DISK, 1));
	serve_file(state, ",ro");
	begin(&f, 0);
	assert_true(f.offered & BIT(VIRTIO_BLK_F_RO));
	memset(f.mem + DATA, 0x77, 512);
	assert_int_equal(ask(&f, VIRTIO_BLK_T_OUT, 0, DATA, 512),
			 VIRTIO_BLK_S_IOERR);
	assert_int_equal(ask(&f, VIRTIO_BLK_T_IN, 0, DATA, 512), 0);
	assert_true(is_pattern(f.mem + DATA, 512, 0, 1));
	front_end(&f);
	stop();
}

/* Requests whose rings are as they should be, and that are wrong. */
static void mistake_of_a_request_is_its_status(void **state)
{
	static const struct {
		uint32_t type;
		uint64_t sector;
		uint32_t len;
		int status;
	} wrong[] = {
		{ VIRTIO_BLK_T_IN, DISK / 512, 512, VIRTIO_BLK_S_IOERR },
		{ VIRTIO_BLK_T_IN, DISK / 512 - 1, 1024, VIRTIO_BLK_S_IOERR },
		{ VIRTIO_BLK_T_IN, UINT64_MAX, 512, VIRTIO_BLK_S_IOERR },
		{ VIRTIO_BLK_T_IN, UINT64_MAX / 512, 512, VIRTIO_BLK_S_IOERR },
		{ VIRTIO_BLK_T_IN, 0, 511, VIRTIO_BLK_S_IOERR },
		{ VIRTIO_BLK_T_IN, 0, 0, VIRTIO_BLK_S_IOERR },
		{ VIRTIO_BLK_T_OUT, DISK / 512, 512, VIRTIO_BLK_S_IOERR },
		{ VIRTIO_BLK_T_OUT, 0, 513, VIRTIO_BLK_S_IOERR },
		{ VIRTIO_BLK_T_DISCARD, 0, 15, VIRTIO_BLK_S_IOERR },
		{ VIRTIO_BLK_T_DISCARD, 0, 32, VIRTIO_BLK_S_IOERR },
		{ 77, 0, 512, VIRTIO_BLK_S_UNSUPP },
	};
	static const struct virtio_blk_discard_write_zeroes ranges[] = {
		{ DISK / 512, 1, 0 }, { 0, ZEROES_MAX + 1, 0 },
		{ UINT64_MAX, 1, 0 }, { 0, 0, 0 }, { 0, 1, 2 },
	};
	struct front f;

	serve(state);
	begin(&f, 0);
	for (size_t i = 0; i < N_OF(wrong); i++)
		assert_int_equal(ask(&f, wrong[i].type, wrong[i].sector, DATA,
				     wrong[i].len), wrong[i].status);
	for (size_t i = 0; i < N_OF(ranges); i++) {
		memcpy(f.mem + DATA, &ranges[i], 16);
		assert_int_not_equal(ask(&f, VIRTIO_BLK_T_WRITE_ZEROES, 0, DATA,
					 16), VIRTIO_BLK_S_OK);
	}
	assert_int_equal(ask(&f, VIRTIO_BLK_T_IN, 0, DATA, 512), 0);
	assert_true(is_pattern(f.mem + DATA, 512, 0, 1));
	front_end(&f);
	stop();
}

/* Rings that make no sense; each is made by one of these. */

static void head_behind_the_end(struct front *f, struct front_queue *q)
{
	(void)f;
	front_offer(q, NUM);
}

static void next_behind_the_end(struct front *f, struct front_queue *q)
{
	(void)f;
	front_desc(q, 0, front_gpa(HEADS), 16, VRING_DESC_F_NEXT, NUM);
	front_offer(q, 0);
}

static void endless_chain(struct front *f, struct front_queue *q)
{
	(void)f;
	front_desc(q, 0, front_gpa(HEADS), 1, VRING_DESC_F_NEXT, 1);
	front_desc(q, 1, front_gpa(HEADS), 1, VRING_DESC_F_NEXT, 0);
	front_offer(q, 0);
}

static void nowhere(struct front *f, struct front_queue *q)
{
	front_desc(q, 0, front_gpa(f->size), 16, 0, 0);
	front_offer(q, 0);
}

static void half_behind_the_end(struct front *f, struct front_queue *q)
{
	front_desc(q, 0, front_gpa(f->size - 8), 16, 0, 0);
	front_offer(q, 0);
}

static void before_the_beginning(struct front *f, struct front_queue *q)
{
	(void)f;
	front_desc(q, 0, front_gpa(0) - 1, 16, 0, 0);
	front_offer(q, 0);
}

static void around_the_end(struct front *f, struct front_queue *q)
{
	(void)f;
	front_desc(q, 0, UINT64_MAX - 7, 16, 0, 0);
	front_offer(q, 0);
}

static void too_many(struct front *f, struct front_queue *q)
{
	(void)f;
	q->avail_idx = (uint16_t)(q->avail_idx + NUM + 1);
}

static void read_behind_write(struct front *f, struct front_queue *q)
{
	(void)f;
	front_desc(q, 0, front_gpa(HEADS), 16,
		   VRING_DESC_F_WRITE | VRING_DESC_F_NEXT, 1);
	front_desc(q, 1, front_gpa(HEADS), 16, 0, 0);
	front_offer(q, 0);
}

/* A table of two, of which the first is as it should be. */
static void table(struct front *f, struct front_queue *q, uint32_t len,
		  unsigned int flags, unsigned int flags_0, uint32_t next,
		  unsigned int flags_1)
{
	struct front_queue t = *q;

	t.desc = (void *)(f->mem + DATA);
	front_desc(&t, 0, front_gpa(HEADS), 16, flags_0, next);
	front_desc(&t, 1, front_gpa(HEADS), 16, flags_1, 0);
	front_desc(q, 0, front_gpa(DATA), len, flags | VRING_DESC_F_INDIRECT,
		   1);
	front_offer(q, 0);
}

static void empty_table(struct front *f, struct front_queue *q)
{
	table(f, q, 0, 0, 0, 0, 0);
}

static void odd_table(struct front *f, struct front_queue *q)
{
	table(f, q, 24, 0, 0, 0, 0);
}

static void long_table(struct front *f, struct front_queue *q)
{
	table(f, q, 16 * (DESCS_MAX + 1), 0, 0, 0, 0);
}

static void huge_table(struct front *f, struct front_queue *q)
{
	table(f, q, UINT32_MAX & ~15u, 0, 0, 0, 0);
}

static void table_with_a_next(struct front *f, struct front_queue *q)
{
	table(f, q, 32, VRING_DESC_F_NEXT, 0, 0, 0);
}

static void table_in_a_table(struct front *f, struct front_queue *q)
{
	table(f, q, 32, 0, VRING_DESC_F_NEXT, 1, VRING_DESC_F_INDIRECT);
}

static void endless_table(struct front *f, struct front_queue *q)
{
	table(f, q, 32, 0, VRING_DESC_F_NEXT, 1, VRING_DESC_F_NEXT);
}

static void next_behind_the_table(struct front *f, struct front_queue *q)
{
	table(f, q, 32, 0, VRING_DESC_F_NEXT, 2, 0);
}

static void table_nowhere(struct front *f, struct front_queue *q)
{
	front_desc(q, 0, front_gpa(f->size - 16), 32, VRING_DESC_F_INDIRECT,
		   0);
	front_offer(q, 0);
}

static void table_behind_others(struct front *f, struct front_queue *q)
{
	(void)f;
	front_desc(q, 0, front_gpa(HEADS), 16, VRING_DESC_F_NEXT, 1);
	front_desc(q, 1, front_gpa(DATA), 16, VRING_DESC_F_INDIRECT, 0);
	front_offer(q, 0);
}

static void (*const senseless[])(struct front *f, struct front_queue *q) = {
	head_behind_the_end, next_behind_the_end, endless_chain, nowhere,
	half_behind_the_end, before_the_beginning, around_the_end, too_many,
	read_behind_write, empty_table, odd_table, long_table, huge_table,
	table_with_a_next, table_in_a_table, endless_table,
	next_behind_the_table, table_nowhere, table_behind_others,
};

static void await_break(const struct front_queue *q)
{
	struct pollfd p = { .fd = q->err, .events = POLLIN };
	uint64_t n;

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_int_equal(read(q->err, &n, sizeof(n)), sizeof(n));
}

/* The other queue goes on, and so does this one when it was started anew. */
static void senseless_ring_is_not_served(void **state)
{
	struct vring_used_elem e;
	struct front f;

	serve(state);
	begin(&f, 0);
	for (size_t i = 0; i < N_OF(senseless); i++) {
		struct front_queue *q = &f.queues[1];

		front_place(&f, q, NUM, true);
		assert_int_equal(front_start(&f, q), 0);
		senseless[i](&f, q);
		front_kick(&f, q);
		await_break(q);
		assert_int_equal(ask(&f, VIRTIO_BLK_T_IN, 0, DATA, 512), 0);
		assert_false(front_take(q, &e));
		front_stop(&f, q);
	}
	front_end(&f);
	stop();
}

static void table_that_was_not_negotiated_is_senseless(void **state)
{
	struct front f;

	serve(state);
	begin(&f, BIT(VIRTIO_RING_F_INDIRECT_DESC));
	table(&f, f.queues, 32, 0, 0, 0, 0);
	front_kick(&f, f.queues);
	await_break(f.queues);
	front_end(&f);
	stop();
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Descriptors as they come, of which many are nearly right.  What they have
 * written is behind everything that the others need. */
static void random_descs(struct front *f, struct vring_desc *d, uint32_t n,
			 uint64_t *state)
{
	static const uint32_t lens[] = { 0, 1, 15, 16, 17, 512, 513, 4096,
					 48, 65536, 1u << 31, UINT32_MAX };
	uint64_t range = f->size - DATA;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t r = next_random(state);

		d[i].addr = front_gpa(DATA + r % range);
		if (r >> 40 & 1)
			d[i].addr &= ~15ull;
		if (!(r >> 41 & 63))
			d[i].addr = next_random(state);
		d[i].len = lens[(r >> 48) % N_OF(lens)];
		d[i].flags = r >> 52 & 7;
		if (r >> 55 & 3)
			d[i].flags &= (uint16_t)~VRING_DESC_F_INDIRECT;
		d[i].next = (uint16_t)(next_random(state) % (n + n / 64 + 1));
	}
}

/* Whatever a ring has in it, the server answers what is in the other one. */
static void random_ring_harms_no_other(void **state)
{
	unsigned int rounds = want_long() ? 20000 : 400;
	uint64_t seed = 88172645463325252;
	struct front f;

	serve(state);
	begin(&f, 0);
	for (unsigned int i = 0; i < rounds; i++) {
		struct front_queue *q = &f.queues[1];
		uint32_t *words = (uint32_t *)(void *)(f.mem + DATA);
		uint64_t r = next_random(&seed);

		front_place(&f, q, NUM, true);
		for (uint32_t k = 0; k < (f.size - DATA) / 4; k += 1 + i % 7)
			words[k] = next_random(&seed) & 15;
		random_descs(&f, q->desc, NUM, &seed);
		random_descs(&f, (void *)(f.mem + DATA), 4096, &seed);
		assert_int_equal(front_start(&f, q), 0);
		for (uint32_t k = r % NUM; k < NUM; k++)
			front_offer(q, (uint32_t)next_random(&seed) %
				       (NUM + !(r >> 20 & 15)));
		front_kick(&f, q);
		assert_int_equal(ask(&f, VIRTIO_BLK_T_GET_ID, 0, HEADS + 65536,
				     20), 0);
		front_stop(&f, q);
	}
	front_end(&f);
	stop();
}

/* No place for a status, or no header: answered, and nothing is done. */
static void request_without_its_parts_is_answered(void **state)
{
	struct virtio_blk_outhdr head = { .type = VIRTIO_BLK_T_OUT };
	struct vring_used_elem e;
	struct front f;

	serve(state);
	begin(&f, 0);
	memcpy(f.mem + DATA, &head, sizeof(head));
	memset(f.mem + DATA + 16, 0x77, 512);
	offer_pieces(&f, (struct iovec[]){ piece(DATA, 528) }, 1, 1, false);
	assert_true(front_wait(f.queues, &e, WAIT_MS));
	assert_int_equal(e.len, 0);
	offer_pieces(&f, (struct iovec[]){ piece(DATA, 15), piece(HEADS, 1) },
		     2, 1, false);
	assert_true(front_wait(f.queues, &e, WAIT_MS));
	assert_int_equal(f.mem[HEADS], VIRTIO_BLK_S_IOERR);
	assert_int_equal(ask(&f, VIRTIO_BLK_T_IN, 0, DATA, 512), 0);
	assert_true(is_pattern(f.mem + DATA, 512, 0, 1));
	front_end(&f);
	stop();
}

/* Messages that make no sense; each is refused, and leaves what there was. */

static int unknown_message(struct front *f)
{
	return front_tell_u64(f, 33, 0);
}

static int ring_of_an_odd_size(struct front *f)
{
	return front_tell_state(f, VHOST_USER_SET_VRING_NUM, 1, 100);
}

static int ring_that_is_too_long(struct front *f)
{
	return front_tell_state(f, VHOST_USER_SET_VRING_NUM, 1, 2 * RING_MAX);
}

static int queue_that_there_is_not(struct front *f)
{
	return front_tell_state(f, VHOST_USER_SET_VRING_NUM, QUEUES_MAX, 128);
}

static int feature_that_was_not_offered(struct front *f)
{
	return front_tell_u64(f, VHOST_USER_SET_FEATURES, BIT(63));
}

static int kick_without_a_size(struct front *f)
{
	return front_tell_fd(f, VHOST_USER_SET_VRING_KICK, 3,
			     f->queues[3].kick);
}

static int kick_that_is_a_file(struct front *f)
{
	return front_tell_fd(f, VHOST_USER_SET_VRING_CALL, 0, f->memfd);
}

static int call_that_cannot_be_waited_for(struct front *f)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int res = front_tell_fd(f, VHOST_USER_SET_VRING_CALL, 0, fd);

	close(fd);
	return res;
}

static int kick_without_a_descriptor(struct front *f)
{
	return front_tell_u64(f, VHOST_USER_SET_VRING_KICK, 0);
}

static int message_that_is_too_short(struct front *f)
{
	struct message m = front_message(VHOST_USER_SET_VRING_ADDR);

	return front_tell(f, &m, 8, NULL, 0);
}

static int ring_that_is_started(struct front *f)
{
	return front_tell_state(f, VHOST_USER_SET_VRING_NUM, 0, 128);
}

static int ring_that_is_nowhere(struct front *f)
{
	struct front_queue q = f->queues[1];

	q.num = NUM;
	q.desc = (void *)(f->mem + 4 * f->size);
	q.avail = (void *)q.desc;
	q.used = (void *)(f->mem + FRONT_RING_BYTES);
	return front_start(f, &q);
}

static int ring_that_is_not_aligned(struct front *f)
{
	struct front_queue q = f->queues[1];

	q.num = NUM;
	q.desc = (void *)(f->mem + FRONT_RING_BYTES + 8);
	q.avail = (void *)q.desc;
	q.used = (void *)q.desc;
	return front_start(f, &q);
}

static int config_that_there_is_not(struct front *f)
{
	struct message m = front_message(VHOST_USER_SET_CONFIG);

	m.u.config.offset = 250;
	m.u.config.size = 8;
	return front_tell(f, &m, 20, NULL, 0);
}

static int inflight_of_another_size(struct front *f)
{
	f->inflight_fd = fcntl(f->memfd, F_DUPFD_CLOEXEC, 0);
	f->inflight_size = 64;
	return front_set_inflight(f, 4, 1024);
}

static int (*const nonsense[])(struct front *f) = {
	unknown_message, ring_of_an_odd_size, ring_that_is_too_long,
	queue_that_there_is_not, feature_that_was_not_offered,
	kick_without_a_size, kick_that_is_a_file,
	call_that_cannot_be_waited_for, kick_without_a_descriptor,
	message_that_is_too_short, ring_that_is_started, ring_that_is_nowhere,
	ring_that_is_not_aligned, config_that_there_is_not,
	inflight_of_another_size,
};

static void senseless_message_is_refused(void **state)
{
	serve(state);
	for (size_t i = 0; i < N_OF(nonsense); i++) {
		struct front f;

		begin(&f, 0);
		if (nonsense[i](&f) != 1)
			fail_msg("message %zu is taken", i);
		assert_int_equal(ask(&f, VIRTIO_BLK_T_IN, 0, DATA, 512), 0);
		assert_true(is_pattern(f.mem + DATA, 512, 0, 1));
		front_end(&f);
	}
	stop();
}

/* A table of memory with one region that is wrong. */
static int tell_region(struct front *f, uint64_t gpa, uint64_t size,
		       uint64_t uva, uint64_t offset)
{
	const int fds[2] = { f->memfd, f->memfd };
	struct message m;

	front_regions(f, &m);
	m.u.memory.of[1].gpa = gpa;
	m.u.memory.of[1].size = size;
	m.u.memory.of[1].uva = uva;
	m.u.memory.of[1].offset = offset;
	return front_tell(f, &m, 8 + 2 * sizeof(m.u.memory.of[0]), fds, 2);
}

static void memory_that_cannot_be_is_refused(void **state)
{
	struct front f;

	serve(state);
	begin(&f, 0);
	assert_int_equal(tell_region(&f, front_gpa(f.half - 4096), 8192,
				     1ull << 50, 0), 1);
	assert_int_equal(tell_region(&f, front_gpa(f.half), f.half + 4096,
				     1ull << 50, f.half), 1);
	assert_int_equal(tell_region(&f, front_gpa(f.half), 0, 1ull << 50, 0),
			 1);
	assert_int_equal(tell_region(&f, UINT64_MAX - 4095, 8192, 1ull << 50,
				     0), 1);
	assert_int_equal(tell_region(&f, front_gpa(f.half), 4096,
				     UINT64_MAX - 4094, 0), 1);
	assert_int_equal(tell_region(&f, front_gpa(f.half), 4096, 1ull << 50,
				     UINT64_MAX - 4095), 1);
	front_end(&f);
	stop();
}

/* The server has no pointer into it any more. */
static void ring_whose_memory_has_gone_is_not_served(void **state)
{
	struct message m = front_message(VHOST_USER_SET_MEM_TABLE);
	struct vring_used_elem e;
	struct front f;

	serve(state);
	begin(&f, 0);
	for (int i = 0; i < 2; i++) {
		/* None; and one that is refused. */
		if (i)
			assert_int_equal(tell_region(&f, front_gpa(0), 4096,
						     1ull << 50, 0), 1);
		else
			assert_int_equal(front_tell(&f, &m, 8, NULL, 0), 0);
		if (!i)
			await_break(f.queues);
		front_request(&f, f.queues, 0, VIRTIO_BLK_T_IN, 0, head_at(0),
			      DATA, 512);
		front_kick(&f, f.queues);
		front_stop(&f, f.queues);
		assert_false(front_take(f.queues, &e));
		assert_int_equal(front_set_memory(&f), 0);
		assert_int_equal(front_start(&f, f.queues), 0);
		assert_true(front_wait(f.queues, &e, WAIT_MS));
	}
	front_end(&f);
	stop();
}

static void memory_that_may_be_truncated_is_refused(void **state)
{
	struct front f;

	serve(state);
	front_memory(&f, MEMORY, true);
	connect_to_it(&f);
	(void)front_ask(&f, VHOST_USER_GET_FEATURES);
	f.protocol = BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK);
	{
		struct message m =
			front_message(VHOST_USER_SET_PROTOCOL_FEATURES);

		m.u.u64 = f.protocol;
		assert_true(front_send(&f, &m, 8, NULL, 0));
	}
	assert_int_equal(front_set_memory(&f), 1);
	front_end(&f);
	stop();
}

static bool is_gone(struct front *f)
{
	char c;

	return recv(f->fd, &c, 1, 0) <= 0;
}

static void peer_that_is_no_front_end_is_disconnected(void **state)
{
	struct message m = front_message(VHOST_USER_GET_FEATURES);
	int fds[16];
	struct front f;

	serve(state);
	front_memory(&f, MEMORY, false);
	connect_to_it(&f);
	m.head.size = PAYLOAD_MAX + 1;
	assert_int_equal(send(f.fd, &m, 12, 0), 12);
	assert_true(is_gone(&f));
	front_disconnect(&f);
	connect_to_it(&f);
	m.head.flags = 2;
	m.head.size = 0;
	assert_int_equal(send(f.fd, &m, 12, 0), 12);
	assert_true(is_gone(&f));
	front_disconnect(&f);
	connect_to_it(&f);
	for (size_t i = 0; i < N_OF(fds); i++)
		fds[i] = f.memfd;
	m = front_message(VHOST_USER_SET_OWNER);
	assert_true(front_send(&f, &m, 0, fds, N_OF(fds)));
	assert_true(is_gone(&f));
	front_disconnect(&f);
	/* And one that goes in the middle of a message. */
	connect_to_it(&f);
	assert_int_equal(send(f.fd, &m, 5, 0), 5);
	front_end(&f);
	begin(&f, 0);
	assert_int_equal(ask(&f, VIRTIO_BLK_T_IN, 0, DATA, 512), 0);
	front_end(&f);
	stop();
}

/* Writes of one sector each: slot i writes sector i. */
static void offer_writes(struct front *f, uint32_t from, uint32_t to,
			 unsigned int seed)
{
	for (uint32_t i = from; i < to; i++) {
		uint64_t data = DATA + 512 * i;

		fill_pattern(f->mem + data, 512, 0, seed + i);
		front_request(f, f->queues, i, VIRTIO_BLK_T_OUT, i, head_at(i),
			      data, 512);
	}
	front_kick(f, f->queues);
}

/* Take answers until each of @n slots has one, and none has two. */
static void take_each(struct front *f, uint32_t n)
{
	bool taken[SLOTS] = { false };
	struct vring_used_elem e;

	for (uint32_t i = 0; i < n; i++) {
		assert_true(front_wait(f->queues, &e, WAIT_MS));
		assert_int_equal(e.id % 3, 0);
		assert_true(e.id / 3 < SLOTS);
		assert_false(taken[e.id / 3]);
		taken[e.id / 3] = true;
		assert_int_equal(*status_at(f, e.id / 3), 0);
	}
	assert_false(front_take(f->queues, &e));
}

static void check_sectors(struct front *f, uint32_t n, unsigned int seed)
{
	assert_int_equal(ask(f, VIRTIO_BLK_T_IN, 0, DATA, n * 512), 0);
	for (uint32_t i = 0; i < n; i++)
		assert_true(is_pattern(f->mem + DATA + 512 * i, 512, 0,
				       seed + i));
}

/* The same machine with another server. */
static void reconnect(struct front *f)
{
	front_disconnect(f);
	connect_to_it(f);
	front_hello(f, 0);
	assert_int_equal(front_set_inflight(f, 1, NUM), 0);
	assert_int_equal(front_start(f, f->queues), 0);
}

static void begin_with_inflight(struct front *f)
{
	front_memory(f, MEMORY, false);
	connect_to_it(f);
	front_hello(f, 0);
	front_get_inflight(f, 1, NUM);
	front_place(f, f->queues, NUM, true);
	assert_int_equal(front_start(f, f->queues), 0);
}

static void kill_it(void)
{
	kill(vhost_pid, SIGKILL);
	assert_int_equal(ended(), 128 + SIGKILL);
}

static struct inflight *map_inflight(const struct front *f)
{
	void *p = mmap(NULL, f->inflight_size, PROT_READ | PROT_WRITE,
		       MAP_SHARED, f->inflight_fd, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

static unsigned int n_inflight(const struct inflight *fl)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < NUM; i++)
		n += fl->desc[i].inflight;
	return n;
}

/* It is killed at any moment, at some while requests are in flight. */
static void request_outlives_a_killed_server(void **state)
{
	unsigned int rounds = want_long() ? 1000 : 15, left = 0;
	struct inflight *fl;
	struct front f;

	serve(state);
	begin_with_inflight(&f);
	fl = map_inflight(&f);
	for (unsigned int i = 0; i < rounds || !left; i++) {
		struct vring_used_elem e;
		uint32_t before = i % SLOTS, taken = 0;
		bool had[SLOTS] = { false };

		offer_writes(&f, 0, SLOTS, i);
		while (taken < before && front_wait(f.queues, &e, WAIT_MS)) {
			assert_false(had[e.id / 3]);
			had[e.id / 3] = true;
			taken++;
		}
		kill_it();
		left += n_inflight(fl);
		serve_file(state, "");
		reconnect(&f);
		for (; taken < SLOTS; taken++) {
			assert_true(front_wait(f.queues, &e, WAIT_MS));
			assert_false(had[e.id / 3]);
			had[e.id / 3] = true;
			assert_int_equal(*status_at(&f, e.id / 3), 0);
		}
		assert_false(front_take(f.queues, &e));
		check_sectors(&f, SLOTS, i);
	}
	munmap(fl, f.inflight_size);
	front_end(&f);
	stop();
}

/*
 * Two requests, as a server leaves them that is killed at each step of their
 * answer.  Before the index of the used ring has changed, they are done again;
 * after it, whatever else is not written yet, they are not.
 */
static void answer_is_given_once_whenever_it_is_killed(void **state)
{
	enum { FETCHED, LISTED, SHOWN, ONE_CLEARED, CLEARED, STEPS };

	serve(state);
	for (int step = FETCHED; step < STEPS; step++) {
		struct inflight *fl;
		struct vring_used_elem e;
		struct front f;

		begin_with_inflight(&f);
		offer_writes(&f, 0, 4, 50);
		take_each(&f, 4);
		front_stop(&f, f.queues);
		fl = map_inflight(&f);
		assert_int_equal(fl->used_idx, 4);
		/* As if it had fetched two more. */
		front_disconnect(&f);
		offer_writes(&f, 4, 6, 50);
		for (uint16_t i = 4; i < 6; i++) {
			fl->desc[3 * i].inflight = 1;
			fl->desc[3 * i].counter = 100u + i;
			if (step < LISTED)
				continue;
			f.queues->used->ring[i].id = 3u * i;
			f.queues->used->ring[i].len = 1;
			fl->desc[3 * i].next = fl->last_batch_head;
			fl->last_batch_head = (uint16_t)(3 * i);
		}
		if (step >= SHOWN)
			f.queues->used->idx = 6;
		if (step >= ONE_CLEARED)
			fl->desc[12].inflight = 0;
		if (step >= CLEARED)
			fl->desc[15].inflight = 0;
		/* And there is one that it has not seen. */
		offer_writes(&f, 6, 7, 50);
		reconnect(&f);
		for (uint32_t i = 4; i < 7; i++) {
			assert_true(front_wait(f.queues, &e, WAIT_MS));
			assert_int_equal(e.id, 3 * i);
		}
		assert_int_equal(ask(&f, VIRTIO_BLK_T_FLUSH, 0, 0, 0), 0);
		assert_false(front_take(f.queues, &e));
		for (uint32_t i = 0; i < NUM; i++)
			assert_int_equal(fl->desc[i].inflight, 0);
		assert_int_equal(fl->used_idx, 8);
		munmap(fl, f.inflight_size);
		front_end(&f);
	}
	stop();
}

static void inflight_that_makes_no_sense_is_refused(void **state)
{
	serve(state);
	for (int i = 0; i < 4; i++) {
		struct inflight *fl;
		struct front f;

		begin_with_inflight(&f);
		offer_writes(&f, 0, 2, 50);
		take_each(&f, 2);
		front_stop(&f, f.queues);
		fl = map_inflight(&f);
		front_disconnect(&f);
		fl->desc[3].inflight = 1;
		if (i == 0)
			fl->desc_num = NUM / 2;
		if (i == 1)
			fl->used_idx = 5000;
		if (i == 2) {
			fl->used_idx = 0;
			fl->last_batch_head = NUM;
		}
		connect_to_it(&f);
		front_hello(&f, 0);
		/* The last one is of shorter rings than it says. */
		assert_int_equal(front_set_inflight(&f, 1, i == 3 ? NUM / 2 :
								    NUM), 0);
		assert_int_equal(front_start(&f, f.queues), 1);
		munmap(fl, f.inflight_size);
		front_end(&f);
	}
	stop();
}

/* The machine goes on where it was. */
static void orderly_stop_loses_nothing(void **state)
{
	struct vring_used_elem e;
	struct front f;

	serve(state);
	begin_with_inflight(&f);
	offer_writes(&f, 0, SLOTS, 7);
	stop();
	serve_file(state, "");
	reconnect(&f);
	take_each(&f, SLOTS);
	check_sectors(&f, SLOTS, 7);
	assert_false(front_take(f.queues, &e));
	front_end(&f);
	stop();
}

static void stopped_ring_has_no_request_in_flight(void **state)
{
	struct front f;
	uint32_t base;

	serve(state);
	begin(&f, 0);
	offer_writes(&f, 0, SLOTS, 7);
	base = front_stop(&f, f.queues);
	assert_int_equal(base, f.queues->used->idx);
	/* What was not begun is when it is started again. */
	assert_int_equal(front_start(&f, f.queues), 0);
	take_each(&f, SLOTS);
	check_sectors(&f, SLOTS, 7);
	front_end(&f);
	stop();
}

static void memory_may_change_while_requests_are_in_flight(void **state)
{
	struct front f;

	serve(state);
	begin(&f, 0);
	for (unsigned int i = 0; i < 20; i++) {
		offer_writes(&f, 0, SLOTS, i);
		assert_int_equal(front_set_memory(&f), 0);
		take_each(&f, SLOTS);
		check_sectors(&f, SLOTS, i);
	}
	front_end(&f);
	stop();
}

static void queues_are_served_side_by_side(void **state)
{
	struct front f;

	serve(state);
	begin(&f, 0);
	for (uint32_t i = 1; i < FRONT_QUEUES; i++) {
		front_place(&f, &f.queues[i], 128, true);
		assert_int_equal(front_start(&f, &f.queues[i]), 0);
	}
	for (uint32_t i = 0; i < FRONT_QUEUES; i++) {
		struct front_queue *q = &f.queues[i];

		front_request(&f, q, 0, VIRTIO_BLK_T_IN, i, head_at(i),
			      DATA + 512 * i, 512);
		front_kick(&f, q);
	}
	for (uint32_t i = 0; i < FRONT_QUEUES; i++) {
		struct vring_used_elem e;

		assert_true(front_wait(&f.queues[i], &e, WAIT_MS));
		assert_true(is_pattern(f.mem + DATA + 512 * i, 512, 512 * i,
				       1));
	}
	front_end(&f);
	stop();
}

/* A ring that is not enabled is left alone. */
static void disabled_queue_is_not_served(void **state)
{
	struct vring_used_elem e;
	struct front f;

	serve(state);
	begin(&f, 0);
	assert_int_equal(front_tell_state(&f, VHOST_USER_SET_VRING_ENABLE, 0,
					  0), 0);
	front_request(&f, f.queues, 0, VIRTIO_BLK_T_IN, 0, head_at(0), DATA,
		      512);
	front_kick(&f, f.queues);
	/* Acknowledged after the kick. */
	assert_int_equal(front_tell_state(&f, VHOST_USER_SET_VRING_NUM, 1, 128),
			 0);
	assert_false(front_take(f.queues, &e));
	assert_int_equal(front_tell_state(&f, VHOST_USER_SET_VRING_ENABLE, 0,
					  1), 0);
	assert_true(front_wait(f.queues, &e, WAIT_MS));
	front_end(&f);
	stop();
}

static void larger_file_is_a_larger_disk(void **state)
{
	struct message m = front_message(VHOST_USER_SET_BACKEND_REQ_FD);
	uint64_t capacity;
	struct front f;
	int fd[2];

	serve(state);
	begin(&f, 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
				    fd), 0);
	assert_int_equal(front_tell(&f, &m, 0, &fd[1], 1), 0);
	close(fd[1]);
	assert_int_equal(truncate(test_path(state, "disk"), 2 * DISK), 0);
	kill(vhost_pid, SIGHUP);
	assert_true(front_receive(fd[0], &m, NULL));
	assert_int_equal(m.head.request, VHOST_USER_BACKEND_CONFIG_CHANGE_MSG);
	m = front_message(VHOST_USER_GET_CONFIG);
	m.u.config.size = 8;
	assert_true(front_send(&f, &m, 20, NULL, 0));
	assert_true(front_receive(f.fd, &m, NULL));
	memcpy(&capacity, m.u.config.at, 8);
	assert_int_equal(capacity, 2 * DISK / 512);
	assert_int_equal(ask(&f, VIRTIO_BLK_T_IN, 2 * DISK / 512 - 1, DATA,
			     512), 0);
	close(fd[0]);
	front_end(&f);
	stop();
}

/* What the server writes is in the log, and nothing else is. */
static void pages_written_are_logged(void **state)
{
	struct message m = front_message(VHOST_USER_SET_LOG_BASE);
	uint64_t pages = (FRONT_GPA + MEMORY) / 4096, used;
	uint8_t *log;
	struct front f;
	int fd = memfd_create("log", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	serve(state);
	begin(&f, BIT(VHOST_F_LOG_ALL));
	assert_true(fd >= 0 && !ftruncate(fd, 4096) &&
		    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	log = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(log != MAP_FAILED);
	m.u.log.size = 4096;
	assert_true(front_send(&f, &m, 16, &fd, 1));
	assert_true(front_receive(f.fd, &m, NULL));
	assert_int_equal(ask(&f, VIRTIO_BLK_T_IN, 0, DATA, 4096), 0);
	for (uint32_t i = 0; i < 4096; i++)
		assert_int_equal(log[i], 0);
	assert_int_equal(front_tell_u64(&f, VHOST_USER_SET_FEATURES,
					f.features | BIT(VHOST_F_LOG_ALL)), 0);
	assert_int_equal(front_set_addr(&f, f.queues, VRING_F_LOG), 0);
	assert_int_equal(ask(&f, VIRTIO_BLK_T_IN, 0, DATA + 4096, 8192), 0);
	used = (uint64_t)((uint8_t *)f.queues->used - f.mem);
	for (uint64_t i = 0; i < pages; i++) {
		uint64_t off = i * 4096 - FRONT_GPA;
		bool set = log[i / 8] >> i % 8 & 1;
		bool meant = i * 4096 >= FRONT_GPA &&
			     (off == DATA + 4096 || off == DATA + 8192 ||
			      off == HEADS || off == used);

		assert_int_equal(set, meant);
	}
	munmap(log, 4096);
	close(fd);
	front_end(&f);
	stop();
}

/* How often it was scheduled, and the processor's time that it has had. */
static long activity(void)
{
	char path[64], line[1024], *p;
	long user = 0, system = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)vhost_pid);
	f = fopen(path, "re");
	assert_true(f && fgets(line, sizeof(line), f));
	fclose(f);
	/* Behind the name: the 3rd field, and then the 14th and 15th. */
	p = strrchr(line, ')');
	assert_true(p && sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u "
					"%*u %*u %ld %ld", &user, &system) == 2);
	return status_of(vhost_pid, "voluntary_ctxt_switches:") +
	       status_of(vhost_pid, "nonvoluntary_ctxt_switches:") + user +
	       system;
}

/* While nothing is asked for, it is not woken. */
static void idle_server_sleeps(void **state)
{
	long before;
	struct front f;

	serve(state);
	begin(&f, 0);
	assert_int_equal(ask(&f, VIRTIO_BLK_T_IN, 0, DATA, 512), 0);
	do {
		before = activity();
		poll(NULL, 0, 50);
	} while (activity() != before);
	front_end(&f);
	stop();
}

static void wrong_command_line_is_refused(void **state)
{
	static const char *const wrong[][3] = {
		{ NULL }, { "name=nonsense", NULL },
		{ "size=1M", "size=1M", NULL },
		{ "--queues=0", "size=1M", NULL },
		{ "--queues=65", "size=1M", NULL }, { "--none", "size=1M", NULL },
	};

	for (size_t i = 0; i < N_OF(wrong); i++) {
		spawn(state, wrong[i]);
		assert_int_equal(ended(), EXIT_USAGE);
	}
	spawn(state, (const char *const[]){ "path=/nowhere/at/all", NULL });
	assert_int_equal(ended(), EXIT_SETUP);
}

static const struct harness_case cases[] = {
	CASE(data_written_is_read_back),
	CASE(memory_is_a_disk_too),
	CASE(plugin_is_a_disk_too),
	CASE(request_may_be_cut_anywhere),
	CASE(direct_request_may_be_cut_anywhere),
	CASE(trims_and_zeroes_read_as_zeroes),
	CASE(disk_says_what_it_is),
	CASE(write_cache_may_be_switched_off),
	CASE(write_without_a_cache_is_flushed),
	CASE(read_only_disk_is_not_written),
	CASE(mistake_of_a_request_is_its_status),
	CASE(senseless_ring_is_not_served),
	CASE(table_that_was_not_negotiated_is_senseless),
	CASE(random_ring_harms_no_other),
	CASE(request_without_its_parts_is_answered),
	CASE(senseless_message_is_refused),
	CASE(memory_that_cannot_be_is_refused),
	CASE(ring_whose_memory_has_gone_is_not_served),
	CASE(memory_that_may_be_truncated_is_refused),
	CASE(peer_that_is_no_front_end_is_disconnected),
	CASE(request_outlives_a_killed_server),
	CASE(answer_is_given_once_whenever_it_is_killed),
	CASE(inflight_that_makes_no_sense_is_refused),
	CASE(orderly_stop_loses_nothing),
	CASE(stopped_ring_has_no_request_in_flight),
	CASE(memory_may_change_while_requests_are_in_flight),
	CASE(queues_are_served_side_by_side),
	CASE(disabled_queue_is_not_served),
	CASE(larger_file_is_a_larger_disk),
	CASE(pages_written_are_logged),
	CASE(idle_server_sleeps),
	CASE(wrong_command_line_is_refused),
};

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	return harness_run(cases, N_OF(cases));
}
