/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Export and import: rights, seals, what is refused, and how it ends.  A1.18 to
 * A1.24 of the catalogue; what an enemy sends stands in test-export-hostile.c,
 * the server in test-exporter.c.
 */

#include "tests/support/export-fixture.h"

#include "tests/support/job-fixture.h"
#include "tests/support/table-fixture.h"

#include <weir/inventory.h>
#include <weir/segment.h>

#include "base/fault.h"

/* Say where the parcel is, and import it; in the other process. */
static struct weir_mmap *import_there(int sock)
{
	struct weir_mmap *m = NULL;
	struct parcel p;

	EXPECT(!parcel_recv(sock, &p));
	EXPECT(!parcel_import(&m, &p, NULL));
	parcel_drop(&p);
	return m;
}

static void read_and_write_there(int sock, void *arg)
{
	struct weir_mmap *m = import_there(sock);
	char *addr = fixture_addr(m);

	(void)arg;
	EXPECT(is_pattern(addr, FIXTURE_LEN, 0, 1));
	fill_pattern(addr, FIXTURE_LEN, 0, 2);
	EXPECT(!say(sock));
	EXPECT(!hear(sock));
	EXPECT(is_pattern(addr, FIXTURE_LEN, 0, 3));
	EXPECT(!weir_mmap_destroy(m));
}

