/* SPDX-License-Identifier: BSD-3-Clause */

/* weir-nbd's handshake: each option, well made and not. */

#include "tests/support/nbd-fixture.h"

static const char *const base = "base:";
static const char *const allocation = "base:allocation";

static void exports_are_listed(void **state)
{
	static const struct { const char *name, *text; } want[] = {
		{ "file", "a file" }, { "memory", "" }, { "ro", "" },
	};
	uint8_t data[1024];
	uint32_t len;
	int fd;

	nbd_start(state);
	fd = nbd_connect(3);
	say_option(fd, NBD_OPT_LIST, "", 0);
	for (size_t i = 0; i < N_OF(want); i++) {
		size_t n = strlen(want[i].name), m = strlen(want[i].text);

		assert_int_equal(hear_option(fd, NBD_OPT_LIST, data, &len),
				 NBD_REP_SERVER);
		assert_int_equal(len, 4 + n + m);
		assert_int_equal(get32(data), n);
		assert_memory_equal(data + 4, want[i].name, n);
		assert_memory_equal(data + 4 + n, want[i].text, m);
	}
	assert_int_equal(hear_option(fd, NBD_OPT_LIST, data, &len),
			 NBD_REP_ACK);
	close(fd);
	nbd_stop();
}

/* What is said to each option, and the connection goes on. */
static void options_that_make_no_sense_are_refused(void **state)
{
	static const struct {
		uint32_t type, len, reply;
		const char *data;
	} cases[] = {
		{ 0, 0, NBD_REP_ERR_UNSUP, "" },
		{ 4, 0, NBD_REP_ERR_UNSUP, "" },
		{ 11, 0, NBD_REP_ERR_UNSUP, "" },
		{ 99, 4, NBD_REP_ERR_UNSUP, "data" },
		{ UINT32_MAX, 0, NBD_REP_ERR_UNSUP, "" },
		{ NBD_OPT_LIST, 1, NBD_REP_ERR_INVALID, "x" },
		{ NBD_OPT_STARTTLS, 0, NBD_REP_ERR_UNSUP, "" },
		{ NBD_OPT_STARTTLS, 1, NBD_REP_ERR_INVALID, "x" },
		{ NBD_OPT_STRUCTURED_REPLY, 2, NBD_REP_ERR_INVALID, "xx" },
		{ NBD_OPT_INFO, 0, NBD_REP_ERR_INVALID, "" },
		{ NBD_OPT_INFO, 5, NBD_REP_ERR_INVALID, "\0\0\0\0\0" },
		{ NBD_OPT_INFO, 6, NBD_REP_ERR_INVALID, "\0\0\0\1\0\0" },
		{ NBD_OPT_INFO, 6, NBD_REP_ERR_INVALID, "\0\0\0\0\0\1" },
		{ NBD_OPT_GO, 8, NBD_REP_ERR_INVALID, "\0\0\0\0\0\0\0\0" },
		{ NBD_OPT_GO, 6, NBD_REP_ERR_INVALID, "\377\377\377\377\0\0" },
		{ NBD_OPT_GO, 6, NBD_REP_ERR_UNKNOWN, "\0\0\0\0\0\0" },
		{ NBD_OPT_INFO, 8, NBD_REP_ERR_UNKNOWN, "\0\0\0\2no\0\0" },
		{ NBD_OPT_LIST_META_CONTEXT, 8, NBD_REP_ERR_INVALID,
		  "\0\0\0\0\0\0\0\0" },
		{ NBD_OPT_SET_META_CONTEXT, 8, NBD_REP_ERR_INVALID,
		  "\0\0\0\0\0\0\0\0" },
	};
	int fd;

	nbd_start(state);
	fd = nbd_connect(3);
	for (size_t i = 0; i < N_OF(cases); i++)
		assert_int_equal(do_option(fd, cases[i].type, cases[i].data,
					   cases[i].len),
				 cases[i].reply);
	close(fd);
	nbd_stop();
}

static void an_option_that_is_too_long_is_skipped(void **state)
{
	char *much = calloc(1, 1 * MIB);
	int fd;

	nbd_start(state);
	fd = nbd_connect(3);
	assert_int_equal(do_option(fd, NBD_OPT_INFO, much, OPTION_MAX + 1),
			 NBD_REP_ERR_TOO_BIG);
	assert_int_equal(do_option(fd, NBD_OPT_LIST, much, 1 * MIB),
			 NBD_REP_ERR_TOO_BIG);
	assert_int_equal(do_option(fd, 99, much, OPTION_MAX),
			 NBD_REP_ERR_UNSUP);
	assert_int_equal(do_option(fd, NBD_OPT_LIST, "", 0), NBD_REP_ACK);
	close(fd);
	free(much);
	nbd_stop();
}

