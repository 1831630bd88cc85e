/* SPDX-License-Identifier: BSD-3-Clause */

/* Imports of what an enemy sends: sound bytes with the wrong file descriptors,
 * and the other way round.  The bytes alone are test-descriptor.c's. */

#include "tests/support/export-fixture.h"

#include "tests/fuzz/descriptor-fixture.h"

/* What a hostile exporter can do: bytes that name the file descriptors of @p,
 * whatever they are. */
static void parcel_name_files(struct parcel *p)
{
	struct stat st;
	uint64_t file[2];
	uint32_t i, crc;

	for (i = 0; i < p->n_fds; i++) {
		if (fstat(p->fds[i], &st))
			continue;
		file[0] = (uint64_t)st.st_dev;
		file[1] = (uint64_t)st.st_ino;
		memcpy(p->bytes + 72 + 8 + 16 * i, file, sizeof(file));
	}
	memset(p->bytes + 16, 0, 4);
	crc = weir_crc32c(0, p->bytes, p->len);
	memcpy(p->bytes + 16, &crc, 4);
}

/* What takes the place of one file descriptor. */
enum sort {
	NONE,
	CLOSED,
	REGULAR,		/* A file. */
	TMP,			/* A file on tmpfs, if that is what dir is. */
	PLAIN,			/* A memfd without seals. */
	GROWS,			/* Sealed against shrinking alone. */
	SHRINKS,		/* Sealed against growing alone. */
	SHORT,			/* Sealed, but a page too short. */
	EMPTY,			/* Sealed, and nothing in it. */
	CONTROL_WRITABLE,	/* A control page that we could write. */
	CONTROL_LONG,
	CONTROL_OTHER,		/* Of another export. */
	CONTROL_BLANK,
	PIPE_WRITE,		/* The wrong end. */
	PIPE_BOTH,		/* A fifo that is its own other end. */
	SOCKET,
	DIRECTORY,
};

/* What is in a sound control page, for those that are not. */
static char control[24];

static int memfd(off_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(pwrite(fd, control, sizeof(control), 0),
			 sizeof(control));
	assert_int_equal(ftruncate(fd, size), 0);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

#define SHRINK_GROW (F_SEAL_SHRINK | F_SEAL_GROW)
#define CONTROL (SHRINK_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

static int control_of_another(void)
{
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RW);
	struct parcel p;
	int fd;

	parcel_of(&p, m, NULL);
	fd = fcntl(p.fds[1], F_DUPFD_CLOEXEC, 0);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
	return fd;
}

static int end_of_a_pipe(int which)
{
	int fds[2];

	pipe_pair(fds);
	close(fds[!which]);
	return fds[which];
}

static int both_ends(void **state)
{
	const char *path = test_path(state, "fifo");

	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	return open(path, O_RDWR | O_CLOEXEC);
}

static int one_of_two_sockets(void)
{
	int fds[2];

	socket_pair(fds);
	close(fds[1]);
	return fds[0];
}

static int make(void **state, enum sort sort)
{
	switch (sort) {
	case REGULAR:
		return test_file(state, "regular", 16384, 1);
	case TMP:
		return open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	case PLAIN:
		return memfd(12288, 0);
	case GROWS:
		return memfd(12288, F_SEAL_SHRINK);
	case SHRINKS:
		return memfd(12288, F_SEAL_GROW);
	case SHORT:
		return memfd(8192, SHRINK_GROW | F_SEAL_SEAL);
	case EMPTY:
		return memfd(0, SHRINK_GROW | F_SEAL_SEAL);
	case CONTROL_WRITABLE:
		return memfd(4096, SHRINK_GROW | F_SEAL_SEAL);
	case CONTROL_LONG:
		return memfd(8192, CONTROL);
	case CONTROL_OTHER:
		return control_of_another();
	case CONTROL_BLANK:
		memset(control, 0, sizeof(control));
		return memfd(sysconf(_SC_PAGESIZE), CONTROL);
	case PIPE_WRITE:
		return end_of_a_pipe(1);
	case PIPE_BOTH:
		return both_ends(state);
	case SOCKET:
		return one_of_two_sockets();
	case DIRECTORY:
		return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	default:
		return -1;
	}
}

