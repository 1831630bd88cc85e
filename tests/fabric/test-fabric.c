/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libweir-fabric over libfabric's provider tcp on loopback: memory is exported,
 * imported, moved and taken back, within a process and between two.
 */

#include "tests/support/fabric-fixture.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include <weir/crc32c.h>

/* Devices. */

static void devices_are_listed_with_a_reason_if_they_cannot_be_used(void **state)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct weir_devinfo **list;
	int usable = 0, others = 0;
	size_t n, i;

	(void)state;
	assert_int_equal(weir_device_list(&list, &n), 0);
	for (i = 0; i < n; i++) {
		assert_int_equal(weir_devinfo_caps(list[i], &caps), 0);
		if (caps.kind != WEIR_DEVICE_FABRIC)
			continue;
		if (!(caps.flags & WEIR_DEVICE_USABLE)) {
			others++;
			assert_true(strlen(caps.why) > 10);
		} else if (!strcmp(caps.name, DEVICE)) {
			usable++;
			assert_true(caps.caps & WEIR_DEVICE_CAP_EXPORT);
			assert_true(caps.caps & WEIR_DEVICE_CAP_IMPORT);
		}
	}
	assert_int_equal(usable, 1);
	assert_true(others > 0);
	weir_device_list_free(list);
}

static void a_device_is_opened_by_an_address(void **state)
{
	struct weir_device *a = NULL, *b = NULL;

	(void)state;
	assert_int_equal(weir_fabric_open(&a, "127.0.0.1"), 0);
	assert_int_equal(weir_device_open_name(&b, DEVICE), 0);
	assert_ptr_equal(a, b);
	assert_int_equal(weir_device_close(a), 0);
	assert_int_equal(weir_fabric_open(&a, "192.0.2.77"), -ENOENT);
	assert_non_null(strstr(weir_why(), DEVICE));
	assert_int_equal(weir_fabric_open(NULL, NULL), -EINVAL);
	setenv("WEIR_FABRIC_PROVIDER", "nothing", 1);
	assert_int_equal(weir_fabric_open(&a, "127.0.0.1"), -ENOENT);
	unsetenv("WEIR_FABRIC_PROVIDER");
	assert_int_equal(weir_device_close(b), 0);
}

static const int signals[] = { SIGINT, SIGTERM };
static struct sigaction handlers[N_OF(signals)];	/* Of before main(). */

static void handlers_of_signals_stay_the_programs(void **state)
{
	struct weir_device *dev = NULL;
	struct sigaction now;

	(void)state;
	assert_int_equal(weir_device_open_name(&dev, DEVICE), 0);
	assert_int_equal(weir_device_close(dev), 0);
	for (size_t i = 0; i < N_OF(signals); i++) {
		assert_int_equal(sigaction(signals[i], NULL, &now), 0);
		assert_ptr_equal(now.sa_handler, handlers[i].sa_handler);
	}
}

static void bad_arguments_are_refused(void **state)
{
	struct weir_fabric_stats s = { .size = sizeof(s) };
	struct weir_fabric_opts opts = { .size = sizeof(opts) };
	struct {
		struct weir_fabric_opts opts;
		uint64_t more;
	} later = { .opts = { .size = sizeof(later) }, .more = 1 };
	struct weir_device *dev = NULL, *cpu = NULL;

	(void)state;
	assert_int_equal(weir_device_open_name(&dev, DEVICE), 0);
	assert_int_equal(weir_device_open_name(&cpu, "cpu"), 0);
	assert_int_equal(weir_fabric_stats(cpu, &s), -EINVAL);
	assert_int_equal(weir_fabric_stats(NULL, &s), -EINVAL);
	s.size = 1;
	assert_int_equal(weir_fabric_stats(dev, &s), -EINVAL);
	assert_int_equal(weir_fabric_set_opts(cpu, &opts), -EINVAL);
	assert_int_equal(weir_fabric_set_opts(dev, NULL), -EINVAL);
	assert_int_equal(weir_fabric_set_opts(dev, &later.opts), -E2BIG);
	opts.grace_ns = WEIR_MSEC - 1;
	assert_int_equal(weir_fabric_set_opts(dev, &opts), -EINVAL);
	opts.grace_ns = WEIR_MSEC;
	assert_int_equal(weir_fabric_set_opts(dev, &opts), 0);
	assert_int_equal(weir_device_close(cpu), 0);
	assert_int_equal(weir_device_close(dev), 0);
}