/* What an export is told to be; the size of its infos, by their kinds. */
static void hear_infos(int fd, uint32_t option, uint32_t lens[4],
		       uint8_t data[4][1024])
{
	uint8_t buf[1024];
	uint32_t len, type;

	memset(lens, 0, 4 * sizeof(lens[0]));
	while ((type = hear_option(fd, option, buf, &len)) == NBD_REP_INFO) {
		unsigned int kind = get16(buf);

		assert_true(kind < 4 && !lens[kind]);
		lens[kind] = len;
		memcpy(data[kind], buf, len);
	}
	assert_int_equal(type, NBD_REP_ACK);
}

static void an_export_is_described(void **state)
{
	static const uint16_t all[] = { 3, 2, 1, 1, 77 };
	uint8_t buf[512], data[4][1024];
	uint32_t lens[4];
	int fd;

	nbd_start(state);
	fd = nbd_connect(3);
	say_option(fd, NBD_OPT_INFO, buf, info_data(buf, "file", all, 5));
	hear_infos(fd, NBD_OPT_INFO, lens, data);
	assert_int_equal(lens[NBD_INFO_EXPORT], 12);
	assert_int_equal(get64(data[0] + 2), FILE_SIZE);
	assert_int_equal(get16(data[0] + 10), 0xd6d);
	assert_int_equal(lens[NBD_INFO_NAME], 6);
	assert_memory_equal(data[1] + 2, "file", 4);
	assert_int_equal(lens[NBD_INFO_DESCRIPTION], 8);
	assert_memory_equal(data[2] + 2, "a file", 6);
	assert_int_equal(lens[NBD_INFO_BLOCK_SIZE], 14);
	assert_int_equal(get32(data[3] + 2), 1);
	assert_int_equal(get32(data[3] + 6), 4096);
	assert_int_equal(get32(data[3] + 10), 32 * MIB);

	assert_int_equal(do_option(fd, NBD_OPT_STRUCTURED_REPLY, "", 0),
			 NBD_REP_ACK);
	say_option(fd, NBD_OPT_GO, buf, info_data(buf, "ro", NULL, 0));
	hear_infos(fd, NBD_OPT_GO, lens, data);
	assert_int_equal(get16(data[0] + 10), 0x58f);
	assert_int_equal(lens[NBD_INFO_BLOCK_SIZE], 0);
	disconnect(fd);
	nbd_stop();
}

/* How many contexts the option gives; they must be base:allocation. */
static int contexts(int fd, uint32_t option, const char *const *queries,
		    uint32_t n)
{
	uint8_t buf[512], data[1024];
	uint32_t len, type, found = 0;

	say_option(fd, option, buf, meta_data(buf, "file", queries, n));
	while ((type = hear_option(fd, option, data, &len)) ==
	       NBD_REP_META_CONTEXT) {
		assert_int_equal(len, 4 + strlen(allocation));
		assert_memory_equal(data + 4, allocation, len - 4);
		found++;
	}
	assert_int_equal(type, NBD_REP_ACK);
	return (int)found;
}

static void contexts_are_listed_and_selected(void **state)
{
	const char *const other[] = { "qemu:x", "base:other", "base",
				      "x-me:" };
	const char *const both[] = { "qemu:x", allocation, allocation };
	const uint32_t list = NBD_OPT_LIST_META_CONTEXT;
	const uint32_t set = NBD_OPT_SET_META_CONTEXT;
	int fd;

	nbd_start(state);
	fd = nbd_connect(3);
	assert_int_equal(do_option(fd, NBD_OPT_STRUCTURED_REPLY, "", 0),
			 NBD_REP_ACK);
	assert_int_equal(contexts(fd, list, NULL, 0), 1);
	assert_int_equal(contexts(fd, list, &base, 1), 1);
	assert_int_equal(contexts(fd, list, &allocation, 1), 1);
	assert_int_equal(contexts(fd, list, other, 4), 0);
	assert_int_equal(contexts(fd, set, NULL, 0), 0);
	assert_int_equal(contexts(fd, set, &base, 1), 0);
	assert_int_equal(contexts(fd, set, other, 4), 0);
	assert_int_equal(contexts(fd, set, both, 3), 1);
	close(fd);
	nbd_stop();
}

