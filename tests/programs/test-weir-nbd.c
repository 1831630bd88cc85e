/* SPDX-License-Identifier: BSD-3-Clause */

/* weir-nbd's commands: each with its flags, over files and memory, with simple
 * and structured replies; and what is said to those that cannot be. */

#include "programs/block/backing.h"
#include "tests/support/nbd-fixture.h"

#define HOLE (NBD_STATE_HOLE | NBD_STATE_ZERO)

/* Each export that can be written, with each kind of replies. */
static const struct way { const char *name; bool structured; } ways[] = {
	{ "file", false }, { "file", true },
	{ "memory", false }, { "memory", true },
};

static bool is_zero(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i])
			return false;
	return true;
}

static void for_each_way(void **state, void (*fn)(const struct way *way,
						  int fd))
{
	nbd_start(state);
	for (size_t i = 0; i < N_OF(ways); i++) {
		int fd = nbd_open(ways[i].name, ways[i].structured);

		fn(&ways[i], fd);
		disconnect(fd);
	}
	nbd_stop();
}

/* Odd lengths and places, up to many pieces. */
static void read_back(const struct way *way, int fd)
{
	static const struct { uint64_t off; uint32_t len; } at[] = {
		{ 0, 1 }, { 1, 511 }, { 4095, 2 }, { 65536, 4096 },
		{ 65535, 65538 }, { 100, 256 << 10 }, { 7, (256 << 10) + 1 },
		{ 12345, 3 * MIB + 17 }, { 0, 8 * MIB },
		{ 8 * MIB - 1, 1 },
	};
	uint8_t *buf = malloc(8 * MIB);

	for (size_t i = 0; i < N_OF(at); i++) {
		unsigned int seed = 2 + (unsigned int)i;

		fill_pattern(buf, at[i].len, at[i].off, seed);
		assert_int_equal(do_write(fd, 0, at[i].off, at[i].len, buf),
				 0);
		memset(buf, 0x55, at[i].len);
		do_read(fd, way->structured, at[i].off, at[i].len, buf);
		assert_true(is_pattern(buf, at[i].len, at[i].off, seed));
	}
	free(buf);
}

static void written_data_is_read_back(void **state)
{
	for_each_way(state, read_back);
}

static void sync_all(const struct way *way, int fd)
{
	uint8_t buf[4096];

	(void)way;
	fill_pattern(buf, sizeof(buf), 0, 9);
	assert_int_equal(do_write(fd, NBD_CMD_FLAG_FUA, 0, 4096, buf), 0);
	assert_int_equal(do_command(fd, 0, NBD_CMD_FLUSH, 0, 0), 0);
	assert_int_equal(do_command(fd, NBD_CMD_FLAG_FUA, NBD_CMD_FLUSH, 0, 0),
			 0);
	assert_int_equal(do_command(fd, NBD_CMD_FLAG_FUA, NBD_CMD_TRIM, 4096,
				    4096), 0);
	assert_int_equal(do_command(fd, NBD_CMD_FLAG_FUA,
				    NBD_CMD_WRITE_ZEROES, 0, 4096), 0);
	assert_int_equal(do_command(fd, NBD_CMD_FLAG_FUA, NBD_CMD_CACHE, 0,
				    4096), 0);
}

static void flush_and_fua_are_accepted(void **state)
{
	for_each_way(state, sync_all);
}

/* Around [from, to), which is to be zeroes, all bytes stay. */
static void zero_one(const struct way *way, int fd, unsigned int type,
		     unsigned int flags, uint32_t from, uint32_t to)
{
	uint8_t *buf = malloc(1 * MIB);

	fill_pattern(buf, 1 * MIB, 0, 3);
	assert_int_equal(do_write(fd, 0, 0, 1 * MIB, buf), 0);
	assert_int_equal(do_command(fd, flags, type, from, to - from), 0);
	do_read(fd, way->structured, 0, 1 * MIB, buf);
	assert_true(is_pattern(buf, from, 0, 3));
	assert_true(is_zero(buf + from, to - from));
	assert_true(is_pattern(buf + to, 1 * MIB - to, to, 3));
	free(buf);
}

