/* SPDX-License-Identifier: BSD-3-Clause */

/* Operations on directories, links and attributes, <weir/fs.h>. */

#include "tests/support/harness.h"

#include <dirent.h>
#include <sys/xattr.h>

#include <weir/file.h>
#include <weir/fs.h>

#include "tests/support/sim-calls.h"

static struct rec rec;

static void start_it(int err)
{
	assert_int_equal(err, 0);
}

#define RUN(r, call) \
	(rec_init(&rec), start_it(call), finish(r, &rec))
#define ENDS(r, call, res) assert_int_equal(RUN(r, call), res)

static int open_dir(void **state)
{
	int fd = open(test_dir(state), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static uint32_t mode_of(struct weir_reactor *r, int dir, const char *path)
{
	struct statx stx;

	ENDS(r, weir_statx(r, &rec.op, dir, path, AT_SYMLINK_NOFOLLOW,
			   STATX_BASIC_STATS, &stx), 0);
	return stx.stx_mode;
}

static void mkdir_makes_a_directory_once(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int d = open_dir(state);

	ENDS(r, weir_mkdir(r, &rec.op, d, "sub", 0750), 0);
	assert_int_equal(mode_of(r, d, "sub") & (S_IFMT | 0750),
			 S_IFDIR | 0750);
	ENDS(r, weir_mkdir(r, &rec.op, d, "sub", 0750), -EEXIST);
	close(test_file(state, "file", 1, 0));
	ENDS(r, weir_mkdir(r, &rec.op, d, "file/sub", 0750), -ENOTDIR);
	ENDS(r, weir_mkdir(r, &rec.op, 1 << 20, "sub", 0750), -EBADF);
	ENDS(r, weir_unlink(r, &rec.op, d, "sub", AT_REMOVEDIR), 0);
	close(d);
}

static void link_makes_a_second_name_of_a_file(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int d = open_dir(state), fd = test_file(state, "a", 100, 1);
	struct statx stx;

	ENDS(r, weir_link(r, &rec.op, d, "a", d, "b", 0), 0);
	ENDS(r, weir_link(r, &rec.op, d, "a", d, "b", 0), -EEXIST);
	ENDS(r, weir_link(r, &rec.op, d, "none", d, "c", 0), -ENOENT);
	ENDS(r, weir_unlink(r, &rec.op, d, "a", 0), 0);
	ENDS(r, weir_statx(r, &rec.op, d, "b", 0, STATX_BASIC_STATS, &stx), 0);
	assert_int_equal(stx.stx_size, 100);
	assert_int_equal(stx.stx_nlink, 1);
	ENDS(r, weir_mkdir(r, &rec.op, d, "sub", 0700), 0);
	ENDS(r, weir_link(r, &rec.op, d, "sub", d, "c", 0), -EPERM);
	close(fd);
	close(d);
}

static void symbolic_link_contains_its_target(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int d = open_dir(state);
	char buf[16];

	memset(buf, 'x', sizeof(buf));
	ENDS(r, weir_symlink(r, &rec.op, "some/where", d, "l"), 0);
	assert_true(S_ISLNK(mode_of(r, d, "l")));
	ENDS(r, weir_readlink(r, &rec.op, d, "l", buf, sizeof(buf)), 10);
	assert_memory_equal(buf, "some/wherexxxxxx", 16);
	ENDS(r, weir_readlink(r, &rec.op, d, "l", buf, 4), 4);
	ENDS(r, weir_readlink(r, &rec.op, d, "l", buf, 0), -EINVAL);
	ENDS(r, weir_symlink(r, &rec.op, "x", d, "l"), -EEXIST);
	close(test_file(state, "file", 1, 0));
	ENDS(r, weir_readlink(r, &rec.op, d, "file", buf, 4), -EINVAL);
	close(d);
}

static void ftruncate_cuts_and_extends(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 1000, 1), d = open_dir(state);
	char in[200];

	ENDS(r, weir_ftruncate(r, &rec.op, fd, 100), 0);
	assert_int_equal(lseek(fd, 0, SEEK_END), 100);
	ENDS(r, weir_ftruncate(r, &rec.op, fd, 200), 0);
	ENDS(r, weir_read(r, &rec.op, fd, in, sizeof(in), 0), 200);
	assert_true(is_pattern(in, 100, 0, 1));
	assert_int_equal(in[100] | in[199], 0);
	ENDS(r, weir_ftruncate(r, &rec.op, d, 0), -EINVAL);
	ENDS(r, weir_ftruncate(r, &rec.op, 1 << 20, 0), -EBADF);
	close(fd);
	close(d);
}

static void chmod_sets_permissions_by_path_and_descriptor(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 1, 1), d = open_dir(state), path;

	ENDS(r, weir_chmod(r, &rec.op, d, "file", 0600, 0), 0);
	assert_int_equal(mode_of(r, d, "file"), S_IFREG | 0600);
	ENDS(r, weir_chmod(r, &rec.op, fd, "", 0640, AT_EMPTY_PATH), 0);
	assert_int_equal(mode_of(r, d, "file"), S_IFREG | 0640);
	path = open(test_path(state, "file"), O_PATH | O_CLOEXEC);
	ENDS(r, weir_chmod(r, &rec.op, path, "", 0644, AT_EMPTY_PATH), 0);
	assert_int_equal(mode_of(r, d, "file"), S_IFREG | 0644);
	ENDS(r, weir_chmod(r, &rec.op, d, "none", 0600, 0), -ENOENT);
	ENDS(r, weir_chmod(r, &rec.op, 1 << 20, "", 0600, AT_EMPTY_PATH),
	     -EBADF);
	assert_true(RUN(r, weir_chmod(r, &rec.op, fd, "", 0600,
				      AT_EMPTY_PATH | 1 << 20)) < 0);
	assert_int_equal(mode_of(r, d, "file"), S_IFREG | 0644);
	ENDS(r, weir_symlink(r, &rec.op, "file", d, "l"), 0);
	ENDS(r, weir_chmod(r, &rec.op, d, "l", 0600, AT_SYMLINK_NOFOLLOW),
	     -EOPNOTSUPP);
	assert_int_equal(mode_of(r, d, "file"), S_IFREG | 0644);
	close(path);
	close(fd);
	close(d);
}