static void exporter_and_importer_see_the_same_bytes(void **state)
{
	struct weir_mmap *m;
	struct parcel p;
	struct proc proc;

	(void)state;
	proc_begin(&proc, read_and_write_there, NULL);
	m = fixture_started(FIXTURE_LEN, RW);
	fill_pattern(fixture_addr(m), FIXTURE_LEN, 0, 1);
	parcel_of(&p, m, NULL);
	assert_int_equal(parcel_send(proc.sock, &p), 0);
	assert_int_equal(hear(proc.sock), 0);
	assert_true(is_pattern(fixture_addr(m), FIXTURE_LEN, 0, 2));
	fill_pattern(fixture_addr(m), FIXTURE_LEN, 0, 3);
	assert_int_equal(say(proc.sock), 0);
	assert_int_equal(proc_end(&proc), 0);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/* Each has its own piece of the one memfd. */
static void write_a_piece_there(int sock, void *arg)
{
	struct weir_mmap *m = import_there(sock);
	size_t i = *(size_t *)arg;

	fill_pattern(fixture_addr(m) + i * 1000, 1000, 0, (unsigned int)i);
}

static void export_is_imported_by_many_processes(void **state)
{
	struct proc procs[8];
	struct weir_mmap *m;
	struct parcel p;
	size_t i;

	(void)state;
	for (i = 0; i < N_OF(procs); i++)
		proc_begin(&procs[i], write_a_piece_there, &i);
	m = fixture_started(FIXTURE_LEN, RW);
	parcel_of(&p, m, NULL);
	for (i = 0; i < N_OF(procs); i++)
		assert_int_equal(parcel_send(procs[i].sock, &p), 0);
	for (i = 0; i < N_OF(procs); i++)
		assert_int_equal(proc_end(&procs[i]), 0);
	for (i = 0; i < N_OF(procs); i++)
		assert_true(is_pattern(fixture_addr(m) + i * 1000, 1000, 0,
				       (unsigned int)i));
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

static int export_with(struct weir_mmap *m, uint32_t permissions)
{
	struct weir_export_opts opts = {
		.size = sizeof(opts), .permissions = permissions,
	};
	struct weir_export_desc desc = { .size = sizeof(desc) };

	return weir_mmap_export(m, &opts, &desc);
}

/* A1.18 */
static void mmap_must_be_started_with_a_right_to_be_exported(void **state)
{
	struct weir_mmap *m = fixture_mmap(FIXTURE_LEN, RO);

	(void)state;
	assert_int_equal(export_with(m, 0), -EBADFD);
	assert_int_equal(weir_mmap_is_exported(m), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(export_with(m, WEIR_MMAP_PEER_WRITE), -EACCES);
	assert_int_equal(export_with(m, WEIR_MMAP_READ), -EINVAL);
	assert_int_equal(weir_mmap_is_exported(m), 0);
	assert_int_equal(export_with(m, 0), 0);
	assert_int_equal(weir_mmap_is_exported(m), 1);	/* A1.23 */
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_is_exported(m), 0);
	assert_int_equal(weir_mmap_set_permissions(m, WEIR_MMAP_WRITE), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(export_with(m, 0), -EACCES);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/* A1.20 */
static void exporting_again_gives_what_is_as_good(void **state)
{
	struct weir_export_opts opts = { .size = sizeof(opts) };
	struct weir_export_desc a = { .size = sizeof(a) }, b = a;
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RW), *im = NULL;
	uint64_t i;
	int err = 0;

	(void)state;
	assert_int_equal(weir_mmap_export(m, NULL, &a), 0);
	assert_int_equal(weir_mmap_export(m, NULL, &b), 0);
	assert_ptr_equal(a.bytes, b.bytes);
	for (i = 1; i < 300 && !err; i++) {
		opts.not_after = UINT64_C(1) << 40 | i;
		err = weir_mmap_export(m, &opts, &b);
		if (!err)
			assert_ptr_not_equal(a.bytes, b.bytes);
	}
	assert_int_equal(err, -EAGAIN);
	assert_int_equal(i, 257);
	assert_int_equal(weir_mmap_import(&im, a.bytes, a.len, a.fds, a.n_fds,
					  NULL), 0);
	assert_int_equal(weir_mmap_destroy(im), 0);
	assert_int_equal(weir_mmap_import(&im, b.bytes, b.len, b.fds, b.n_fds,
					  NULL), 0);
	assert_int_equal(weir_mmap_destroy(im), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

static void try_to_write_there(int sock, void *arg)
{
	struct weir_mmap *m = NULL;
	char self[64];
	struct parcel p;
	int fd;

	(void)arg;
	EXPECT(!parcel_recv(sock, &p));
	EXPECT(!parcel_import(&m, &p, NULL));
	EXPECT(weir_mmap_permissions(m) == WEIR_MMAP_READ);
	EXPECT(is_pattern(fixture_addr(m), FIXTURE_LEN, 0, 1));
	EXPECT(mprotect(fixture_addr(m), 4096, PROT_READ | PROT_WRITE) == -1);
	snprintf(self, sizeof(self), "/proc/self/fd/%d", p.fds[0]);
	fd = open(self, O_RDWR | O_CLOEXEC);
	EXPECT(fd >= 0);
	EXPECT(mmap(NULL, FIXTURE_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    0) == MAP_FAILED &&
	       errno == EPERM);
	EXPECT(pwrite(fd, "x", 1, 0) == -1 && errno == EPERM);
	EXPECT(ftruncate(fd, 0) == -1 && errno == EPERM);
	EXPECT(ftruncate(fd, 1 << 20) == -1 && errno == EPERM);
	EXPECT(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			 4096) == -1 && errno == EPERM);
	EXPECT(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == -1);
	snprintf(self, sizeof(self), "/proc/self/fd/%d", p.fds[1]);
	fd = open(self, O_RDWR | O_CLOEXEC);
	EXPECT(fd >= 0);
	EXPECT(pwrite(fd, "x", 1, 0) == -1 && errno == EPERM);
	EXPECT(ftruncate(fd, 0) == -1 && errno == EPERM);
}

static void importer_with_the_right_to_read_cannot_write(void **state)
{
	struct weir_mmap *m;
	struct parcel p;
	struct proc proc;

	(void)state;
	proc_begin(&proc, try_to_write_there, NULL);
	m = fixture_started(FIXTURE_LEN, RO);
	parcel_of(&p, m, NULL);
	/* The exporter's own mapping is older than the seal. */
	fill_pattern(fixture_addr(m), FIXTURE_LEN, 0, 1);
	assert_int_equal(parcel_send(proc.sock, &p), 0);
	assert_int_equal(proc_end(&proc), 0);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

static void importer_with_the_right_to_write_cannot_truncate(void **state)
{
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RW);
	struct parcel p;

	(void)state;
	parcel_of(&p, m, NULL);
	assert_int_equal(ftruncate(p.fds[0], 0), -1);
	assert_int_equal(ftruncate(p.fds[0], 1 << 20), -1);
	assert_int_equal(fcntl(p.fds[0], F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_int_equal(fcntl(p.fds[0], F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

static void a_memfd_has_one_right_for_all(void **state)
{
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RW);

	(void)state;
	assert_int_equal(export_with(m, RO), 0);
	assert_int_equal(export_with(m, RO), 0);
	assert_int_equal(export_with(m, RW), -EACCES);
	assert_int_equal(weir_mmap_destroy(m), 0);

	m = fixture_started(FIXTURE_LEN, RW);
	assert_int_equal(export_with(m, WEIR_MMAP_PEER_WRITE), 0);
	assert_int_equal(export_with(m, RW), 0);
	assert_int_equal(export_with(m, RO), -EACCES);
	/* The file is as it is, also for the next life. */
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(export_with(m, RO), -EACCES);
	assert_int_equal(export_with(m, RW), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

static void an_import_is_held_to_the_address_mask(void **state)
{
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RW), *im = NULL;
	struct parcel p;

	(void)state;
	parcel_of(&p, m, NULL);
	assert_int_equal(weir_segment_set_mask(12), 0);
	assert_int_equal(parcel_import(&im, &p, NULL), -ERANGE);
	assert_int_equal(weir_segment_set_mask(0), 0);
	assert_null(im);
	assert_ptr_equal(strstr(weir_why(), "weir_mmap_import: "), weir_why());
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

static void an_importer_can_take_less_but_not_more(void **state)
{
	struct weir_import_opts less = {
		.size = sizeof(less), .permissions = WEIR_MMAP_READ,
		.user_data = &less,
	};
	struct weir_import_opts more = {
		.size = sizeof(more), .permissions = WEIR_MMAP_WRITE,
	};
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RW), *im = NULL;
	struct parcel p;

	(void)state;
	parcel_of(&p, m, NULL);
	assert_int_equal(parcel_import(&im, &p, &less), 0);
	assert_int_equal(weir_mmap_permissions(im), WEIR_MMAP_READ);
	assert_ptr_equal(weir_mmap_user_data(im), &less);
	/* The kernel may not write there either. */
	assert_int_equal(pread(p.fds[0], fixture_addr(im), 1, 0), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(weir_mmap_destroy(im), 0);
	assert_int_equal(parcel_import(&im, &p, &more), 0);
	assert_int_equal(weir_mmap_permissions(im),
			 WEIR_MMAP_READ | WEIR_MMAP_WRITE);
	assert_int_equal(weir_mmap_destroy(im), 0);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);

	m = fixture_started(FIXTURE_LEN, RO);
	parcel_of(&p, m, NULL);
	im = NULL;
	assert_int_equal(parcel_import(&im, &p, &more), -EACCES);
	more.permissions = 4;
	assert_int_equal(parcel_import(&im, &p, &more), -EINVAL);
	assert_null(im);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/* Ranges whose memfd is not theirs alone. */
static void memory_that_cannot_be_shared_is_refused(void **state)
{
	static const struct {
		const char *name;
		off_t size, off;
		size_t len;
		unsigned int flags;
		int behind;
		int want;
	} rows[] = {
		{ "all of it", 8192, 0, 8192, MFD_ALLOW_SEALING, 0, 0 },
		{ "all but the padding", 8192, 0, 8000, MFD_ALLOW_SEALING, 0,
		  0 },
		{ "something in the padding", 8192, 0, 8000, MFD_ALLOW_SEALING,
		  1, -EOPNOTSUPP },
		{ "no whole pages", 10000, 0, 10000, MFD_ALLOW_SEALING, 0, 0 },
		{ "not all of it", 10000, 0, 9000, MFD_ALLOW_SEALING, 0, 0 },
		{ "something behind the range", 10000, 0, 9000,
		  MFD_ALLOW_SEALING, 1, -EOPNOTSUPP },
		{ "part of a page more", 10000, 0, 8192, MFD_ALLOW_SEALING, 0,
		  -EOPNOTSUPP },
		{ "a page more", 12288, 0, 8192, MFD_ALLOW_SEALING, 0,
		  -EOPNOTSUPP },
		{ "a page before", 12288, 4096, 8192, MFD_ALLOW_SEALING, 0,
		  -EOPNOTSUPP },
		{ "no seals possible", 8192, 0, 8192, 0, 0, -EOPNOTSUPP },
	};
	struct weir_mmap *m;
	size_t i;
	int fd, got;

	(void)state;
	for (i = 0; i < N_OF(rows); i++) {
		fd = memfd_create("test", MFD_CLOEXEC | rows[i].flags);
		assert_int_equal(ftruncate(fd, rows[i].size), 0);
		if (rows[i].behind)
			assert_int_equal(pwrite(fd, "x", 1, rows[i].size - 1),
					 1);
		assert_int_equal(weir_mmap_create(&m, NULL), 0);
		assert_int_equal(weir_mmap_set_fd(m, fd, (uint64_t)rows[i].off,
						  rows[i].len,
						  WEIR_MMAP_FD_TRUSTED), 0);
		assert_int_equal(weir_mmap_set_permissions(m,
				 WEIR_MMAP_WRITE | RW), 0);
		assert_int_equal(weir_mmap_start(m), 0);
		got = export_with(m, 0);
		if (got != rows[i].want)
			fail_msg("%s: %d", rows[i].name, got);
		assert_int_equal(weir_mmap_destroy(m), 0);
		close(fd);
	}
}

/* As a program makes it that never heard of pages, and seals what it may. */
static void memfd_of_10000_bytes_is_shared(void **state)
{
	const size_t len = 10000, page = 4096;
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct weir_mmap *m, *im;
	struct parcel p;
	char *near, *far;

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW),
			 0);
	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_set_fd(m, fd, 0, len, 0), 0);
	assert_int_equal(weir_mmap_set_permissions(m, WEIR_MMAP_WRITE | RW), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_mmap_memrange(m, (void **)&near, NULL), 0);

	/* The kernel would show importers what is behind the end, too. */
	near[3 * page - 1] = 'x';
	assert_int_equal(export_with(m, 0), -EOPNOTSUPP);
	near[3 * page - 1] = 0;

	parcel_of(&p, m, NULL);
	assert_int_equal(parcel_import(&im, &p, NULL), 0);
	assert_int_equal(weir_mmap_memrange(im, (void **)&far, NULL), 0);
	near[len - 1] = 'n';
	assert_int_equal(far[len - 1], 'n');
	far[0] = 'f';
	assert_int_equal(near[0], 'f');
	assert_int_equal(weir_mmap_destroy(im), 0);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
	close(fd);
}

static void plain_memory_and_files_are_refused(void **state)
{
	static char mem[8192] __attribute__((aligned(4096)));
	struct weir_mmap *m = start_mmap(mem, sizeof(mem),
					 WEIR_MMAP_WRITE | RW);
	int fd;

	assert_int_equal(export_with(m, 0), -EOPNOTSUPP);
	assert_non_null(strstr(weir_why(), "WEIR_EXPORT_COPY"));
	assert_int_equal(weir_mmap_destroy(m), 0);

	fd = test_file(state, "file", 8192, 1);
	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_set_fd(m, fd, 0, 8192, WEIR_MMAP_FD_TRUSTED),
			 0);
	assert_int_equal(weir_mmap_set_permissions(m, RO), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(export_with(m, 0), -EOPNOTSUPP);
	assert_int_equal(weir_mmap_destroy(m), 0);
	close(fd);
}

static void unknown_options_are_refused(void **state)
{
	struct weir_export_opts opts = { .size = sizeof(opts), .flags = 8 };
	struct weir_import_opts import = { .size = sizeof(import) };
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RO), *im = NULL;

	(void)state;
	assert_int_equal(weir_mmap_export(m, &opts, &desc), -EINVAL);
	opts.flags = 0;
	opts.key_len = 1;
	assert_int_equal(weir_mmap_export(m, &opts, &desc), -EINVAL);
	opts.key = "too short";
	assert_int_equal(weir_mmap_export(m, &opts, &desc), -EINVAL);
	desc.size = 4;
	assert_int_equal(weir_mmap_export(m, NULL, &desc), -EINVAL);
	assert_int_equal(weir_mmap_is_exported(m), 0);
	import.flags = 2;
	assert_int_equal(weir_mmap_import(&im, "x", 1, desc.fds, 3, &import),
			 -EINVAL);
	import.flags = 0;
	import.key_len = 1;
	assert_int_equal(weir_mmap_import(&im, "x", 1, desc.fds, 3, &import),
			 -EINVAL);
	assert_int_equal(weir_mmap_import(&im, NULL, 1, desc.fds, 3, NULL),
			 -EINVAL);
	assert_int_equal(weir_mmap_import(&im, "x", 1, NULL, 3, NULL), -EINVAL);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

static void keyed_export_is_imported_by_holders_of_the_key_only(void **state)
{
	struct weir_export_opts opts = {
		.size = sizeof(opts), .key = "sixteen bytes...", .key_len = 16,
	};
	struct weir_import_opts import = {
		.size = sizeof(import), .key = "sixteen bytes...",
		.key_len = 16,
	};
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RO), *im = NULL;
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct parcel p;

	(void)state;
#ifndef HAVE_LIBSODIUM
	assert_int_equal(weir_mmap_export(m, &opts, &desc), -EOPNOTSUPP);
	assert_int_equal(weir_mmap_is_exported(m), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	skip_because("built without libsodium");
#endif
	assert_int_equal(weir_mmap_export(m, &opts, &desc), 0);
	parcel_of(&p, m, &opts);
	assert_int_equal(parcel_import(&im, &p, NULL), -EKEYREJECTED);
	import.key = "sixteen others..";
	assert_int_equal(parcel_import(&im, &p, &import), -EKEYREJECTED);
	import.key = opts.key;
	assert_int_equal(parcel_import(&im, &p, &import), 0);
	assert_int_equal(weir_mmap_destroy(im), 0);
	parcel_drop(&p);
	parcel_of(&p, m, NULL);
	assert_int_equal(parcel_import(&im, &p, &import), -EKEYREJECTED);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

static void stopped_export_cannot_be_imported(void **state)
{
	struct weir_export_opts opts = { .size = sizeof(opts), .not_after = 1 };
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RO), *im = NULL;
	struct parcel p;

	(void)state;
	parcel_of(&p, m, &opts);
	assert_int_equal(parcel_import(&im, &p, NULL), -EKEYEXPIRED);
	assert_null(im);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/* A1.13, A1.22; acceptance 23 */
static void a_stop_revokes(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RW), *im = NULL,
			 *late;
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	struct weir_inventory *inv;
	struct weir_buf *buf, *kept;
	struct parcel p;
	struct jrec j;

	assert_int_equal(weir_inventory_create(&inv, r, NULL), 0);
	parcel_of(&p, m, NULL);
	assert_int_equal(parcel_import(&im, &p, NULL), 0);
	assert_int_equal(weir_mmap_is_stale(im), 0);
	assert_int_equal(weir_inventory_attach(inv, im), 0);
	assert_int_equal(weir_inventory_get(&kept, inv, im, fixture_addr(im),
					    100, NULL, 0),
			 0);
	jrec_init(&j);
	weir_job_fill(&j.job, weir_operand_buf(kept), 7);
	assert_int_equal(jrec_run(dma, &j), 100);
	assert_int_equal(fixture_addr(m)[96], 7);

	assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_is_stale(im), 1);
	assert_int_equal(weir_mmap_is_stale(m), 0);
	assert_int_equal(weir_inventory_get(&buf, inv, im, fixture_addr(im),
					    100, NULL, 0),
			 -ESTALE);
	weir_buf_reset(kept);
	jrec_init(&j);
	weir_job_fill(&j.job, weir_operand_buf(kept), 8);
	assert_int_equal(weir_job_start(dma, &j.job), -ESTALE);
	assert_int_equal(fixture_addr(im)[96], 7);
	assert_int_equal(parcel_import(&late, &p, NULL), -ESTALE);
	weir_buf_put(kept);

	/* A new life is another export. */
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_mmap_is_stale(im), 1);
	parcel_drop(&p);
	parcel_of(&p, m, NULL);
	assert_int_equal(parcel_import(&late, &p, NULL), 0);
	assert_int_equal(weir_mmap_is_stale(late), 0);
	assert_int_equal(weir_mmap_destroy(late), 0);
	parcel_drop(&p);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(im), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
}

static void a_job_under_way_ends_stale(void **state)
{
	static char spent[65536];
	struct weir_reactor *r = start_reactor(state);
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RW), *im = NULL;
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){
		.turn_bytes = sizeof(spent) });
	struct weir_inventory *inv;
	struct weir_buf *buf;
	struct jrec first, j;
	struct parcel p;

	assert_int_equal(weir_inventory_create(&inv, r, NULL), 0);
	parcel_of(&p, m, NULL);
	assert_int_equal(parcel_import(&im, &p, NULL), 0);
	parcel_drop(&p);
	assert_int_equal(weir_inventory_attach(inv, im), 0);
	assert_int_equal(weir_inventory_get(&buf, inv, im, fixture_addr(im),
					    100, NULL, 0),
			 0);
	spend_budget(dma, &first, spent, sizeof(spent));
	jrec_init(&j);
	weir_job_fill(&j.job, weir_operand_buf(buf), 7);
	STARTS(weir_job_start(dma, &j.job));
	assert_int_equal(weir_mmap_revoke(m, NULL, NULL), -EINPROGRESS);
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), -EBUSY);
	assert_int_equal(jrec_finish(r, &j), -ESTALE);
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
	assert_int_equal(weir_buf_data_len(buf), 0);
	weir_buf_put(buf);
	assert_int_equal(first.calls, 1);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(im), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
}