/* Jobs. */

static void bytes_go_there_and_back(void **state)
{
	static const size_t lens[] = { 1, 7, 4096, 4097, 300000, LEN };
	struct both b;

	both_begin(&b, state, RW);
	for (size_t i = 0; i < N_OF(lens); i++) {
		memset(b.mem + LEN, 0, LEN);
		memset(b.far, 0, LEN);
		assert_int_equal(put(&b, LEN - lens[i], lens[i]), lens[i]);
		assert_true(is_pattern(b.far + LEN - lens[i], lens[i], 0, 1));
		assert_int_equal(get(&b, LEN - lens[i], lens[i]), lens[i]);
		assert_true(is_pattern(b.mem + LEN, lens[i], 0, 1));
	}
	assert_int_equal(stats_of(b.dev).connects, 1);
	assert_int_equal(stats_of(b.dev).conns, 1);
	both_end(&b);
}

static void pieces_of_both_sides_are_gathered(void **state)
{
	struct iovec here[40], far[7];
	struct both b;
	size_t at = 0;

	both_begin(&b, state, RW);
	for (size_t i = 0; i < N_OF(here); i++) {
		here[i].iov_base = b.mem + at + 3 * i;
		here[i].iov_len = 1000 + i;
		at += here[i].iov_len;
	}
	for (size_t i = 0, left = at; i < N_OF(far); i++) {
		far[i].iov_base = (void *)(uintptr_t)(b.addr + i * 100000);
		far[i].iov_len = i + 1 < N_OF(far) ? 5000 : left;
		left -= far[i].iov_len;
	}
	assert_int_equal(copy(&b, weir_operand_iov(b.d, far, N_OF(far)),
			      weir_operand_iov(NULL, here, N_OF(here))), at);
	for (size_t i = 0, n = 0, in = 0, piece = 0; n < at; n++, in++) {
		while (in == here[piece].iov_len) {
			in = 0;
			piece++;
		}
		i = n / 5000 < N_OF(far) - 1 ? n / 5000 : N_OF(far) - 1;
		assert_int_equal(b.far[i * 100000 + n - i * 5000],
				 ((char *)here[piece].iov_base)[in]);
	}
	both_end(&b);
}

static void a_connection_is_shared_by_many_jobs(void **state)
{
	enum { JOBS = 300, EACH = 8192 };
	struct jrec *j = calloc(JOBS, sizeof(*j));
	struct both b;

	both_begin(&b, state, RW);
	for (int i = 0; i < JOBS; i++) {
		jrec_init(&j[i]);
		weir_job_copy(&j[i].job, there(&b, (size_t)i * EACH, EACH),
			      weir_operand_mem(b.mem + i * EACH, EACH));
		STARTS(weir_job_start(b.dma, &j[i].job));
	}
	for (int i = 0; i < JOBS; i++) {
		UNTIL(b.r, j[i].calls);
		assert_int_equal(j[i].res, EACH);
	}
	assert_true(is_pattern(b.far, (size_t)JOBS * EACH, 0, 1));
	assert_int_equal(stats_of(b.dev).connects, 1);
	both_end(&b);
	free(j);
}