static const struct {
	int which;
	enum sort sort;
} swaps[] = {
	{ 0, NONE }, { 0, REGULAR }, { 0, TMP }, { 0, PLAIN }, { 0, GROWS },
	{ 0, SHRINKS }, { 0, SHORT }, { 0, EMPTY }, { 0, PIPE_WRITE },
	{ 0, SOCKET }, { 0, DIRECTORY }, { 0, CONTROL_BLANK },
	{ 1, NONE }, { 1, REGULAR }, { 1, TMP }, { 1, PLAIN }, { 1, EMPTY },
	{ 1, CONTROL_WRITABLE }, { 1, CONTROL_LONG }, { 1, CONTROL_OTHER },
	{ 1, CONTROL_BLANK }, { 1, SOCKET }, { 1, DIRECTORY },
	{ 2, NONE }, { 2, REGULAR }, { 2, PLAIN }, { 2, PIPE_WRITE },
	{ 2, PIPE_BOTH }, { 2, SOCKET }, { 2, DIRECTORY },
	{ 3, NONE }, { 3, REGULAR }, { 3, TMP }, { 3, PLAIN }, { 3, EMPTY },
	{ 3, CONTROL_BLANK }, { 3, SOCKET }, { 3, DIRECTORY },
};

static void a_wrong_file_descriptor_is_refused(void **state)
{
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RW), *im = NULL;
	struct parcel p, q;
	int fd, good, err;
	size_t i;

	parcel_of(&p, m, NULL);
	for (i = 0; i < N_OF(swaps); i++) {
		assert_int_equal(pread(p.fds[1], control, sizeof(control), 0),
				 sizeof(control));
		fd = make(state, swaps[i].sort);
		good = p.fds[swaps[i].which];
		p.fds[swaps[i].which] = fd;
		assert_int_equal(parcel_import(&im, &p, NULL), -EBADMSG);
		q = p;
		parcel_name_files(&q);
		err = parcel_import(&im, &q, NULL);
		if (err != -EBADMSG)
			fail_msg("%d in place %d: %d, %s", swaps[i].sort,
				 swaps[i].which, err, weir_why());
		assert_null(im);
		p.fds[swaps[i].which] = good;
		if (fd >= 0)
			close(fd);
	}
	assert_int_equal(parcel_import(&im, &p, NULL), 0);
	assert_int_equal(weir_mmap_destroy(im), 0);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

