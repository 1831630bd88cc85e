/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Parts of weir-rdma that need no RDMA: names that a client may ask a server
 * for, files that are not complete, and messages of a hostile peer.
 */

#include "tests/support/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "programs/weir-rdma/weir-rdma.h"

/* A directory that is served, and a secret beside it. */
struct place {
	char path[64];
	int root;
};

static void put_file(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0640);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* Linux 5.6; valgrind 3.19 does not know it. */
static bool has_openat2(void)
{
	return syscall(SYS_openat2, -1, "", NULL, (size_t)0) >= 0 ||
	       errno != ENOSYS;
}

static void place_begin(struct place *p)
{
	int above;

	if (!has_openat2())
		skip_because("no openat2() here");
	snprintf(p->path, sizeof(p->path), "/tmp/weir-rdma.XXXXXX");
	assert_non_null(mkdtemp(p->path));
	above = open(p->path, O_RDONLY | O_DIRECTORY);
	put_file(above, "secret", "secret");
	assert_int_equal(mkdirat(above, "srv", 0755), 0);
	p->root = openat(above, "srv", O_PATH | O_DIRECTORY);
	assert_true(p->root >= 0);
	close(above);
	assert_int_equal(mkdirat(p->root, "d", 0755), 0);
	put_file(p->root, "file", "content");
	put_file(p->root, "d/file", "content");
	assert_int_equal(symlinkat("../secret", p->root, "link"), 0);
	assert_int_equal(symlinkat("/etc", p->root, "etc"), 0);
	assert_int_equal(symlinkat("..", p->root, "d/up"), 0);
	assert_int_equal(symlinkat("../..", p->root, "d/out"), 0);
	assert_int_equal(symlinkat("loop", p->root, "loop"), 0);
	assert_int_equal(mkfifoat(p->root, "fifo", 0600), 0);
}

static void place_end(struct place *p)
{
	char command[96];

	close(p->root);
	snprintf(command, sizeof(command), "rm -rf '%s'", p->path);
	assert_int_equal(system(command), 0);
}

static int64_t open_name(struct place *p, struct file *f, const char *name,
			 bool sink)
{
	file_init(f, p->root, name, sink);
	f->beneath = true;
	f->size = 7;
	f->mode = 0640;
	return file_open_work(f);
}

static bool is_empty_of_temps(const struct place *p)
{
	char command[96];

	snprintf(command, sizeof(command), "ls -AR '%s' | grep -q weir-rdma-",
		 p->path);
	return system(command) != 0;
}

static const struct {
	const char *name;
	int get, put;
} hostile[] = {
	{ "file", 0, 0 },
	{ "./d//file", 0, 0 },
	{ "d/../file", 0, 0 },
	{ "d/up/file", 0, 0 },
	{ "../secret", -EXDEV, -EXDEV },
	{ "d/../../secret", -EXDEV, -EXDEV },
	{ "link", -EXDEV, 0 },	/* To be put, it replaces the link. */
	{ "etc/passwd", -EXDEV, -EXDEV },
	{ "/etc/passwd", -EXDEV, -EXDEV },
	{ "//etc/passwd", -EXDEV, -EXDEV },
	{ "/", -EXDEV, -EISDIR },
	{ "d/out/secret", -EXDEV, -EXDEV },
	{ "loop", -ELOOP, 0 },
	{ "loop/file", -ELOOP, -ELOOP },
	{ "d", -EISDIR, -EISDIR },
	{ "d/", -EISDIR, -EISDIR },
	{ ".", -EISDIR, -EISDIR },
	{ "..", -EXDEV, -EISDIR },
	{ "", -ENOENT, -EISDIR },
	{ "fifo", -EMEDIUMTYPE, 0 },
	{ "nothing", -ENOENT, 0 },
	{ "no/such", -ENOENT, -ENOENT },
	{ "file/x", -ENOTDIR, -ENOTDIR },
	{ ".weir-rdma-1-1", -EPERM, -EPERM },
	{ "d/.weir-rdma-1-1", -EPERM, -EPERM },
};

static void a_client_gets_nothing_from_outside(void **state)
{
	struct place p;
	struct file f;

	(void)state;
	place_begin(&p);
	for (size_t i = 0; i < N_OF(hostile); i++) {
		int64_t got = open_name(&p, &f, hostile[i].name, false);

		if (got != hostile[i].get)
			fail_msg("get '%s': %d", hostile[i].name, (int)got);
		file_close(&f);
		got = open_name(&p, &f, hostile[i].name, true);
		if (got != hostile[i].put)
			fail_msg("put '%s': %d", hostile[i].name, (int)got);
		file_close(&f);
	}
	assert_true(is_empty_of_temps(&p));
	place_end(&p);
}