static void bufs_of_an_import_and_files_can_be_moved(void **state)
{
	int fd = test_file(state, "file", 100000, 5);
	struct weir_inventory *inv;
	struct weir_domain *file;
	struct weir_buf *buf;
	struct both b;

	both_begin(&b, state, RW);
	file = file_domain(fd);
	assert_int_equal(copy(&b, there(&b, 10, 100000),
			      weir_operand_at(file, 0, 100000)), 100000);
	assert_true(is_pattern(b.far + 10, 100000, 0, 5));
	inv = start_inventory(b.r, b.import);
	buf = get_buf(inv, b.import, (char *)(uintptr_t)b.addr, 5000, 0);
	assert_int_equal(copy(&b, weir_operand_buf(buf),
			      weir_operand_mem(b.mem, 5000)), 5000);
	assert_true(is_pattern(b.far, 5000, 0, 1));
	weir_buf_put(buf);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_domain_destroy(file), 0);
	close(fd);
	both_end(&b);
}

static void bounds_and_rights_are_refused_before_anything_begins(void **state)
{
	struct both b;

	both_begin(&b, state, RO);
	weir_job_copy(&b.j.job, there(&b, LEN - 1, 2),
		      weir_operand_mem(b.mem, 2));
	assert_int_equal(weir_job_start(b.dma, &b.j.job), -ERANGE);
	weir_job_copy(&b.j.job, there(&b, 0, 2), weir_operand_mem(b.mem, 2));
	assert_int_equal(weir_job_start(b.dma, &b.j.job), -EACCES);
	assert_int_equal(get(&b, 0, 2), 2);
	assert_int_equal(stats_of(b.dev).lost, 0);
	both_end(&b);
}

/* What a peer refuses. */

/* A descriptor has its CRC at byte 16, and the rights at byte 64: 1 to
 * read, 2 to write. */
static void seal(char *bytes, size_t len)
{
	uint32_t crc;

	memset(bytes + 16, 0, 4);
	crc = weir_crc32c(0, bytes, len);
	memcpy(bytes + 16, &crc, 4);
}

/* The lease's descriptor, with @n bytes at @at of the provider's field inverted; there is
 * no key that would show it.  The field begins with 1, 0, and the lengths of "tcp" and
 * of an address of IPv4. */
static size_t changed(const struct both *b, char *bytes, size_t at, size_t n)
{
	static const char begin[] = { 1, 0, 3, 16 };
	struct weir_export_desc desc = { .size = sizeof(desc) };
	char *field;

	assert_int_equal(weir_lease_export(b->lease, &desc), 0);
	assert_true(desc.len <= BYTES_MAX);
	memcpy(bytes, desc.bytes, desc.len);
	field = memmem(bytes, desc.len, begin, sizeof(begin));
	assert_non_null(field);
	for (size_t i = at; i < at + n; i++)
		field[i] = (char)~field[i];
	seal(bytes, desc.len);
	return desc.len;
}

static void import_changed(struct both *b, struct both *as, size_t at, size_t n)
{
	char bytes[BYTES_MAX];
	size_t len = changed(b, bytes, at, n);

	*as = *b;
	import_bytes(as, bytes, len);
	jrec_init(&as->j);
}

static void a_wrong_key_ends_its_job_and_others_go_on(void **state)
{
	struct both b, bad;
	struct jrec j[3];

	both_begin(&b, state, RW);
	import_changed(&b, &bad, 4, 8);
	assert_int_equal(put(&bad, 0, 100), -ECONNRESET);
	assert_true(bad.j.detail.code > 0);
	assert_int_equal(bad.j.detail.bytes, 0);
	/* And again: each has a connection of its own. */
	for (int i = 0; i < 3; i++) {
		jrec_init(&j[i]);
		weir_job_copy(&j[i].job, there(&bad, 0, 100),
			      weir_operand_mem(b.mem, 100));
		STARTS(weir_job_start(b.dma, &j[i].job));
	}
	for (int i = 0; i < 3; i++) {
		UNTIL(b.r, j[i].calls);
		assert_int_equal(j[i].res, -ECONNRESET);
	}
	assert_int_equal(put(&b, 0, 100), 100);
	assert_true(stats_of(b.dev).lost >= 2);
	assert_int_equal(weir_mmap_destroy(bad.import), 0);
	both_end(&b);
}