static void chown_leaves_what_is_not_named(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 1, 1), d = open_dir(state);
	struct stat st;

	ENDS(r, weir_chown(r, &rec.op, d, "file", getuid(), (gid_t)-1, 0), 0);
	ENDS(r, weir_chown(r, &rec.op, fd, "", (uid_t)-1, getgid(),
			   AT_EMPTY_PATH), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_uid, getuid());
	assert_int_equal(st.st_gid, getgid());
	if (!getuid()) {
		ENDS(r, weir_chown(r, &rec.op, d, "file", 4711, 4712, 0), 0);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_uid, 4711);
		assert_int_equal(st.st_gid, 4712);
	}
	ENDS(r, weir_chown(r, &rec.op, d, "none", 0, 0, 0), -ENOENT);
	close(fd);
	close(d);
}

static void utimens_sets_both_times_or_one(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 1, 1), d = open_dir(state);
	struct timespec times[2] = { { 1000, 5 }, { 2000, 6 } };
	struct stat st;

	ENDS(r, weir_utimens(r, &rec.op, d, "file", times, 0), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_atim.tv_sec, 1000);
	assert_int_equal(st.st_mtim.tv_sec, 2000);
	assert_int_equal(st.st_mtim.tv_nsec, 6);
	times[0].tv_nsec = UTIME_OMIT;
	times[1].tv_sec = 3000;
	ENDS(r, weir_utimens(r, &rec.op, fd, "", times, AT_EMPTY_PATH), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_atim.tv_sec, 1000);
	assert_int_equal(st.st_mtim.tv_sec, 3000);
	ENDS(r, weir_utimens(r, &rec.op, d, "file", NULL, 0), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(st.st_mtim.tv_sec > 3000);
	ENDS(r, weir_utimens(r, &rec.op, d, "none", NULL, 0), -ENOENT);
	ENDS(r, weir_utimens(r, &rec.op, fd, "", NULL, AT_EMPTY_PATH | 1 << 20),
	     -EINVAL);
	close(fd);
	close(d);
}