static void file_descriptors_in_another_order_are_refused(void **state)
{
	static const int orders[][4] = {
		{ 0, 2, 1, 3 }, { 1, 0, 2, 3 }, { 1, 2, 0, 3 }, { 2, 0, 1, 3 },
		{ 2, 1, 0, 3 }, { 0, 0, 0, 3 }, { 1, 1, 1, 3 }, { 2, 2, 2, 3 },
		{ 0, 1, 1, 3 }, { 0, 0, 2, 3 }, { 0, 1, 3, 2 }, { 0, 3, 2, 1 },
		{ 3, 1, 2, 0 }, { 0, 1, 2, 1 }, { 0, 1, 2, 2 }, { 3, 3, 3, 3 },
	};
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RW), *im = NULL;
	struct parcel p, q;
	size_t i;
	int k;

	(void)state;
	parcel_of(&p, m, NULL);
	for (i = 0; i < N_OF(orders); i++) {
		q = p;
		for (k = 0; k < 4; k++)
			q.fds[k] = p.fds[orders[i][k]];
		assert_int_equal(parcel_import(&im, &q, NULL), -EBADMSG);
		parcel_name_files(&q);
		assert_int_equal(parcel_import(&im, &q, NULL), -EBADMSG);
	}
	for (i = 0; i < 6; i++) {
		q = p;
		q.n_fds = (uint32_t)i;
		q.fds[4] = p.fds[0];
		assert_int_equal(parcel_import(&im, &q, NULL),
				 i == 4 ? 0 : -EBADMSG);
		if (i == 4)
			assert_int_equal(weir_mmap_destroy(im), 0);
		im = NULL;
	}
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/* Each part is genuine, but they are of two exports. */
static void genuine_bytes_with_files_of_another_export_are_refused(void **state)
{
	struct weir_mmap *m[2] = {
		fixture_started(FIXTURE_LEN, RW), fixture_started(FIXTURE_LEN, RW),
	};
	struct weir_mmap *im = NULL;
	struct parcel p[2], q;
	int i;

	(void)state;
	for (i = 0; i < 2; i++)
		parcel_of(&p[i], m[i], NULL);
	for (i = 0; i < 4; i++) {
		q = p[0];
		q.fds[i] = p[1].fds[i];
		assert_int_equal(parcel_import(&im, &q, NULL), -EBADMSG);
	}
	memcpy(q.fds, p[1].fds, sizeof(q.fds));
	assert_int_equal(parcel_import(&im, &q, NULL), -EBADMSG);
	assert_null(im);
	for (i = 0; i < 2; i++) {
		parcel_drop(&p[i]);
		assert_int_equal(weir_mmap_destroy(m[i]), 0);
	}
}

/* The bytes of one that is sound, changed in one place, its CRC mended. */
static int import_changed(const struct parcel *p, size_t off, uint64_t value,
			  unsigned int bytes)
{
	struct weir_mmap *im = NULL;
	struct parcel q = *p;
	int err;

	fixture_put((uint8_t *)q.bytes + off, value, bytes);
	fixture_put((uint8_t *)q.bytes + 16, 0, 4);
	fixture_put((uint8_t *)q.bytes + 16, crc32c(0, q.bytes, q.len), 4);
	err = parcel_import(&im, &q, NULL);
	if (!err)
		weir_mmap_destroy(im);
	return err;
}

static void bytes_that_promise_what_is_not_there_are_refused(void **state)
{
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RO);
	struct parcel p;

	(void)state;
	parcel_of(&p, m, NULL);
	assert_int_equal(import_changed(&p, 48, FIXTURE_LEN, 8), 0);
	assert_int_equal(import_changed(&p, 48, 12288, 8), 0);
	/* Longer than the memfd. */
	assert_int_equal(import_changed(&p, 48, 12289, 8), -EBADMSG);
	assert_int_equal(import_changed(&p, 48, INT64_MAX, 8), -EBADMSG);
	/* Writing, where the seal says reading. */
	assert_int_equal(import_changed(&p, 64, 3, 4), -EBADMSG);
	/* Another generation, or none; another export. */
	assert_int_equal(import_changed(&p, 40, 99, 8), -ESTALE);
	assert_int_equal(import_changed(&p, 40, 0, 8), -ESTALE);
	assert_int_equal(import_changed(&p, 24, 0, 8), -EBADMSG);
	/* A process has no memfd, and a device no descriptors. */
	assert_int_equal(import_changed(&p, 20, DESCRIPTOR_PROCESS, 4),
			 -EBADMSG);
	assert_int_equal(import_changed(&p, 20, DESCRIPTOR_DEVICE, 4),
			 -EBADMSG);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/* An exporter that is not this library, and revokes and revives as it likes. */