static void zero_all(const struct way *way, int fd)
{
	static const uint32_t at[][2] = {
		{ 0, 1 }, { 100, 200 }, { 65536, 131072 }, { 1, 300001 },
		{ 65535, 196609 }, { 0, 1 * MIB },
	};

	for (size_t i = 0; i < N_OF(at); i++) {
		zero_one(way, fd, NBD_CMD_WRITE_ZEROES, 0, at[i][0], at[i][1]);
		zero_one(way, fd, NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_NO_HOLE,
			 at[i][0], at[i][1]);
		/* It need not leave zeroes, but here it does. */
		if (!strcmp(way->name, "memory"))
			zero_one(way, fd, NBD_CMD_TRIM, 0, at[i][0], at[i][1]);
	}
	assert_int_equal(do_command(fd, NBD_CMD_FLAG_NO_HOLE,
				    NBD_CMD_WRITE_ZEROES, 0, 8 * MIB), 0);
	assert_int_equal(do_command(fd, 0, NBD_CMD_WRITE_ZEROES, 0, 8 * MIB),
			 0);
}

static void zeroes_are_what_they_were_asked_to_be(void **state)
{
	for_each_way(state, zero_all);
}

/* Those of one connection run one after the other, so they end in order. */
static void zero_together(const struct way *way, int fd)
{
	uint8_t *buf = malloc(1 * MIB);
	uint64_t off;

	fill_pattern(buf, 1 * MIB, 0, 3);
	assert_int_equal(do_write(fd, 0, 0, 1 * MIB, buf), 0);
	for (off = 0; off < 1 * MIB; off += 65536)
		ask(fd, off & 65536 ? NBD_CMD_FLAG_NO_HOLE : 0,
		    NBD_CMD_WRITE_ZEROES, off, 65536);
	for (off = 0; off < 1 * MIB; off += 65536)
		assert_int_equal(hear_error(fd, off + NBD_CMD_WRITE_ZEROES), 0);
	do_read(fd, way->structured, 0, 1 * MIB, buf);
	assert_true(is_zero(buf, 1 * MIB));
	free(buf);
}

static void zeroes_sent_together_end_in_their_order(void **state)
{
	for_each_way(state, zero_together);
}

/* It is quick, or it is not done at all. */
static void a_fast_zero_is_fast_or_nothing(void **state)
{
	uint8_t buf[4096];
	uint32_t error;
	int fd;

	nbd_start(state);
	fd = nbd_open("memory", true);
	fill_pattern(buf, 4096, 0, 4);
	assert_int_equal(do_write(fd, 0, 0, 4096, buf), 0);
	assert_int_equal(do_command(fd, NBD_CMD_FLAG_FAST_ZERO |
				    NBD_CMD_FLAG_NO_HOLE, NBD_CMD_WRITE_ZEROES,
				    0, 4096), NBD_ENOTSUP);
	do_read(fd, true, 0, 4096, buf);
	assert_true(is_pattern(buf, 4096, 0, 4));
	assert_int_equal(do_command(fd, NBD_CMD_FLAG_FAST_ZERO,
				    NBD_CMD_WRITE_ZEROES, 0, 4096), 0);
	do_read(fd, true, 0, 4096, buf);
	assert_true(is_zero(buf, 4096));
	disconnect(fd);
	fd = nbd_open("file", false);
	error = do_command(fd, NBD_CMD_FLAG_FAST_ZERO, NBD_CMD_WRITE_ZEROES, 0,
			   4096);
	assert_true(error == 0 || error == NBD_ENOTSUP);
	disconnect(fd);
	nbd_stop();
}

static void holes_of_memory_are_told(void **state)
{
	uint32_t e[16];
	uint8_t buf[4096] = { 1 };
	int fd;

	nbd_start(state);
	fd = nbd_open("memory", true);
	assert_int_equal(do_status(fd, 0, 0, MEMORY_SIZE, e, 8), 1);
	assert_int_equal(e[0], MEMORY_SIZE);
	assert_int_equal(e[1], HOLE);
	assert_int_equal(do_write(fd, 0, 1 * MIB, 4096, buf), 0);
	assert_int_equal(do_status(fd, 0, 0, 2 * MIB, e, 8), 3);
	assert_int_equal(e[0], 1 * MIB);
	assert_int_equal(e[1], HOLE);
	assert_int_equal(e[2], MEMORY_BLOCK);
	assert_int_equal(e[3], 0);
	assert_int_equal(e[4], 1 * MIB - MEMORY_BLOCK);
	assert_int_equal(e[5], HOLE);
	assert_int_equal(do_status(fd, NBD_CMD_FLAG_REQ_ONE, 1 * MIB + 100,
				   512, e, 8), 1);
	assert_int_equal(e[0], 512);
	assert_int_equal(e[1], 0);
	assert_int_equal(do_command(fd, 0, NBD_CMD_TRIM, 0, 2 * MIB), 0);
	assert_int_equal(do_status(fd, 0, 0, 2 * MIB, e, 8), 1);
	assert_int_equal(e[1], HOLE);
	disconnect(fd);
	nbd_stop();
}