static void queries_that_make_no_sense_are_refused(void **state)
{
	static const struct { uint32_t len; const char *data; } cases[] = {
		{ 0, "" },
		{ 7, "\0\0\0\0\0\0\0" },
		{ 8, "\0\0\0\1\0\0\0\0" },
		{ 8, "\0\0\0\0\0\0\0\1" },
		{ 8, "\0\0\0\0\377\377\377\377" },
		{ 12, "\0\0\0\0\0\0\0\1\0\0\0\1" },
		{ 12, "\0\0\0\0\0\0\0\1\377\377\377\377" },
		{ 13, "\0\0\0\0\0\0\0\1\0\0\0\0x" },
	};
	int fd;

	nbd_start(state);
	fd = nbd_connect(3);
	assert_int_equal(do_option(fd, NBD_OPT_STRUCTURED_REPLY, "", 0),
			 NBD_REP_ACK);
	for (size_t i = 0; i < N_OF(cases); i++) {
		assert_int_equal(do_option(fd, NBD_OPT_SET_META_CONTEXT,
					   cases[i].data, cases[i].len),
				 NBD_REP_ERR_INVALID);
		assert_int_equal(do_option(fd, NBD_OPT_LIST_META_CONTEXT,
					   cases[i].data, cases[i].len),
				 NBD_REP_ERR_INVALID);
	}
	close(fd);
	nbd_stop();
}

/* The connection then has a selection for the export "file". */
static int select_context(uint8_t *buf)
{
	int fd = nbd_connect(3);

	do_option(fd, NBD_OPT_STRUCTURED_REPLY, "", 0);
	do_option(fd, NBD_OPT_SET_META_CONTEXT, buf,
		  meta_data(buf, "file", &allocation, 1));
	return fd;
}

static void expect_no_context(int fd, uint8_t *buf, const char *export)
{
	do_option(fd, NBD_OPT_GO, buf, info_data(buf, export, NULL, 0));
	assert_int_equal(do_command(fd, 0, NBD_CMD_BLOCK_STATUS, 0, 4096),
			 NBD_EINVAL);
	disconnect(fd);
}

/* A selection holds for its export, and the last one counts, good or bad. */
static void a_context_is_that_of_one_export(void **state)
{
	static const uint8_t much[OPTION_MAX + 1];
	uint8_t buf[512];
	int fd;

	nbd_start(state);
	expect_no_context(select_context(buf), buf, "memory");

	fd = select_context(buf);
	assert_int_equal(do_option(fd, NBD_OPT_SET_META_CONTEXT, "", 0),
			 NBD_REP_ERR_INVALID);
	expect_no_context(fd, buf, "file");

	fd = select_context(buf);
	assert_int_equal(do_option(fd, NBD_OPT_SET_META_CONTEXT, much,
				   sizeof(much)), NBD_REP_ERR_TOO_BIG);
	expect_no_context(fd, buf, "file");
	nbd_stop();
}

static void the_old_way_in_works(void **state)
{
	uint8_t buf[134];
	uint8_t zero[124] = { 0 };
	int fd;

	nbd_start(state);
	fd = nbd_connect(NBD_FLAG_FIXED_NEWSTYLE);
	say_option(fd, NBD_OPT_EXPORT_NAME, "memory", 6);
	hear(fd, buf, 134);
	assert_int_equal(get64(buf), MEMORY_SIZE);
	assert_int_equal(get16(buf + 8), 0xd6d);
	assert_memory_equal(buf + 10, zero, 124);
	disconnect(fd);

	fd = nbd_connect(NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
	say_option(fd, NBD_OPT_EXPORT_NAME, "memory", 6);
	hear(fd, buf, 10);
	disconnect(fd);

	fd = nbd_connect(3);
	say_option(fd, NBD_OPT_EXPORT_NAME, "nothing", 7);
	hear_end(fd);
	nbd_stop();
}

static void peer_that_is_no_client_is_sent_away(void **state)
{
	int fd;

	nbd_start(state);
	hear_end(nbd_connect(4));
	fd = nbd_connect(3);
	tell(fd, "GET / HTTP/1.1\r\n\r\n", 18);
	hear_end(fd);
	check_served("file");
	nbd_stop();
}

static void a_client_may_change_its_mind(void **state)
{
	int fd;

	nbd_start(state);
	fd = nbd_connect(3);
	assert_int_equal(do_option(fd, NBD_OPT_ABORT, "bye", 3), NBD_REP_ACK);
	hear_end(fd);
	fd = nbd_connect(3);
	say_option(fd, NBD_OPT_ABORT, "", 0);
	close(fd);
	check_served("memory");
	nbd_stop();
}

static const struct harness_case cases[] = {
	CASE(exports_are_listed),
	CASE(options_that_make_no_sense_are_refused),
	CASE(an_option_that_is_too_long_is_skipped),
	CASE(an_export_is_described),
	CASE(contexts_are_listed_and_selected),
	CASE(queries_that_make_no_sense_are_refused),
	CASE(a_context_is_that_of_one_export),
	CASE(the_old_way_in_works),
	CASE(peer_that_is_no_client_is_sent_away),
	CASE(a_client_may_change_its_mind),
};

int main(void)
{
	return harness_run(cases, N_OF(cases));
}