static void attributes_are_set_read_listed_and_removed(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 1, 1);
	char buf[64];

	if (fsetxattr(fd, "user.weir", "v", 1, 0)) {
		close(fd);
		skip_because("no extended attributes on the file system of "
			     "the tests");
	}
	ENDS(r, weir_xattr_set(r, &rec.op, fd, "user.weir", "value", 5, 0), 0);
	ENDS(r, weir_xattr_set(r, &rec.op, fd, "user.weir", "other", 5,
			       XATTR_CREATE), -EEXIST);
	ENDS(r, weir_xattr_get(r, &rec.op, fd, "user.weir", NULL, 0), 5);
	ENDS(r, weir_xattr_get(r, &rec.op, fd, "user.weir", buf, 64), 5);
	assert_memory_equal(buf, "value", 5);
	ENDS(r, weir_xattr_get(r, &rec.op, fd, "user.weir", buf, 4), -ERANGE);
	ENDS(r, weir_xattr_list(r, &rec.op, fd, buf, 64), 10);
	assert_memory_equal(buf, "user.weir", 10);
	ENDS(r, weir_xattr_list(r, &rec.op, fd, buf, 9), -ERANGE);
	ENDS(r, weir_xattr_remove(r, &rec.op, fd, "user.weir"), 0);
	ENDS(r, weir_xattr_remove(r, &rec.op, fd, "user.weir"), -ENODATA);
	ENDS(r, weir_xattr_get(r, &rec.op, fd, "user.weir", buf, 64),
	     -ENODATA);
	close(fd);
}

/* What "f" and a number name has been found. */
struct found {
	unsigned int files, dirs, dots, other;
	unsigned char times[300];
};

static void look_at(struct found *f, const struct weir_dirent *e)
{
	unsigned int n;
	char end;

	assert_true(e->ino != 0);
	if (!strcmp(e->name, ".") || !strcmp(e->name, "..")) {
		f->dots++;
	} else if (!strcmp(e->name, "sub")) {
		assert_int_equal(e->type, DT_DIR);
		f->dirs++;
	} else if (sscanf(e->name, "f%u%c", &n, &end) == 1 && n < 300) {
		assert_int_equal(e->type, DT_REG);
		f->files++;
		f->times[n]++;
	} else {
		f->other++;
	}
}

/* All entries, by buffers of @len bytes. */
static struct found scan(struct weir_reactor *r, int d, size_t len)
{
	uint64_t buf[512];
	const struct weir_dirent *e;
	struct found f = { 0 };
	int64_t n;
	size_t at;

	while ((n = RUN(r, weir_readdir(r, &rec.op, d, buf, len))) > 0) {
		assert_true((size_t)n <= len);
		for (at = 0; (e = weir_dirent_next(buf, n, &at));)
			look_at(&f, e);
	}
	assert_int_equal(n, 0);
	return f;
}

static void directory_gives_each_entry_once(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int d = open_dir(state), i, fd;
	struct found f;
	char name[16];

	for (i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		fd = (int)RUN(r, weir_open(r, &rec.op, d, name,
					   O_CREAT | O_WRONLY, 0600));
		assert_true(fd >= 0);
		close(fd);
	}
	ENDS(r, weir_mkdir(r, &rec.op, d, "sub", 0700), 0);
	close(test_file(state, "sub/f0", 1, 0));
	for (size_t len = 280; len <= 4096; len *= 3) {
		f = scan(r, d, len);
		assert_int_equal(f.files, 300);
		assert_int_equal(f.dirs, 1);
		assert_int_equal(f.dots, 2);
		assert_int_equal(f.other, 0);
		for (i = 0; i < 300; i++)
			assert_int_equal(f.times[i], 1);
		assert_int_equal(lseek(d, 0, SEEK_SET), 0);
	}
	close(d);
}