static void a_generation_that_lies_does_no_harm(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RW), *im = NULL;
	int page, ends[2];
	_Atomic uint64_t *generation;
	struct parcel p, q;
	struct rec rec;

	parcel_of(&p, m, NULL);
	page = memfd(sysconf(_SC_PAGESIZE), 0);
	generation = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, page,
			  0);
	assert_int_equal(pread(p.fds[1], (void *)generation, 24, 0), 24);
	assert_int_equal(fcntl(page, F_ADD_SEALS, CONTROL), 0);
	pipe_pair(ends);
	q = p;
	q.fds[1] = page;
	q.fds[2] = ends[0];
	parcel_name_files(&q);
	assert_int_equal(parcel_import(&im, &q, NULL), 0);
	(*generation)++;
	assert_int_equal(weir_mmap_is_stale(im), 1);
	(*generation)--;
	assert_int_equal(weir_mmap_is_stale(im), 0);

	/* Noise in the pipe is an end, too; there is no way back. */
	rec_init(&rec);
	STARTS(weir_mmap_watch(im, r, &rec.op));
	assert_int_equal(write(ends[1], "hello", 5), 5);
	assert_int_equal(finish(r, &rec), -ESTALE);
	assert_int_equal(weir_mmap_is_stale(im), 1);
	*generation = 0;
	assert_int_equal(weir_mmap_is_stale(im), 1);

	assert_int_equal(weir_mmap_destroy(im), 0);
	munmap((void *)generation, 4096);
	close(page);
	close_pair(ends);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/*
 * Who may write to huge pages can punch holes into them, and when none are left
 * to fill these up again, reading is a SIGBUS.
 */
static void huge_pages_that_can_be_taken_away_are_refused(void **state)
{
	int huge = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING |
						MFD_HUGETLB);
	struct weir_mmap *m, *im;
	struct parcel p, q;

	(void)state;
	if (huge < 0)
		skip_because("the kernel has no huge pages");
	assert_int_equal(ftruncate(huge, 2 << 20), 0);
	m = fixture_started(FIXTURE_LEN, RO);
	parcel_of(&p, m, NULL);
	q = p;
	assert_int_equal(fcntl(huge, F_ADD_SEALS, SHRINK_GROW), 0);
	q.fds[0] = huge;
	parcel_name_files(&q);
	assert_int_equal(parcel_import(&im, &q, NULL), -EOPNOTSUPP);
	assert_int_equal(fcntl(huge, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
	if (!parcel_import(&im, &q, NULL))
		assert_int_equal(weir_mmap_destroy(im), 0);
	else
		assert_non_null(strstr(weir_why(), "cannot be mapped"));
	close(huge);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/* The bytes, mutated and repaired, beside sound descriptors: no crash, and what
 * is imported can be read to its end. */
static void mutated_descriptors_never_reach_beyond(void **state)
{
	unsigned int i, k, n = want_long() ? 300000 : scaled(6000);
	uint64_t seed = 0x2545f4914f6cdd1du;
	struct weir_mmap *m = fixture_started(FIXTURE_LEN, RO), *im;
	struct parcel p, q;
	size_t len, j, sum = 0;

	(void)state;
	parcel_of(&p, m, NULL);
	for (i = 0; i < n; i++) {
		q = p;
		for (k = 0; k <= i % 3; k++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			q.bytes[20 + seed % 52] = (char)(seed >> 32);
		}
		fixture_repair((uint8_t *)q.bytes, q.len, 0);
		im = NULL;
		if (parcel_import(&im, &q, NULL))
			continue;
		assert_int_equal(weir_mmap_memrange(im, NULL, &len), 0);
		assert_true(len <= 12288);
		for (j = 0; j < len; j += 512)
			sum += (size_t)fixture_addr(im)[j];
		assert_int_equal(weir_mmap_destroy(im), 0);
	}
	assert_int_equal(sum, 0);
	parcel_drop(&p);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_wrong_file_descriptor_is_refused),
		CASE(file_descriptors_in_another_order_are_refused),
		CASE(genuine_bytes_with_files_of_another_export_are_refused),
		CASE(bytes_that_promise_what_is_not_there_are_refused),
		CASE(a_generation_that_lies_does_no_harm),
		CASE(huge_pages_that_can_be_taken_away_are_refused),
		CASE(mutated_descriptors_never_reach_beyond),
	};

	return harness_run(cases, N_OF(cases));
}