static void a_watch_ends_when_the_exporter_stops(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RW), *im = NULL;
	struct parcel p;
	struct rec rec[3];
	int i;

	parcel_of(&p, m, NULL);
	assert_int_equal(parcel_import(&im, &p, NULL), 0);
	parcel_drop(&p);
	for (i = 0; i < 3; i++) {
		rec_init(&rec[i]);
		if (i == 2)
			weir_op_set_deadline(&rec[i].op, weir_reactor_now(r) +
							 WEIR_MSEC);
		STARTS(weir_mmap_watch(im, r, &rec[i].op));
	}
	assert_int_equal(weir_mmap_watch(im, r, &rec[0].op), -EINVAL);
	assert_int_equal(weir_mmap_destroy(im), -EBUSY);
	assert_int_equal(weir_op_cancel(&rec[1].op), 0);
	UNTIL(r, rec[1].calls && rec[2].calls);
	assert_int_equal(rec[1].res, -ECANCELED);
	assert_int_equal(rec[2].res, -ETIMEDOUT);
	assert_int_equal(rec[0].calls, 0);
	assert_int_equal(weir_mmap_is_stale(im), 0);
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
	assert_int_equal(finish(r, &rec[0]), -ESTALE);
	rec_init(&rec[0]);
	STARTS(weir_mmap_watch(im, r, &rec[0].op));
	assert_int_equal(finish(r, &rec[0]), -ESTALE);
	assert_int_equal(weir_mmap_watch(m, r, &rec[0].op), -EINVAL);
	assert_int_equal(weir_mmap_destroy(im), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/* Make an mmap, send it, and wait to be killed. */
static void export_and_wait_there(int sock, void *arg)
{
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RW);
	struct parcel p;

	(void)arg;
	fill_pattern(fixture_addr(m), FIXTURE_LEN, 0, 5);
	parcel_of(&p, m, NULL);
	EXPECT(!parcel_send(sock, &p));
	hear(sock);
}