/* Where the file system knows of holes; all the bytes are told in any case. */
static void extents_cover_the_file(void **state)
{
	uint32_t e[1022], sum = 0, n;
	int fd;

	nbd_start(state);
	fd = nbd_open("file", true);
	assert_int_equal(do_command(fd, 0, NBD_CMD_TRIM, 1 * MIB, 1 * MIB), 0);
	n = do_status(fd, 0, 512, 4 * MIB, e, 511);
	for (uint32_t i = 0; i < n; i++) {
		assert_true(e[2 * i] > 0);
		assert_true(e[2 * i + 1] == 0 || e[2 * i + 1] == HOLE);
		sum += e[2 * i];
	}
	assert_int_equal(sum, 4 * MIB);
	assert_int_equal(do_status(fd, NBD_CMD_FLAG_REQ_ONE, 0, 4 * MIB, e, 8),
			 1);
	assert_true(e[0] <= 4 * MIB);
	disconnect(fd);
	nbd_stop();
}

/* What is wrong with a request, and what is said.  Off and len: of the file. */
static const struct wrong {
	const char *name;
	bool structured;
	unsigned int flags, type;
	uint64_t off;
	uint32_t len, error;
} wrongs[] = {
	{ "file", false, 0, NBD_CMDS, 0, 0, NBD_EINVAL },
	{ "file", true, 0, 0xffff, 0, 512, NBD_EINVAL },
	{ "file", true, 0x8000, NBD_CMD_READ, 0, 512, NBD_EINVAL },
	{ "file", true, NBD_CMD_FLAG_NO_HOLE, NBD_CMD_READ, 0, 1, NBD_EINVAL },
	{ "file", true, NBD_CMD_FLAG_FAST_ZERO, NBD_CMD_TRIM, 0, 1,
	  NBD_EINVAL },
	{ "file", true, NBD_CMD_FLAG_REQ_ONE, NBD_CMD_WRITE, 0, 512,
	  NBD_EINVAL },
	{ "file", true, NBD_CMD_FLAG_DF, NBD_CMD_BLOCK_STATUS, 0, 512,
	  NBD_EINVAL },
	{ "file", false, NBD_CMD_FLAG_DF, NBD_CMD_READ, 0, 512, NBD_EINVAL },
	{ "file", false, 0, NBD_CMD_BLOCK_STATUS, 0, 512, NBD_EINVAL },
	{ "file", false, 0, NBD_CMD_READ, 0, 0, NBD_EINVAL },
	{ "file", true, 0, NBD_CMD_WRITE, 0, 0, NBD_EINVAL },
	{ "file", true, 0, NBD_CMD_TRIM, 0, 0, NBD_EINVAL },
	{ "file", true, 0, NBD_CMD_BLOCK_STATUS, 0, 0, NBD_EINVAL },
	{ "file", true, 0, NBD_CMD_FLUSH, 0, 1, NBD_EINVAL },
	{ "file", true, 0, NBD_CMD_FLUSH, 1, 0, NBD_EINVAL },
	{ "file", true, 0, NBD_CMD_READ, FILE_SIZE, 1, NBD_EINVAL },
	{ "file", true, 0, NBD_CMD_READ, FILE_SIZE - 1, 2, NBD_EINVAL },
	{ "file", true, 0, NBD_CMD_READ, UINT64_MAX, 2, NBD_EINVAL },
	{ "file", true, 0, NBD_CMD_TRIM, FILE_SIZE, 1, NBD_EINVAL },
	{ "file", true, 0, NBD_CMD_CACHE, FILE_SIZE, 1, NBD_EINVAL },
	{ "file", true, 0, NBD_CMD_BLOCK_STATUS, FILE_SIZE, 1, NBD_EINVAL },
	{ "file", true, 0, NBD_CMD_WRITE, FILE_SIZE, 1, NBD_ENOSPC },
	{ "file", false, 0, NBD_CMD_WRITE, FILE_SIZE - 1, 512, NBD_ENOSPC },
	{ "file", true, 0, NBD_CMD_WRITE_ZEROES, FILE_SIZE, 1, NBD_ENOSPC },
	{ "file", true, 0, NBD_CMD_WRITE_ZEROES, 1, UINT32_MAX, NBD_ENOSPC },
	{ "file", true, NBD_CMD_FLAG_DF, NBD_CMD_READ, 0, PIECE + 1,
	  NBD_EOVERFLOW },
	{ "ro", true, 0, NBD_CMD_WRITE, 0, 512, NBD_EPERM },
	{ "ro", false, 0, NBD_CMD_WRITE, FILE_SIZE, 512, NBD_EPERM },
	{ "ro", true, 0, NBD_CMD_TRIM, 0, 512, NBD_EPERM },
	{ "ro", true, 0, NBD_CMD_WRITE_ZEROES, 0, 512, NBD_EPERM },
	{ "memory", true, 0, NBD_CMD_WRITE, MEMORY_SIZE, 1, NBD_ENOSPC },
	{ "memory", true, 0, NBD_CMD_READ, MEMORY_SIZE - 1, 2, NBD_EINVAL },
};

