/* SPDX-License-Identifier: BSD-3-Clause */

/* weir-nbd's plugins: those that come with it serve as files and memory do, and
 * one that makes trouble makes it for its own clients only. */

#include "tests/support/nbd-fixture.h"
#include "tests/programs/nbd-plugin.h"

#include <weir/export.h>
#include <weir/mmap.h>

#define CIPHER "programs/block/.libs/cipher.so"
#define IMPORT "programs/block/.libs/import.so"
#define TROUBLE "tests/programs/.libs/nbd-plugin.so"
#define ALL_SIZE (4u * MIB)

/* Memory of ours that the server imports. */
static struct {
	struct weir_exporter *exporter;
	struct weir_mmap *mmap;
	uint8_t *bytes;
} ours;

static int on_ask(struct weir_exporter *x,
		  const struct weir_exporter_peer *peer, const char *name,
		  void *arg)
{
	(void)x, (void)peer, (void)name, (void)arg;
	return 0;
}

static void export_ours(void **state)
{
	struct weir_exporter_opts opts = { .size = sizeof(opts),
					   .accept = on_ask };
	void *addr = NULL;

	assert_false(
		weir_mmap_create(&ours.mmap, NULL) ||
		weir_mmap_alloc(ours.mmap, ALL_SIZE, WEIR_MMAP_ALLOC_MEMFD) ||
		weir_mmap_set_permissions(
			ours.mmap, WEIR_MMAP_WRITE | WEIR_MMAP_PEER_WRITE) ||
		weir_mmap_start(ours.mmap) ||
		weir_mmap_memrange(ours.mmap, &addr, NULL) ||
		weir_exporter_create(&ours.exporter, start_reactor(state),
				     test_path(state, "exporter"), &opts) ||
		weir_exporter_add(ours.exporter, "memory", ours.mmap, NULL));
	ours.bytes = addr;
}

static void need_plugins(void)
{
	if (access(TROUBLE, F_OK))
		skip_because("built without shared objects");
}

/* A server with the plugins that come with it, and one that makes trouble. */
static void plugins_start_with(void **state, const char *key, const char *more)
{
	struct world *w = *state;
	char cipher[256], import[256], ro[256];

	snprintf(cipher, sizeof(cipher),
		 "--export=name=cipher,plugin=%s,"
		 "args=%s:%s",
		 CIPHER, test_path(state, "file"), key);
	snprintf(ro, sizeof(ro), "--export=name=ro,ro,plugin=%s,args=%s:%s",
		 CIPHER, test_path(state, "file"), key);
	snprintf(import, sizeof(import),
		 "--export=name=import,plugin=%s,"
		 "args=%s:memory",
		 IMPORT, test_path(state, "exporter"));
	nbd_spawn(state,
		  (const char *const[]){
			  "--connections=4", "--cores=2", cipher, ro, import,
			  "--export=name=plain,plugin=" TROUBLE,
			  "--export=name=fill,plugin=" TROUBLE ",args=fill",
			  "--export=name=block,plugin=" TROUBLE ",args=block",
			  "--export=name=fixed,plugin=" TROUBLE ",args=read",
			  more, NULL });
	nbd_await(w->r);
}

static void plugins_start(void **state, const char *more)
{
	need_plugins();
	close(test_file(state, "file", ALL_SIZE, 1));
	export_ours(state);
	plugins_start_with(state, "key", more);
}

static void export_end(void)
{
	weir_exporter_destroy(ours.exporter);
	assert_int_equal(weir_mmap_destroy(ours.mmap), 0);
	memset(&ours, 0, sizeof(ours));
}

static void plugins_stop(void)
{
	nbd_stop();
	export_end();
}

/* Each that comes with the server, with each kind of replies. */
static const struct way {
	const char *name;
	bool structured;
} ways[] = {
	{ "cipher", false },
	{ "cipher", true },
	{ "import", false },
	{ "import", true },
};