static void a_dead_exporter_is_noticed_and_takes_nothing(void **state)
{
	struct weir_reactor *r;
	struct weir_mmap *im = NULL;
	struct parcel p;
	struct proc proc;
	struct rec rec;

	proc_begin(&proc, export_and_wait_there, NULL);
	r = start_reactor(state);
	assert_int_equal(parcel_recv(proc.sock, &p), 0);
	assert_int_equal(parcel_import(&im, &p, NULL), 0);
	parcel_drop(&p);
	rec_init(&rec);
	STARTS(weir_mmap_watch(im, r, &rec.op));
	some_turns(r, 3);
	assert_int_equal(rec.calls, 0);
	proc_kill(&proc);
	assert_int_equal(finish(r, &rec), -ESTALE);
	assert_int_equal(weir_mmap_is_stale(im), 1);
	assert_true(is_pattern(fixture_addr(im), FIXTURE_LEN, 0, 5));
	fill_pattern(fixture_addr(im), FIXTURE_LEN, 0, 6);
	assert_int_equal(weir_mmap_destroy(im), 0);
}

static void import_and_wait_there(int sock, void *arg)
{
	struct weir_mmap *m = import_there(sock);

	(void)arg;
	fill_pattern(fixture_addr(m), FIXTURE_LEN, 0, 6);
	EXPECT(!say(sock));
	hear(sock);
}