/* The import of a lease for reading, with a descriptor that says that it may write. */
static void import_to_write(struct both *b, struct both *as)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	char bytes[BYTES_MAX];

	assert_int_equal(weir_lease_export(b->lease, &desc), 0);
	memcpy(bytes, desc.bytes, desc.len);
	assert_int_equal(bytes[64], 1);
	bytes[64] |= 2;
	seal(bytes, desc.len);
	*as = *b;
	import_bytes(as, bytes, desc.len);
	jrec_init(&as->j);
}

static void a_right_that_a_lease_has_not_is_refused_by_the_exporter(void **state)
{
	struct both b, bad;

	both_begin(&b, state, RO);
	import_to_write(&b, &bad);
	assert_int_equal(put(&bad, 0, 100), -ECONNRESET);
	for (size_t i = 0; i < LEN; i++)
		assert_int_equal(b.far[i], 0);
	assert_int_equal(get(&bad, 0, 100), 100);
	assert_int_equal(weir_mmap_destroy(bad.import), 0);
	both_end(&b);
}

/* The first is refused, and more follow than are in flight together. */
static void jobs_that_were_not_posted_go_on_over_another_connection(void **state)
{
	enum { JOBS = 100, EACH = 1000 };
	struct jrec *j = calloc(JOBS, sizeof(*j));
	struct both b, bad;

	both_begin(&b, state, RO);
	import_to_write(&b, &bad);
	fill_pattern(b.far, LEN, 0, 7);
	for (int i = 0; i < JOBS; i++) {
		jrec_init(&j[i]);
		if (i)
			weir_job_copy(&j[i].job,
				      weir_operand_mem(b.mem + i * EACH, EACH),
				      there(&bad, 0, EACH));
		else
			weir_job_copy(&j[i].job, there(&bad, 0, EACH),
				      weir_operand_mem(b.mem, EACH));
		STARTS(weir_job_start(b.dma, &j[i].job));
	}
	for (int i = 0; i < JOBS; i++)
		UNTIL(b.r, j[i].calls);
	assert_int_equal(j[0].res, -ECONNRESET);
	assert_int_equal(j[JOBS - 1].res, EACH);
	assert_true(is_pattern(b.mem + (JOBS - 1) * EACH, EACH, 0, 7));
	assert_int_equal(stats_of(b.dev).lost, 1);
	assert_int_equal(weir_mmap_destroy(bad.import), 0);
	both_end(&b);
	free(j);
}

static void a_wrong_token_is_stale(void **state)
{
	struct both b, bad;

	both_begin(&b, state, RW);
	import_changed(&b, &bad, 20, 16);
	assert_int_equal(put(&bad, 0, 100), -ESTALE);
	assert_int_equal(stats_of(b.dev).refused, 1);
	assert_int_equal(weir_mmap_destroy(bad.import), 0);
	both_end(&b);
}

static void a_lease_that_ends_takes_its_memory_back_and_no_other(void **state)
{
	struct both b, other;

	both_begin(&b, state, RW);
	other = b;
	make_lease(&other, RW);
	assert_int_equal(put(&b, 0, 100), 100);
	assert_int_equal(put(&other, 100, 100), 100);
	assert_int_equal(stats_of(b.dev).conns, 2);
	assert_int_equal(weir_lease_revoke(b.lease, NULL), 0);
	assert_int_equal(stats_of(b.dev).conns, 1);
	memset(b.far, 0, LEN);
	/* Whether its connection is known to have ended or not. */
	assert_true(put(&b, 0, 100) < 0);
	assert_int_equal(put(&b, 0, 100), -ESTALE);
	assert_int_equal(b.far[50], 0);
	assert_int_equal(put(&other, 100, 100), 100);
	assert_true(is_pattern(b.far + 100, 100, 0, 1));
	assert_int_equal(weir_mmap_destroy(other.import), 0);
	assert_int_equal(weir_lease_destroy(other.lease), 0);
	both_end(&b);
}