static void for_each_way(void **state,
			 void (*fn)(const struct way *way, int fd))
{
	plugins_start(state, NULL);
	for (size_t i = 0; i < N_OF(ways); i++) {
		int fd = nbd_open(ways[i].name, ways[i].structured);

		fn(&ways[i], fd);
		disconnect(fd);
	}
	plugins_stop();
}

/* Odd lengths and places, up to many pieces. */
static void read_back(const struct way *way, int fd)
{
	static const struct {
		uint64_t off;
		uint32_t len;
	} at[] = {
		{ 0, 1 },         { 1, 511 },          { 4095, 2 },
		{ 65535, 65538 }, { 7, PIECE + 1 },    { 12345, 3 * MIB + 17 },
		{ 0, ALL_SIZE },  { ALL_SIZE - 1, 1 },
	};
	uint8_t *buf = malloc(ALL_SIZE);

	for (size_t i = 0; i < N_OF(at); i++) {
		unsigned int seed = 2 + (unsigned int)i;

		fill_pattern(buf, at[i].len, at[i].off, seed);
		assert_int_equal(do_write(fd, 0, at[i].off, at[i].len, buf), 0);
		memset(buf, 0x55, at[i].len);
		do_read(fd, way->structured, at[i].off, at[i].len, buf);
		assert_true(is_pattern(buf, at[i].len, at[i].off, seed));
	}
	free(buf);
}

static void data_written_to_a_plugin_is_read_back(void **state)
{
	for_each_way(state, read_back);
}

/* Around [from, to), which is to be zeroes, all bytes stay. */
static void zero_one(const struct way *way, int fd, unsigned int flags,
		     uint32_t from, uint32_t to)
{
	static const uint8_t none[MIB];
	uint8_t *buf = malloc(MIB);

	fill_pattern(buf, MIB, 0, 3);
	assert_int_equal(do_write(fd, 0, 0, MIB, buf), 0);
	assert_int_equal(do_command(fd, flags, NBD_CMD_WRITE_ZEROES, from,
				    to - from),
			 0);
	do_read(fd, way->structured, 0, MIB, buf);
	assert_true(is_pattern(buf, from, 0, 3));
	assert_memory_equal(buf + from, none, to - from);
	assert_true(is_pattern(buf + to, MIB - to, to, 3));
	free(buf);
}

static void zero_all(const struct way *way, int fd)
{
	zero_one(way, fd, 0, 1, 300001);
	zero_one(way, fd, NBD_CMD_FLAG_NO_HOLE, 65535, 600000);
	assert_int_equal(do_command(fd, 0, NBD_CMD_WRITE_ZEROES, 0, ALL_SIZE),
			 0);
	assert_int_equal(do_command(fd, NBD_CMD_FLAG_FAST_ZERO,
				    NBD_CMD_WRITE_ZEROES, 0, 4096),
			 NBD_ENOTSUP);
	assert_int_equal(do_command(fd, 0, NBD_CMD_TRIM, 0, 4096), NBD_EINVAL);
}

static void zeroes_are_written_and_trims_not_offered(void **state)
{
	for_each_way(state, zero_all);
}

static void check_filled(int fd, uint64_t off, uint8_t byte)
{
	uint8_t buf[4096], all[4096];

	memset(all, byte, 4096);
	do_read(fd, true, off, 4096, buf);
	assert_memory_equal(buf, all, 4096);
}