static void a_dead_importer_takes_nothing(void **state)
{
	struct weir_mmap *m;
	struct parcel p;
	struct proc proc;

	(void)state;
	proc_begin(&proc, import_and_wait_there, NULL);
	m = fixture_started(FIXTURE_LEN, RW);
	parcel_of(&p, m, NULL);
	assert_int_equal(parcel_send(proc.sock, &p), 0);
	assert_int_equal(hear(proc.sock), 0);
	proc_kill(&proc);
	assert_true(is_pattern(fixture_addr(m), FIXTURE_LEN, 0, 6));
	fill_pattern(fixture_addr(m), FIXTURE_LEN, 0, 7);
	assert_int_equal(export_with(m, 0), 0);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

static void an_import_outlives_the_exporters_mmap(void **state)
{
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RW), *im = NULL;
	struct parcel p;

	(void)state;
	fill_pattern(fixture_addr(m), FIXTURE_LEN, 0, 1);
	parcel_of(&p, m, NULL);
	assert_int_equal(parcel_import(&im, &p, NULL), 0);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_mmap_is_stale(im), 1);
	assert_true(is_pattern(fixture_addr(im), FIXTURE_LEN, 0, 1));
	assert_int_equal(weir_mmap_destroy(im), 0);
}

/* Every allocation and system call fails once. */
static void failed_export_leaves_nothing_behind(void **state)
{
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RW), *im;
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct parcel p;
	int n, err;

	(void)state;
	for (n = 0; n < 100; n++) {
		fault_arm(n);
		err = weir_mmap_export(m, NULL, &desc);
		if (!fault_disarm())
			break;
		assert_true(err < 0);
		assert_int_equal(weir_mmap_is_exported(m), 0);
	}
	assert_true(n > 5 && n < 100);
	assert_int_equal(err, 0);
	parcel_of(&p, m, NULL);
	for (n = 0; n < 100; n++) {
		im = NULL;
		fault_arm(n);
		err = parcel_import(&im, &p, NULL);
		if (!fault_disarm())
			break;
		assert_true(err < 0);
		assert_null(im);
	}
	assert_true(n > 5 && n < 100);
	assert_int_equal(weir_mmap_destroy(im), 0);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/* The columns of the table. */