static void an_export_takes_a_dma_context_and_ends_with_it(void **state)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_reactor *r = start_reactor(state);
	struct weir_device *dev = NULL;
	static char mem[8192];
	struct weir_mmap *m;
	struct weir_dma *dma;

	assert_int_equal(weir_device_open_name(&dev, DEVICE), 0);
	m = start_mmap_on(dev, mem, sizeof(mem),
			  RW | WEIR_MMAP_READ | WEIR_MMAP_WRITE);
	assert_int_equal(weir_mmap_export_device(m, dev, NULL, &desc),
			 -ENOTCONN);
	assert_non_null(strstr(weir_why(), "DMA context"));
	dma = start_dma(r, (struct weir_dma_opts){ 0 });
	assert_int_equal(weir_mmap_export_device(m, dev, NULL, &desc), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_device_close(dev), 0);
}

/* Of the exporter "tcp@::1", with a descriptor that says that its address is of IPv4. */
static void an_address_of_another_length_is_refused(void **state)
{
	static const char begin[] = { 1, 0, 3, 28 };
	struct weir_export_desc desc = { .size = sizeof(desc) };
	const sa_family_t family = AF_INET;
	struct weir_mmap *m, *import = NULL;
	struct weir_device *dev;
	char bytes[BYTES_MAX], *field;
	struct both b;

	both_begin(&b, state, RW);
	if (weir_fabric_open(&dev, "::1")) {
		both_end(&b);
		skip_because("there is no address ::1 here");
	}
	m = start_mmap_on(dev, b.far, LEN, RO | WEIR_MMAP_READ);
	assert_int_equal(weir_mmap_export_device(m, dev, NULL, &desc), 0);
	memcpy(bytes, desc.bytes, desc.len);
	field = memmem(bytes, desc.len, begin, sizeof(begin));
	assert_non_null(field);
	memcpy(field + 39, &family, sizeof(family));
	seal(bytes, desc.len);
	assert_int_equal(weir_mmap_import_device(&import, b.dev, bytes, desc.len,
						 NULL), -EOPNOTSUPP);
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_device_close(dev), 0);
	both_end(&b);
}

static void hostile_descriptors_are_refused(void **state)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	static const struct {
		size_t at;
		int err;
	} refused[] = {
		{ 0, -EPROTONOSUPPORT },	/* The version; the lengths of */
		{ 2, -EBADMSG },		/* the provider's name, */
		{ 3, -EBADMSG },		/* and of the address; */
		{ 36, -EOPNOTSUPP },		/* its name; */
		{ 39, -EOPNOTSUPP },		/* the family of the address. */
	};
	struct weir_mmap *m = NULL;
	char bytes[BYTES_MAX];
	struct both b;
	size_t i, len;

	both_begin(&b, state, RW);
	assert_int_equal(weir_lease_export(b.lease, &desc), 0);
	for (i = 0; i < desc.len; i++)
		assert_true(weir_mmap_import_device(&m, b.dev, desc.bytes, i,
						    NULL) < 0);
	for (i = 0; i < N_OF(refused); i++) {
		len = changed(&b, bytes, refused[i].at, 1);
		assert_int_equal(weir_mmap_import_device(&m, b.dev, bytes, len,
							 NULL), refused[i].err);
	}
	both_end(&b);
}

/* Another process, which exports LEN bytes. */
struct exporter {
	pid_t pid;
	int to, from;		/* Pipes. */
	char desc[BYTES_MAX];
	size_t len;
};

/* What it is asked for. */
#define END_LEASE 'e'		/* And answers whether bytes came afterwards. */

static void turns(struct weir_reactor *r, int fd, char *what)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (*what = 0; !*what;) {
		weir_reactor_turn(r, WEIR_MSEC);
		if (poll(&p, 1, 0) > 0 && read(fd, what, 1) < 1)
			_exit(0);
	}
}