/* The domain's own fill leaves a mark. */
static void a_domain_that_fills_is_asked_to(void **state)
{
	unsigned int fast = NBD_CMD_FLAG_FAST_ZERO;
	int fd;

	plugins_start(state, NULL);
	fd = nbd_open("fill", true);
	assert_int_equal(do_command(fd, 0, NBD_CMD_TRIM, 0, 512 << 10), 0);
	check_filled(fd, 0, PLUGIN_FILLED);
	check_filled(fd, (512 << 10) - 4096, PLUGIN_FILLED);
	check_filled(fd, 512 << 10, 0);
	assert_int_equal(do_command(fd, NBD_CMD_FLAG_NO_HOLE,
				    NBD_CMD_WRITE_ZEROES, 0, 4096),
			 0);
	check_filled(fd, 0, 0);
	assert_int_equal(do_command(fd, fast, NBD_CMD_WRITE_ZEROES, 0, 4096),
			 0);
	check_filled(fd, 0, PLUGIN_FILLED);
	assert_int_equal(do_command(fd, fast | NBD_CMD_FLAG_NO_HOLE,
				    NBD_CMD_WRITE_ZEROES, 0, 4096),
			 NBD_ENOTSUP);
	disconnect(fd);
	plugins_stop();
}

/* What can be flushed is; what cannot is not said to be, nor what has failed. */
static void a_flush_is_the_plugins_or_there_is_none(void **state)
{
	static const struct {
		const char *name;
		uint32_t error, fua;
	} flushes[] = {
		{ "cipher", 0, 0 },
		{ "ro", 0, NBD_EPERM },
		{ "plain", 0, 0 },
		{ "unsafe", NBD_EIO, NBD_EIO },
		{ "import", NBD_EINVAL, NBD_EINVAL },
	};
	uint8_t buf[4096] = { 1 };

	plugins_start(state,
		      "--export=name=unsafe,plugin=" TROUBLE ",args=unsafe");
	for (size_t i = 0; i < N_OF(flushes); i++) {
		int fd = nbd_open(flushes[i].name, true);
		assert_int_equal(do_command(fd, 0, NBD_CMD_FLUSH, 0, 0),
				 flushes[i].error);
		assert_int_equal(do_write(fd, NBD_CMD_FLAG_FUA, 0, 4096, buf),
				 flushes[i].fua);
		disconnect(fd);
	}
	/* It cannot be made sure of at the end, either. */
	kill(nbd_pid, SIGTERM);
	assert_int_equal(nbd_wait(), 1);
	export_end();
}

/* Of an error that says that nothing was begun, nothing is lost. */
static void flush_never_succeeds_after_a_loss(void **state)
{
	static const struct {
		int err;
		bool loss;
	} flushes[] = {
		{ EIO, true }, { ENODATA, true }, { ETIMEDOUT, true },
		{ EREMOTEIO, true }, { ENOLINK, true }, { ENODEV, true },
		{ EAGAIN, false }, { EINVAL, false }, { ENOMEM, false },
	};

	char exports[N_OF(flushes)][128];
	const char *args[N_OF(flushes) + 1] = { NULL };

	need_plugins();
	for (size_t i = 0; i < N_OF(flushes); i++) {
		snprintf(exports[i], sizeof(exports[i]), "--export=name=%zu,"
			 "plugin=" TROUBLE ",args=unsafe=%d", i, flushes[i].err);
		args[i] = exports[i];
	}
	nbd_spawn(state, args);
	nbd_await(NULL);
	for (size_t i = 0; i < N_OF(flushes); i++) {
		char name[8];
		int fd;

		snprintf(name, sizeof(name), "%zu", i);
		fd = nbd_open(name, true);
		assert_int_not_equal(do_command(fd, 0, NBD_CMD_FLUSH, 0, 0), 0);
		assert_int_equal(do_command(fd, 0, NBD_CMD_FLUSH, 0, 0) != 0,
				 flushes[i].loss);
		disconnect(fd);
	}
	kill(nbd_pid, SIGTERM);
	assert_int_equal(nbd_wait(), 1);
}