enum column { EXPORTED, IMPORTED, REVOKED, WATCHED };

static const char *const columns[] = {
	"STARTED, exported", "imported", "imported, revoked",
	"imported, watched",
};

struct fixture {
	struct weir_reactor *r;
	struct weir_inventory *inv, *second;
	struct weir_mmap *m;		/* The one that is looked at. */
	struct weir_mmap *other;	/* Its exporter's, or NULL. */
	struct rec watch;
};

static void fixture_begin(struct fixture *g, void **state, enum column col)
{
	struct weir_inventory_opts opts = { .size = sizeof(opts) };
	struct parcel p;

	memset(g, 0, sizeof(*g));
	g->r = start_reactor(state);
	assert_int_equal(weir_inventory_create(&g->inv, g->r, &opts), 0);
	assert_int_equal(weir_inventory_create(&g->second, g->r, &opts), 0);
	g->m = fixture_started(FIXTURE_LEN, RW);
	parcel_of(&p, g->m, NULL);
	if (col != EXPORTED) {
		g->other = g->m;
		assert_int_equal(parcel_import(&g->m, &p, NULL), 0);
	}
	parcel_drop(&p);
	assert_int_equal(weir_inventory_attach(g->inv, g->m), 0);
	rec_init(&g->watch);
	if (col == WATCHED)
		STARTS(weir_mmap_watch(g->m, g->r, &g->watch.op));
	if (col == REVOKED)
		assert_int_equal(weir_mmap_stop(g->other, NULL, NULL), 0);
}