static void export_here(int to, int from)
{
	struct weir_lease_opts opts = { .size = sizeof(opts), .permissions = RW };
	struct weir_export_desc desc = { .size = sizeof(desc) };
	char *mem = aligned_alloc(4096, LEN), *copy = malloc(LEN), what;
	struct weir_lease *lease;
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_mmap *m;

	memset(mem, 0, LEN);
	if (weir_reactor_create(&r, NULL) || weir_dma_create(&dma, r, NULL) ||
	    weir_dma_start(dma) || weir_device_open_name(&opts.device, DEVICE) ||
	    weir_mmap_create(&m, NULL) || weir_mmap_add_device(m, opts.device) ||
	    weir_mmap_set_memrange(m, mem, LEN) ||
	    weir_mmap_set_permissions(m, RW | WEIR_MMAP_READ | WEIR_MMAP_WRITE) ||
	    weir_mmap_start(m))
		_exit(1);
	for (;;) {
		if (weir_lease_create(&lease, r, m, &opts) ||
		    weir_lease_export(lease, &desc) ||
		    write(to, &desc.len, sizeof(desc.len)) < 0 ||
		    write(to, desc.bytes, desc.len) < 0)
			_exit(2);
		turns(r, from, &what);
		if (weir_lease_revoke(lease, NULL) || weir_lease_destroy(lease))
			_exit(3);
		memcpy(copy, mem, LEN);
		for (int i = 0; i < 20; i++)
			weir_reactor_turn(r, 0);
		what = memcmp(copy, mem, LEN) ? 'n' : 'y';
		if (write(to, &what, 1) < 0)
			_exit(4);
	}
}

static void read_all(int fd, void *to, size_t len)
{
	for (ssize_t n; len; len -= (size_t)n, to = (char *)to + n) {
		n = read(fd, to, len);
		assert_true(n > 0);
	}
}

static void read_desc(struct exporter *e)
{
	read_all(e->from, &e->len, sizeof(e->len));
	assert_true(e->len <= sizeof(e->desc));
	read_all(e->from, e->desc, e->len);
}

static void exporter_begin(struct exporter *e)
{
	int to[2], from[2];

	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	fflush(NULL);
	e->pid = fork();
	if (!e->pid) {
		close(to[1]);
		close(from[0]);
		export_here(from[1], to[0]);
	}
	close(to[0]);
	close(from[1]);
	e->to = to[1];
	e->from = from[0];
	read_desc(e);
}

static void exporter_end(struct exporter *e)
{
	kill(e->pid, SIGKILL);
	waitpid(e->pid, NULL, 0);
	close(e->to);
	close(e->from);
}

static void stop(const struct exporter *e)
{
	int status = 0;

	assert_int_equal(kill(e->pid, SIGSTOP), 0);
	assert_int_equal(waitpid(e->pid, &status, WUNTRACED), e->pid);
	assert_true(WIFSTOPPED(status));
}

/* The importer's side. */
static void importer_begin(struct both *b, void **state, struct exporter *e)
{
	memset(b, 0, sizeof(*b));
	b->r = start_reactor(state);
	b->dma = start_dma(b->r, (struct weir_dma_opts){ 0 });
	assert_int_equal(weir_device_open_name(&b->dev, DEVICE), 0);
	b->mem = aligned_alloc(4096, 2 * LEN);
	fill_pattern(b->mem, LEN, 0, 1);
	import_bytes(b, e->desc, e->len);
	jrec_init(&b->j);
}

static void importer_end(struct both *b)
{
	if (b->import)
		assert_int_equal(weir_mmap_destroy(b->import), 0);
	assert_int_equal(weir_dma_destroy(b->dma), 0);
	assert_int_equal(weir_device_close(b->dev), 0);
	free(b->mem);
}