/* @command is the first that asks for the flush, which fails. */
static void try_fua(void **state, uint16_t command)
{
	int fd;

	plugins_start(state, "--export=name=unsafe,plugin=" TROUBLE
			     ",args=fill-unsafe");
	fd = nbd_open("unsafe", true);
	assert_int_equal(do_command(fd, 0, command, 0, 4096), 0);
	assert_int_equal(do_command(fd, NBD_CMD_FLAG_FUA, command, 0, 4096),
			 NBD_EIO);
	disconnect(fd);
	kill(nbd_pid, SIGTERM);
	assert_int_equal(nbd_wait(), 1);
	export_end();
}

static void zeroes_with_fua_are_flushed(void **state)
{
	try_fua(state, NBD_CMD_WRITE_ZEROES);
}

static void trim_with_fua_is_flushed(void **state)
{
	try_fua(state, NBD_CMD_TRIM);
}

static void the_file_is_enciphered(void **state)
{
	uint8_t buf[4096], raw[4096];
	int fd, file;

	plugins_start(state, NULL);
	fd = nbd_open("cipher", false);
	fill_pattern(buf, 4096, 0, 7);
	assert_int_equal(do_write(fd, NBD_CMD_FLAG_FUA, 4097, 4096, buf), 0);
	disconnect(fd);
	file = open(test_path(state, "file"), O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(file, raw, 4096, 4097), 4096);
	close(file);
	assert_memory_not_equal(raw, buf, 4096);
	nbd_stop();
	for (int i = 0; i < 2; i++) {
		plugins_start_with(state, i ? "key" : "other", NULL);
		fd = nbd_open("ro", false);
		do_read(fd, false, 4097, 4096, raw);
		assert_int_equal(memcmp(raw, buf, 4096) == 0, i);
		disconnect(fd);
		nbd_stop();
	}
	export_end();
}

/* And when it is taken back, clients are told, and go on. */
static void memory_of_another_process_is_served(void **state)
{
	uint8_t buf[4096];
	int fd;

	plugins_start(state, NULL);
	fd = nbd_open("import", false);
	fill_pattern(buf, 4096, 0, 8);
	assert_int_equal(do_write(fd, 0, 1001, 4096, buf), 0);
	assert_memory_equal(ours.bytes + 1001, buf, 4096);
	memset(ours.bytes + 1001, 9, 4096);
	do_read(fd, false, 1001, 4096, buf);
	assert_memory_equal(ours.bytes + 1001, buf, 4096);
	export_end();
	assert_int_equal(do_command(fd, 0, NBD_CMD_READ, 0, 512), NBD_EIO);
	assert_int_equal(do_write(fd, 0, 0, 512, buf), NBD_EIO);
	disconnect(fd);
	check_served("plain");
	nbd_stop();
}

/* What goes wrong where, and what is said. */
static void error_of_a_plugin_reaches_the_client_that_caused_it(void **state)
{
	static const struct {
		uint64_t at;
		uint32_t error;
	} troubles[] = {
		{ PLUGIN_REFUSES, NBD_ENOSPC },
		{ PLUGIN_FAILS, NBD_EIO },
		{ PLUGIN_ENDS_EARLY, NBD_EIO },
		{ PLUGIN_BUSY, 0 },
		{ PLUGIN_LATE, 0 },
		{ PLUGIN_BYTES, NBD_EINVAL },
	};
	uint8_t *buf = calloc(1, MIB);
	int fd;

	plugins_start(state, NULL);
	fd = nbd_open("plain", true);
	for (size_t i = 0; i < N_OF(troubles); i++) {
		uint32_t error = troubles[i].error;

		if (error)
			assert_int_equal(do_command(fd, 0, NBD_CMD_READ,
						    troubles[i].at, 512),
					 error);
		else
			do_read(fd, true, troubles[i].at, 512, buf);
		error = error == NBD_EINVAL ? NBD_ENOSPC : error;
		assert_int_equal(do_write(fd, 0, troubles[i].at, 512, buf),
				 error);
	}
	/* In the middle, with more data to come. */
	assert_int_equal(do_write(fd, 0, PLUGIN_REFUSES - PIECE, MIB, buf),
			 NBD_ENOSPC);
	do_read(fd, true, PLUGIN_REFUSES - PIECE, PIECE, buf);
	disconnect(fd);
	free(buf);
	plugins_stop();
}