static void mistakes_have_their_errors_and_nothing_else(void **state)
{
	uint8_t buf[512] = { 0 };

	nbd_start(state);
	for (size_t i = 0; i < N_OF(wrongs); i++) {
		const struct wrong *w = &wrongs[i];
		int fd = nbd_open(w->name, w->structured);

		ask(fd, w->flags, w->type, w->off, w->len);
		if (w->type == NBD_CMD_WRITE)
			tell(fd, buf, w->len);
		assert_int_equal(hear_error(fd, w->off + w->type), w->error);
		do_read(fd, w->structured, 0, 512, buf);
		disconnect(fd);
	}
	nbd_stop();
}

/* All of its data is thrown away, and the next request is understood. */
static void a_write_that_is_too_long_is_skipped(void **state)
{
	uint8_t *much = calloc(1, PAYLOAD_MAX + 1);
	int fd;

	nbd_start_with(state, (const char *const[]){
		"--export=name=large,size=100M", NULL });
	fd = nbd_open("large", true);
	assert_int_equal(do_write(fd, 0, 0, PAYLOAD_MAX + 1, much),
			 NBD_EINVAL);
	assert_int_equal(do_write(fd, 0, 1, PAYLOAD_MAX, much), 0);
	assert_int_equal(do_command(fd, 0, NBD_CMD_READ, 0, PAYLOAD_MAX + 1),
			 NBD_EOVERFLOW);
	disconnect(fd);
	fd = nbd_open("large", false);
	assert_int_equal(do_command(fd, 0, NBD_CMD_READ, 0, PAYLOAD_MAX + 1),
			 NBD_EINVAL);
	do_read(fd, false, 0, PAYLOAD_MAX, much);
	disconnect(fd);
	free(much);
	nbd_stop();
}

/* Clients that are still sending do not expect an answer. */
static void a_refusal_waits_for_the_data(void **state)
{
	struct pollfd p = { .events = POLLIN };
	uint8_t buf[1000] = { 0 };
	int fd;

	nbd_start_with(state, (const char *const[]){ "--cores=1", NULL });
	fd = nbd_open("ro", true);
	ask(fd, 0, NBD_CMD_WRITE, 0, 1000);
	tell(fd, buf, 999);
	check_served("file");
	p.fd = fd;
	assert_int_equal(poll(&p, 1, 0), 0);
	tell(fd, buf, 1);
	assert_int_equal(hear_error(fd, NBD_CMD_WRITE), NBD_EPERM);
	disconnect(fd);
	nbd_stop();
}

static void an_unfragmented_read_is_one_chunk(void **state)
{
	uint8_t buf[28], *data = malloc(PIECE);
	int fd;

	nbd_start(state);
	fd = nbd_open("file", true);
	ask(fd, NBD_CMD_FLAG_DF, NBD_CMD_READ, 512, PIECE);
	hear(fd, buf, 28);
	assert_int_equal(get16(buf + 4), NBD_REPLY_FLAG_DONE);
	assert_int_equal(get32(buf + 16), PIECE + 8);
	hear(fd, data, PIECE);
	assert_true(is_pattern(data, PIECE, 512, 1));
	free(data);
	disconnect(fd);
	nbd_stop();
}

static void client_may_send_one_byte_at_a_time(void **state)
{
	uint8_t said[28 + 64], back[64];
	int fd;

	nbd_start(state);
	for (size_t i = 0; i < N_OF(ways); i++) {
		fd = nbd_open(ways[i].name, ways[i].structured);
		make_request(said, 0, NBD_CMD_WRITE, 77, 4096, 64);
		fill_pattern(said + 28, 64, 0, 5);
		for (size_t k = 0; k < sizeof(said); k++)
			tell(fd, said + k, 1);
		assert_int_equal(hear_error(fd, 77), 0);
		do_read(fd, ways[i].structured, 4096, 64, back);
		assert_memory_equal(back, said + 28, 64);
		disconnect(fd);
	}
	nbd_stop();
}