static void a_peer_that_is_killed_ends_its_jobs(void **state)
{
	struct exporter e;
	struct both b;

	exporter_begin(&e);
	importer_begin(&b, state, &e);
	assert_int_equal(put(&b, 0, LEN), LEN);
	stop(&e);
	weir_job_copy(&b.j.job, there(&b, 0, LEN), weir_operand_mem(b.mem, LEN));
	STARTS(weir_job_start(b.dma, &b.j.job));
	some_turns(b.r, 10);
	assert_int_equal(kill(e.pid, SIGKILL), 0);
	assert_int_equal(jrec_finish(b.r, &b.j), -ECONNRESET);
	assert_int_equal(put(&b, 0, LEN), -ECONNREFUSED);
	assert_int_equal(put(&b, 0, LEN), -ECONNREFUSED);
	exporter_end(&e);
	importer_end(&b);
}

static void a_peer_that_is_stopped_holds_no_job_for_ever(void **state)
{
	struct weir_fabric_opts opts = {
		.size = sizeof(opts), .grace_ns = 20 * WEIR_MSEC,
		.connect_ns = 20 * WEIR_MSEC, .stall_ns = 50 * WEIR_MSEC,
	};
	struct exporter e;
	struct both b;

	exporter_begin(&e);
	importer_begin(&b, state, &e);
	assert_int_equal(put(&b, 0, LEN), LEN);
	assert_int_equal(weir_fabric_set_opts(b.dev, &opts), 0);
	stop(&e);
	/* Nothing ends. */
	assert_int_equal(put(&b, 0, LEN), -ECONNRESET);
	/* And a connection is not accepted. */
	assert_int_equal(put(&b, 0, LEN), -ETIMEDOUT);
	assert_int_equal(kill(e.pid, SIGCONT), 0);
	opts = (struct weir_fabric_opts){
		.size = sizeof(opts), .grace_ns = 20 * WEIR_MSEC,
		.stall_ns = WEIR_FOREVER,
	};
	assert_int_equal(weir_fabric_set_opts(b.dev, &opts), 0);
	assert_int_equal(put(&b, 0, LEN), LEN);
	/* A cancel, and a deadline, of what is in flight. */
	stop(&e);
	weir_job_copy(&b.j.job, there(&b, 0, LEN), weir_operand_mem(b.mem, LEN));
	STARTS(weir_job_start(b.dma, &b.j.job));
	some_turns(b.r, 10);
	assert_int_equal(b.j.calls, 4);
	assert_int_equal(weir_op_cancel(&b.j.job.op), 0);
	assert_int_equal(jrec_finish(b.r, &b.j), -ECANCELED);
	exporter_end(&e);
	importer_end(&b);
}

static void no_byte_arrives_after_a_lease_has_ended(void **state)
{
	unsigned int n = scaled(want_long() ? 5000 : 100); /* Over each backend. */
	struct exporter e;
	struct both b;
	char late;

	exporter_begin(&e);
	importer_begin(&b, state, &e);
	for (unsigned int i = 0; i < n; i++) {
		fill_pattern(b.mem, LEN, 0, i);
		weir_job_copy(&b.j.job, there(&b, 0, LEN),
			      weir_operand_mem(b.mem, LEN));
		STARTS(weir_job_start(b.dma, &b.j.job));
		some_turns(b.r, (int)(i % 7));
		assert_int_equal(write(e.to, "e", 1), 1);
		UNTIL(b.r, b.j.calls == (int)i + 1);
		read_all(e.from, &late, 1);
		assert_int_equal(late, 'y');
		read_desc(&e);
		assert_int_equal(weir_mmap_destroy(b.import), 0);
		import_bytes(&b, e.desc, e.len);
	}
	exporter_end(&e);
	importer_end(&b);
}

static uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * WEIR_SEC + (uint64_t)ts.tv_nsec;
}

/* Turns in a while in which nothing happens. */
static uint64_t idle_turns(struct weir_reactor *r)
{
	uint64_t n = 0, until;

	while (weir_reactor_turn(r, 20 * WEIR_MSEC) > 0)
		;
	for (until = clock_ns() + 300 * WEIR_MSEC; clock_ns() < until; n++)
		weir_reactor_turn(r, 300 * WEIR_MSEC);
	return n;
}