static void request_that_a_plugin_does_not_offer_is_einval(void **state)
{
	uint8_t buf[512] = { 0 };
	uint32_t e[8];
	int fd;

	plugins_start(state, NULL);
	fd = nbd_open("plain", true);
	assert_int_equal(do_command(fd, 0, NBD_CMD_CACHE, 0, 512), NBD_EINVAL);
	assert_int_equal(do_status(fd, 0, 1, MIB, e, 4), 1);
	assert_int_equal(e[0], MIB);
	assert_int_equal(e[1], 0);
	disconnect(fd);
	fd = nbd_open("block", true);
	assert_int_equal(do_command(fd, 0, NBD_CMD_READ, 0, 511), NBD_EINVAL);
	do_read(fd, true, 512, 512, buf);
	disconnect(fd);
	fd = nbd_open("fixed", true);
	assert_int_equal(do_write(fd, 0, 0, 512, buf), NBD_EPERM);
	do_read(fd, true, 1, 511, buf);
	disconnect(fd);
	plugins_stop();
}

/* More than a connection has requests, some of which must be tried again. */
#define BATCH (REQUESTS * 2)

static void plugin_has_many_requests_in_flight(void **state)
{
	uint8_t *said = malloc(BATCH * 28), buf[16 + 512];
	int fd;

	plugins_start(state, NULL);
	fd = nbd_open("plain", false);
	for (uint32_t i = 0; i < BATCH; i++)
		make_request(said + 28 * (size_t)i, 0, NBD_CMD_READ, i,
			     i % 3 ? i * 512 :
			     i % 2 ? PLUGIN_BUSY :
				     PLUGIN_LATE,
			     512);
	tell(fd, said, BATCH * 28);
	for (uint32_t i = 0; i < BATCH; i++) {
		hear(fd, buf, sizeof(buf));
		assert_true(get64(buf) == (uint64_t)NBD_SIMPLE_REPLY_MAGIC
						  << 32);
		assert_true(get64(buf + 8) < BATCH);
	}
	disconnect(fd);
	free(said);
	plugins_stop();
}

/* Nobody waits for a plugin once the client has gone. */
static void client_that_leaves_leaves_no_job_behind(void **state)
{
	plugins_start(state, NULL);
	for (int i = 0; i < 32; i++) {
		int fd = nbd_open("plain", i % 2);

		ask(fd, 0, NBD_CMD_READ, PLUGIN_NEVER, 512);
		ask(fd, 0, NBD_CMD_READ, PLUGIN_BUSY, 512);
		close(fd);
	}
	check_served("plain");
	plugins_stop();
}

/* @fd's request is in flight when another client is served on the same core. */
static void stop_at(uint64_t at, int fd)
{
	ask(fd, 0, NBD_CMD_READ, at, 512);
	check_served("plain");
	kill(nbd_pid, SIGTERM);
}

static void a_stop_waits_for_jobs_but_not_for_ever(void **state)
{
	uint8_t buf[512];
	int fd;

	plugins_start(state, NULL);
	fd = nbd_open("plain", true);
	stop_at(PLUGIN_LATE, fd);
	hear_chunks(fd, PLUGIN_LATE, 512, buf);
	hear_end(fd);
	assert_int_equal(nbd_wait(), 0);
	plugins_start_with(state, "key", "--grace=0");
	fd = nbd_open("plain", true);
	stop_at(PLUGIN_NEVER, fd);
	hear_end(fd);
	assert_int_equal(nbd_wait(), 0);
	export_end();
}