static void a_file_has_its_name_when_it_is_complete(void **state)
{
	struct place p;
	struct stat st;
	struct file f;

	(void)state;
	place_begin(&p);
	assert_int_equal(open_name(&p, &f, "d/new", true), 0);
	assert_int_equal(pwrite(f.fd, "written", 7, 0), 7);
	assert_int_equal(fstatat(p.root, "d/new", &st, 0), -1);
	f.fsync = true;
	f.mode = 07755;
	assert_int_equal(file_finish_work(&f), 0);
	file_close(&f);
	assert_int_equal(fstatat(p.root, "d/new", &st, 0), 0);
	assert_int_equal(st.st_size, 7);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_true(is_empty_of_temps(&p));
	place_end(&p);
}

static void file_beyond_the_size_limit_leaves_nothing(void **state)
{
	struct rlimit was, little = { 4096, 4096 };
	struct place p;
	struct file f;
	int64_t res;

	(void)state;
	place_begin(&p);
	file_init(&f, p.root, "large", true);
	f.beneath = true;
	f.size = 1 << 20;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	little.rlim_max = was.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	res = file_open_work(&f);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_int_equal(res, -EFBIG);
	file_close(&f);
	assert_true(is_empty_of_temps(&p));
	place_end(&p);
}

/* Notes. */

static void encoded_note_is_decoded(void **state)
{
	struct note in = { .type = NOTE_HELLO, .slot = 3, .off = 1ull << 40,
			   .len = 4096, .crc = 0xdeadbeef, .mode = 0640,
			   .what = CMD_GET, .err = -5, .name = "a name",
			   .desc = "descriptor", .desc_len = 10 };
	char bytes[NOTE_BYTES];
	struct note out;
	size_t len = note_encode(&in, bytes, sizeof(bytes));

	(void)state;
	assert_int_equal(len, NOTE_HEAD + 7 + 10);
	assert_int_equal(note_encode(&in, bytes, len - 1), 0);
	assert_int_equal(note_decode(&out, bytes, len), 0);
	assert_int_equal(out.type, in.type);
	assert_int_equal(out.slot, in.slot);
	assert_true(out.off == in.off);
	assert_int_equal(out.len, in.len);
	assert_int_equal(out.crc, in.crc);
	assert_int_equal(out.mode, in.mode);
	assert_int_equal(out.what, in.what);
	assert_int_equal(out.err, in.err);
	assert_string_equal(out.name, in.name);
	assert_int_equal(out.desc_len, in.desc_len);
	assert_memory_equal(out.desc, in.desc, in.desc_len);
}

/* Each length, in a block of that size: a sanitizer sees one byte too far. */
static void a_message_that_is_cut_short_is_refused(void **state)
{
	struct note in = { .type = NOTE_HELLO, .name = "name", .desc = "d",
			   .desc_len = 1 };
	char bytes[NOTE_BYTES];
	size_t len = note_encode(&in, bytes, sizeof(bytes));
	struct note out;
	char *copy;

	(void)state;
	for (size_t n = 0; n < len; n++) {
		copy = malloc(n + !n);
		memcpy(copy, bytes, n);
		assert_int_equal(note_decode(&out, copy, n), -EPROTO);
		free(copy);
	}
	assert_int_equal(note_decode(&out, bytes, len), 0);
	in = (struct note){ .type = NOTE_TAKEN };
	len = note_encode(&in, bytes, sizeof(bytes));
	assert_int_equal(note_decode(&out, bytes, len), 0);
	assert_int_equal(note_decode(&out, bytes, len + 1), -EPROTO);
	bytes[2] ^= 1;
	assert_int_equal(note_decode(&out, bytes, len), -EPROTONOSUPPORT);
}

/* Whatever it says, a name has an end, and is not too long. */
static void bytes_at_random_are_refused_or_have_sense(void **state)
{
	uint64_t seed = 1;
	struct note out;
	char *copy;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		size_t len = (size_t)(rand() % 1400);

		copy = malloc(len + !len);
		for (size_t k = 0; k < len; k++)
			copy[k] = (char)(seed = seed * 6364136223846793005u +
					 1442695040888963407u, seed >> 56);
		if (len > 4 && i % 2)
			memcpy(copy, "\1\0\1\0", 4);
		if (!note_decode(&out, copy, len) && out.type == NOTE_HELLO) {
			assert_true(strlen(out.name) < NAME_BYTES);
			assert_true((const char *)out.desc + out.desc_len ==
				    copy + len);
		}
		free(copy);
	}
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_client_gets_nothing_from_outside),
		CASE(a_file_has_its_name_when_it_is_complete),
		CASE(file_beyond_the_size_limit_leaves_nothing),
		CASE(encoded_note_is_decoded),
		CASE(a_message_that_is_cut_short_is_refused),
		CASE(bytes_at_random_are_refused_or_have_sense),
	};

	return harness_run_plain(cases, N_OF(cases));
}