/* An import that two reactors use. */
struct second {
	struct both *b;
	struct weir_reactor *r;
	atomic_int ready, go;
	int64_t res;
	uint64_t idle_turns;
};

static void *use_from_a_thread(void *arg)
{
	struct second *s = arg;
	struct weir_dma *dma;
	struct jrec j;

	weir_reactor_create(&s->r, NULL);
	dma = start_dma(s->r, (struct weir_dma_opts){ 0 });
	jrec_init(&j);
	weir_job_copy(&j.job, there(s->b, 0, 1000),
		      weir_operand_mem(s->b->mem, 1000));
	weir_job_start(dma, &j.job);
	while (!j.calls)
		weir_reactor_turn(s->r, WEIR_MSEC);
	s->res = j.res;
	atomic_store(&s->ready, 1);
	while (!atomic_load(&s->go))
		weir_reactor_turn(s->r, WEIR_MSEC);
	while (stats_of(s->b->dev).links)
		weir_reactor_turn(s->r, WEIR_MSEC);
	s->idle_turns = idle_turns(s->r);
	weir_dma_destroy(dma);
	weir_reactor_destroy(s->r);
	return NULL;
}

static void an_import_is_closed_on_all_reactors_that_use_it(void **state)
{
	struct exporter e;
	struct both b;
	struct second s = { .b = &b };
	pthread_t thread;

	exporter_begin(&e);
	importer_begin(&b, state, &e);
	assert_int_equal(put(&b, 0, 100), 100);
	assert_int_equal(pthread_create(&thread, NULL, use_from_a_thread, &s), 0);
	while (!atomic_load(&s.ready))
		some_turns(b.r, 1);
	assert_int_equal(s.res, 1000);
	assert_int_equal(stats_of(b.dev).links, 2);
	assert_int_equal(weir_mmap_destroy(b.import), 0);
	b.import = NULL;
	atomic_store(&s.go, 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(stats_of(b.dev).links, 0);
	assert_true(s.idle_turns <= 2);
	exporter_end(&e);
	importer_end(&b);
}

static void an_idle_connection_wakes_nobody(void **state)
{
	struct both b;

	both_begin(&b, state, RW);
	assert_int_equal(put(&b, 0, LEN), LEN);
	assert_true(idle_turns(b.r) <= 2);
	both_end(&b);
}

static const struct harness_case cases[] = {
	REAL(devices_are_listed_with_a_reason_if_they_cannot_be_used),
	REAL(a_device_is_opened_by_an_address),
	REAL(handlers_of_signals_stay_the_programs),
	REAL(bad_arguments_are_refused),
	REAL(bytes_go_there_and_back),
	REAL(pieces_of_both_sides_are_gathered),
	REAL(a_connection_is_shared_by_many_jobs),
	REAL(bufs_of_an_import_and_files_can_be_moved),
	REAL(bounds_and_rights_are_refused_before_anything_begins),
	REAL(a_wrong_key_ends_its_job_and_others_go_on),
	REAL(a_right_that_a_lease_has_not_is_refused_by_the_exporter),
	REAL(jobs_that_were_not_posted_go_on_over_another_connection),
	REAL(a_wrong_token_is_stale),
	REAL(a_lease_that_ends_takes_its_memory_back_and_no_other),
	REAL(an_export_takes_a_dma_context_and_ends_with_it),
	REAL(an_address_of_another_length_is_refused),
	REAL(hostile_descriptors_are_refused),
	REAL(a_peer_that_is_killed_ends_its_jobs),
	REAL(a_peer_that_is_stopped_holds_no_job_for_ever),
	REAL(no_byte_arrives_after_a_lease_has_ended),
	REAL(an_import_is_closed_on_all_reactors_that_use_it),
	REAL(an_idle_connection_wakes_nobody),
};

int main(void)
{
	for (size_t i = 0; i < N_OF(signals); i++)
		sigaction(signals[i], NULL, &handlers[i]);
	return harness_run(cases, N_OF(cases));
}