/* More than a connection has requests, in one go; replies in any order. */
#define BATCH (REQUESTS * 3)

static void hear_batch(int fd, bool *seen)
{
	uint8_t buf[16], data[512];

	hear(fd, buf, 16);
	assert_int_equal(get32(buf), NBD_SIMPLE_REPLY_MAGIC);
	assert_int_equal(get32(buf + 4), 0);
	assert_true(get64(buf + 8) < BATCH && !seen[get64(buf + 8)]);
	seen[get64(buf + 8)] = true;
	hear(fd, data, 512);
	assert_true(is_pattern(data, 512, get64(buf + 8) * 512, 1));
}

static void client_may_send_many_requests_at_once(void **state)
{
	uint8_t *said = malloc(BATCH * 28);
	bool seen[BATCH] = { false };
	int fd;

	nbd_start(state);
	fd = nbd_open("file", false);
	for (uint32_t i = 0; i < BATCH; i++)
		make_request(said + 28 * (size_t)i, 0, NBD_CMD_READ, i,
			     i * 512u, 512);
	tell(fd, said, BATCH * 28);
	for (uint32_t i = 0; i < BATCH; i++)
		hear_batch(fd, seen);
	disconnect(fd);
	free(said);
	nbd_stop();
}

/* A simple reply is in one piece, however long, and whoever else is ready. */
static void long_replies_are_not_mixed(void **state)
{
	static const char *const names[] = { "file", "memory" };
	uint8_t said[40 * 28], buf[16], *data = malloc(1 * MIB);
	int fd;

	nbd_start(state);
	for (size_t i = 0; i < 2; i++) {
		fd = nbd_open(names[i], false);
		fill_pattern(data, 1 * MIB, 0, 1);
		assert_int_equal(do_write(fd, 0, 0, 1 * MIB, data), 0);
		for (uint32_t k = 0; k < 40; k++)
			make_request(said + 28 * (size_t)k, 0, NBD_CMD_READ,
				     k, 0, k % 8 ? 512 : 1 * MIB);
		tell(fd, said, sizeof(said));
		for (uint32_t k = 0; k < 40; k++) {
			uint32_t len;

			hear(fd, buf, 16);
			assert_true(get64(buf) == (uint64_t)
				    NBD_SIMPLE_REPLY_MAGIC << 32);
			len = get64(buf + 8) % 8 ? 512 : 1 * MIB;
			hear(fd, data, len);
			assert_true(is_pattern(data, len, 0, 1));
		}
		disconnect(fd);
	}
	free(data);
	nbd_stop();
}

static void connections_see_each_others_writes(void **state)
{
	uint8_t buf[4096], back[4096];
	int fds[3];

	nbd_start(state);
	for (size_t i = 0; i < N_OF(ways); i++) {
		for (int k = 0; k < 3; k++)
			fds[k] = nbd_open(ways[i].name, ways[i].structured);
		for (int k = 0; k < 3; k++) {
			fill_pattern(buf, 4096, (uint64_t)k * 4096, 6);
			do_write(fds[k], 0, (uint64_t)k * 4096, 4096, buf);
			do_read(fds[(k + 1) % 3], ways[i].structured,
				(uint64_t)k * 4096, 4096, back);
			assert_memory_equal(buf, back, 4096);
		}
		for (int k = 0; k < 3; k++)
			disconnect(fds[k]);
	}
	nbd_stop();
}

static const struct harness_case cases[] = {
	CASE(written_data_is_read_back),
	CASE(flush_and_fua_are_accepted),
	CASE(zeroes_are_what_they_were_asked_to_be),
	CASE(zeroes_sent_together_end_in_their_order),
	CASE(a_fast_zero_is_fast_or_nothing),
	CASE(holes_of_memory_are_told),
	CASE(extents_cover_the_file),
	CASE(mistakes_have_their_errors_and_nothing_else),
	CASE(a_write_that_is_too_long_is_skipped),
	CASE(a_refusal_waits_for_the_data),
	CASE(an_unfragmented_read_is_one_chunk),
	CASE(client_may_send_one_byte_at_a_time),
	CASE(client_may_send_many_requests_at_once),
	CASE(long_replies_are_not_mixed),
	CASE(connections_see_each_others_writes),
};

int main(void)
{
	return harness_run(cases, N_OF(cases));
}