static void directory_is_read_on_from_place_of_an_entry(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	uint64_t buf[512], next[64];
	const struct weir_dirent *e[16], *after;
	size_t at = 0, n = 0, begin;
	int d = open_dir(state);
	char name[] = "a";
	int64_t len;

	for (; *name <= 'j'; ++*name)
		ENDS(r, weir_mkdir(r, &rec.op, d, name, 0700), 0);
	len = RUN(r, weir_readdir(r, &rec.op, d, buf, sizeof(buf)));
	while ((e[n] = weir_dirent_next(buf, len, &at)))
		n++;
	assert_int_equal(n, 12);
	/* Back, and then to and fro. */
	for (size_t i = 0; i < 2 * n; i++) {
		at = i < n ? n - 1 - i : i * 5 % n;
		assert_int_equal(lseek(d, e[at]->off, SEEK_SET), e[at]->off);
		len = RUN(r, weir_readdir(r, &rec.op, d, next, sizeof(next)));
		begin = 0;
		after = weir_dirent_next(next, len, &begin);
		assert_int_equal(!after, at == n - 1);
		if (after)
			assert_string_equal(after->name, e[at + 1]->name);
	}
	close(d);
}

static void readdir_of_a_file_or_into_nothing_fails(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int d = open_dir(state), fd = test_file(state, "file", 1, 0);
	uint64_t buf[64];
	size_t at = 0;

	ENDS(r, weir_readdir(r, &rec.op, fd, buf, sizeof(buf)), -ENOTDIR);
	ENDS(r, weir_readdir(r, &rec.op, d, buf, 8), -EINVAL);
	assert_null(weir_dirent_next(buf, -EINVAL, &at));
	assert_null(weir_dirent_next(buf, 0, &at));
	close(fd);
	close(d);
}

#define REFUSED(call) assert_int_equal(call, -EINVAL)

static void arguments_that_are_none_are_einval(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_op *op = &rec.op;

	rec_init(&rec);
	REFUSED(weir_mkdir(r, op, AT_FDCWD, NULL, 0700));
	REFUSED(weir_link(r, op, AT_FDCWD, NULL, AT_FDCWD, "x", 0));
	REFUSED(weir_link(r, op, AT_FDCWD, "x", AT_FDCWD, NULL, 0));
	REFUSED(weir_symlink(r, op, NULL, AT_FDCWD, "x"));
	REFUSED(weir_symlink(r, op, "x", AT_FDCWD, NULL));
	REFUSED(weir_readlink(r, op, AT_FDCWD, NULL, (char *)&rec, 1));
	REFUSED(weir_readlink(r, op, AT_FDCWD, "x", NULL, 1));
	REFUSED(weir_ftruncate(r, op, 0, (uint64_t)INT64_MAX + 1));
	REFUSED(weir_chmod(r, op, AT_FDCWD, NULL, 0, 0));
	REFUSED(weir_chown(r, op, AT_FDCWD, NULL, 0, 0, 0));
	REFUSED(weir_utimens(r, op, AT_FDCWD, NULL, NULL, 0));
	REFUSED(weir_xattr_get(r, op, 0, NULL, NULL, 0));
	REFUSED(weir_xattr_get(r, op, 0, "x", NULL, 1));
	REFUSED(weir_xattr_set(r, op, 0, NULL, NULL, 0, 0));
	REFUSED(weir_xattr_set(r, op, 0, "x", NULL, 1, 0));
	REFUSED(weir_xattr_list(r, op, 0, NULL, 1));
	REFUSED(weir_xattr_list(r, op, 0, (char *)&rec, SIZE_MAX));
	REFUSED(weir_xattr_remove(r, op, 0, NULL));
	REFUSED(weir_readdir(r, op, 0, NULL, 1));
	some_turns(r, 2);
	assert_int_equal(rec.calls, 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(mkdir_makes_a_directory_once),
		CASE(link_makes_a_second_name_of_a_file),
		REAL(symbolic_link_contains_its_target),
		CASE(ftruncate_cuts_and_extends),
		REAL(chmod_sets_permissions_by_path_and_descriptor),
		REAL(chown_leaves_what_is_not_named),
		REAL(utimens_sets_both_times_or_one),
		REAL(attributes_are_set_read_listed_and_removed),
		CASE(directory_gives_each_entry_once),
		CASE(directory_is_read_on_from_place_of_an_entry),
		CASE(readdir_of_a_file_or_into_nothing_fails),
		CASE(arguments_that_are_none_are_einval),
	};

	return harness_run_all(cases, N_OF(cases));
}