static void fixture_end(struct fixture *g)
{
	if (weir_op_is_busy(&g->watch.op)) {
		assert_int_equal(weir_op_cancel(&g->watch.op), 0);
		assert_int_equal(finish(g->r, &g->watch), -ECANCELED);
	}
	assert_int_equal(weir_mmap_destroy(g->m), 0);
	assert_int_equal(weir_mmap_destroy(g->other), 0);
	assert_int_equal(weir_inventory_destroy(g->inv), 0);
	assert_int_equal(weir_inventory_destroy(g->second), 0);
}

#define CALL(name, expr) \
	static int call_##name(void *arg) \
	{ \
		struct fixture *g = arg; \
		return expr; \
	}

CALL(set_memrange, weir_mmap_set_memrange(g->m, g, 1))
CALL(set_fd, weir_mmap_set_fd(g->m, 0, 0, 1, WEIR_MMAP_FD_TRUSTED))
CALL(set_dmabuf, weir_mmap_set_dmabuf(g->m, 0, 0, 1))
CALL(set_dm, weir_mmap_set_dm(g->m, NULL, 0, 1))
CALL(set_domain, weir_mmap_set_domain(g->m, NULL, 0, 1))
CALL(alloc, weir_mmap_alloc(g->m, 1, 0))
CALL(set_permissions, weir_mmap_set_permissions(g->m, WEIR_MMAP_READ))
CALL(set_free_cb, weir_mmap_set_free_cb(g->m, NULL, NULL))
CALL(set_user_data, weir_mmap_set_user_data(g->m, NULL))
CALL(start, weir_mmap_start(g->m))
CALL(stop, weir_mmap_stop(g->m, NULL, NULL))
CALL(revoke, weir_mmap_revoke(g->m, NULL, NULL))
CALL(attach, weir_inventory_attach(g->second, g->m))
CALL(export, export_with(g->m, 0))
CALL(memrange, weir_mmap_memrange(g->m, NULL, NULL))

static int call_stop_op(void *arg)
{
	struct fixture *g = arg;
	struct rec rec;
	int err;

	rec_init(&rec);
	err = weir_mmap_stop(g->m, g->r, &rec.op);
	return err ? err : (int)finish(g->r, &rec);
}