/* A server with this export, for which plugins of TROUBLE have @size. */
static void spawn_sized(void **state, const char *export, const char *size)
{
	if (size)
		setenv("NBD_PLUGIN_SIZE", size, 1);
	nbd_spawn(state, (const char *const[]){ export, NULL });
	unsetenv("NBD_PLUGIN_SIZE");
}

static void file_that_is_no_plugin_is_refused(void **state)
{
	static const struct {
		const char *export, *size;
		int status;
	} bad[] = {
		{ "--export=plugin=./none.so", NULL, 3 },
		{ "--export=plugin=./config.status", NULL, 3 },
		{ "--export=plugin=.libs/libweir.so.0", NULL, 3 },
		{ "--export=plugin=" TROUBLE, "8", 3 },
		{ "--export=plugin=" TROUBLE, "48", 3 },
		{ "--export=plugin=" TROUBLE, "1000000", 3 },
		{ "--export=plugin=" TROUBLE ",args=refuse", NULL, 3 },
		{ "--export=plugin=" TROUBLE ",args=empty", NULL, 3 },
		{ "--export=plugin=" TROUBLE ",args=strange", NULL, 3 },
		{ "--export=plugin=" CIPHER ",args=nokey", NULL, 3 },
		{ "--export=plugin=" CIPHER ",args=/nowhere:key", NULL, 3 },
		{ "--export=plugin=" IMPORT ",args=/nowhere:memory", NULL, 3 },
		{ "--export=plugin=" IMPORT, NULL, 3 },
		{ "--export=plugin=" TROUBLE ",size=1M", NULL, 2 },
		{ "--export=plugin", NULL, 2 },
	};
	size_t on_ev = !want_long() && backend_of(*state) == WEIR_BACKEND_EV;

	need_plugins();
	/* Each over one backend, unless there is time for both. */
	for (size_t i = on_ev; i < N_OF(bad); i += want_long() ? 1 : 2) {
		spawn_sized(state, bad[i].export, bad[i].size);
		assert_int_equal(nbd_wait(), bad[i].status);
	}
}

/* Older ones have less; later ones may have more that they do not use. */
static void a_plugin_of_another_version_is_served(void **state)
{
	static const struct {
		const char *size;
		uint32_t flush;
	} sizes[] = {
		{ "24", NBD_EINVAL },
		{ "32", 0 },
		{ "40", 0 },
	};

	need_plugins();
	assert_int_equal(sizeof(struct nbd_plugin), 32);
	for (size_t i = 0; i < N_OF(sizes); i++) {
		int fd;

		spawn_sized(state, "--export=plugin=" TROUBLE, sizes[i].size);
		nbd_await(NULL);
		fd = nbd_open("", false);
		assert_int_equal(do_command(fd, 0, NBD_CMD_FLUSH, 0, 0),
				 sizes[i].flush);
		disconnect(fd);
		nbd_stop();
	}
}

static const struct harness_case cases[] = {
	CASE(data_written_to_a_plugin_is_read_back),
	CASE(zeroes_are_written_and_trims_not_offered),
	CASE(a_domain_that_fills_is_asked_to),
	CASE(a_flush_is_the_plugins_or_there_is_none),
	CASE(flush_never_succeeds_after_a_loss),
	CASE(zeroes_with_fua_are_flushed),
	CASE(trim_with_fua_is_flushed),
	CASE(the_file_is_enciphered),
	CASE(memory_of_another_process_is_served),
	CASE(error_of_a_plugin_reaches_the_client_that_caused_it),
	CASE(request_that_a_plugin_does_not_offer_is_einval),
	CASE(plugin_has_many_requests_in_flight),
	CASE(client_that_leaves_leaves_no_job_behind),
	CASE(a_stop_waits_for_jobs_but_not_for_ever),
	CASE(file_that_is_no_plugin_is_refused),
	CASE(a_plugin_of_another_version_is_served),
};

int main(void)
{
	return harness_run(cases, N_OF(cases));
}