static int call_drain(void *arg)
{
	struct fixture *g = arg;
	struct rec rec;
	int err;

	rec_init(&rec);
	err = weir_mmap_drain(g->m, g->r, &rec.op);
	return err ? err : (int)finish(g->r, &rec);
}

static int call_revoke_op(void *arg)
{
	struct fixture *g = arg;
	struct rec rec;
	int err;

	rec_init(&rec);
	err = weir_mmap_revoke(g->m, g->r, &rec.op);
	return err ? err : (int)finish(g->r, &rec);
}

static int call_get(void *arg)
{
	struct fixture *g = arg;
	struct weir_buf *buf = NULL;
	int err = weir_inventory_get(&buf, g->inv, g->m, fixture_addr(g->m), 1,
				     NULL, 0);

	weir_buf_put(buf);
	return err;
}

static int call_watch(void *arg)
{
	struct fixture *g = arg;
	struct rec rec;
	int err;

	rec_init(&rec);
	err = weir_mmap_watch(g->m, g->r, &rec.op);
	if (err)
		return err;
	if (!weir_mmap_is_stale(g->m))
		weir_op_cancel(&rec.op);
	assert_int_equal(finish(g->r, &rec), weir_mmap_is_stale(g->m) ?
					     -ESTALE : -ECANCELED);
	return 0;
}

static int call_destroy(void *arg)
{
	struct fixture *g = arg;
	int err = weir_mmap_destroy(g->m);

	if (!err)
		g->m = NULL;
	return err;
}

/* Acceptance 15 */
static void export_answers_as_its_state_table_says(void **state)
{
	static const struct table_call calls[] = {
		{ "set_memrange", call_set_memrange },
		{ "set_fd", call_set_fd },
		{ "set_dmabuf", call_set_dmabuf },
		{ "set_dm", call_set_dm },
		{ "set_domain", call_set_domain },
		{ "alloc", call_alloc },
		{ "set_permissions", call_set_permissions },
		{ "set_free_cb", call_set_free_cb },
		{ "set_user_data", call_set_user_data },
		{ "start", call_start },
		{ "stop", call_stop },
		{ "stop with an op", call_stop_op },
		{ "drain", call_drain },
		{ "revoke", call_revoke },
		{ "revoke with an op", call_revoke_op },
		{ "inventory_attach", call_attach },
		{ "inventory_get", call_get },
		{ "export", call_export },
		{ "watch", call_watch },
		{ "destroy", call_destroy },
		{ "memrange", call_memrange },
	};
	struct table_cell c;
	struct table t;
	struct fixture g;

	table_open(&t, "docs/internals/mem.md", "exported and imported mmap: call by "
		   "state", calls, N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &c)) {
		fixture_begin(&g, state, (enum column)c.column);
		table_result(&c, c.call->fn(&g));
		assert_int_equal(!g.m, !strcmp(c.then, "gone"));
		if (g.m)
			assert_int_equal(weir_mmap_state(g.m),
					 strcmp(c.then, "STOPPED") ?
					 WEIR_MMAP_STARTED : WEIR_MMAP_STOPPED);
		fixture_end(&g);
		end_reactor(state);
	}
	table_close(&t);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(export_answers_as_its_state_table_says),
		CASE(exporter_and_importer_see_the_same_bytes),
		CASE(export_is_imported_by_many_processes),
		CASE(mmap_must_be_started_with_a_right_to_be_exported),
		CASE(exporting_again_gives_what_is_as_good),
		CASE(importer_with_the_right_to_read_cannot_write),
		CASE(importer_with_the_right_to_write_cannot_truncate),
		CASE(a_memfd_has_one_right_for_all),
		CASE(an_importer_can_take_less_but_not_more),
		CASE(an_import_is_held_to_the_address_mask),
		CASE(memory_that_cannot_be_shared_is_refused),
		CASE(memfd_of_10000_bytes_is_shared),
		CASE(plain_memory_and_files_are_refused),
		CASE(unknown_options_are_refused),
		CASE(keyed_export_is_imported_by_holders_of_the_key_only),
		CASE(stopped_export_cannot_be_imported),
		CASE(a_stop_revokes),
		CASE(a_job_under_way_ends_stale),
		CASE(a_watch_ends_when_the_exporter_stops),
		CASE(a_dead_exporter_is_noticed_and_takes_nothing),
		CASE(a_dead_importer_takes_nothing),
		CASE(an_import_outlives_the_exporters_mmap),
		CASE(failed_export_leaves_nothing_behind),
	};

	return harness_run(cases, N_OF(cases));
}
