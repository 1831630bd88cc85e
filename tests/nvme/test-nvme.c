/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libweir-nvme over a namespace in memory, whose commands workers send; in a guest with
 * QEMU's drive over that, by io_uring.
 */

#include "tests/support/job-fixture.h"

#include <weir/device.h>
#include <weir/nvme/nvme.h>

#include "tests/support/mock-nvme.h"

#define MEM ((size_t)1 << 20)
#define DNR MOCK_NVME_DNR
#define MODEL "QEMU NVMe Ctrl"

enum { FLUSH, WRITE, READ, COMPARE = 5, ZEROES = 8, DSM, COPY = 0x19 };

/* All optional commands. */
#define ALL_OF_THEM 0x10d

struct nv {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_device *dev;
	struct weir_domain *d;
	struct weir_nvme_info info;
	char *mem;		/* MEM of a pattern, and as much of zeros. */
	char name[16];
	bool is_real;
	struct jrec j;
};

/* The guest's drive, whose bytes these tests overwrite; a drive of another model may
 * have data that somebody needs. */
static bool has_drive(void)
{
	FILE *f = getenv("WEIR_TEST_IN_GUEST") ?
		  fopen("/sys/class/nvme/nvme0/model", "re") : NULL;
	char model[64] = "";

	if (!f)
		return false;
	if (!fgets(model, sizeof(model), f))
		model[0] = 0;
	fclose(f);
	return !strncmp(model, MODEL, strlen(MODEL));
}

static void nv_list_with(struct nv *v, void **state, struct mock_nvme_opts opts,
			 struct weir_reactor_opts reactor)
{
	const char *path;

	memset(v, 0, sizeof(*v));
	v->r = start_reactor_with(state, reactor);
	v->is_real = has_drive();
	/* The guest's drive has two namespaces. */
	strcpy(v->name, opts.has_pi ? "ng0n2" : "ng0n1");
	if (v->is_real) {
		unsetenv("WEIR_NVME_DEVICES");
		return;
	}
	/* Any file; a world has others. */
	if (!strcmp(weir_reactor_backend(v->r), "sim")) {
		path = "/dev/null";
	} else {
		close(test_file(state, "ng77n1", 1, 0));
		path = test_path(state, "ng77n1");
	}
	strcpy(v->name, strrchr(path, '/') + 1);
	setenv("WEIR_NVME_DEVICES", path, 1);
	mock_nvme_open(path, &opts);
}

static void nv_list(struct nv *v, void **state, struct mock_nvme_opts opts)
{
	nv_list_with(v, state, opts, (struct weir_reactor_opts){ 0 });
}

static void nv_begin_with(struct nv *v, void **state, struct mock_nvme_opts opts,
			  struct weir_reactor_opts reactor)
{
	nv_list_with(v, state, opts, reactor);
	v->dma = start_dma(v->r, (struct weir_dma_opts){ 0 });
	assert_int_equal(weir_device_open_name(&v->dev, v->name), 0);
	v->d = weir_nvme_domain(v->dev);
	v->info.size = sizeof(v->info);
	assert_int_equal(weir_nvme_info(v->dev, &v->info), 0);
	v->mem = aligned_alloc(4096, 2 * MEM);
	fill_pattern(v->mem, MEM, 0, 1);
	memset(v->mem + MEM, 0, MEM);
	jrec_init(&v->j);
}

static void nv_begin(struct nv *v, void **state, struct mock_nvme_opts opts)
{
	nv_begin_with(v, state, opts, (struct weir_reactor_opts){ 0 });
}

static void nv_begin_all(struct nv *v, void **state)
{
	nv_begin(v, state, (struct mock_nvme_opts){ .oncs = ALL_OF_THEM });
}

static void nv_begin_mock(struct nv *v, void **state, struct mock_nvme_opts opts)
{
	if (has_drive())
		skip_because("over the mock only");
	nv_begin(v, state, opts);
}

static void nv_end(struct nv *v)
{
	if (v->dma)
		assert_int_equal(weir_dma_destroy(v->dma), 0);
	if (v->dev)
		assert_int_equal(weir_device_close(v->dev), 0);
	free(v->mem);
	if (!v->is_real)
		mock_nvme_close();
}

static int64_t put(struct nv *v, uint64_t at, size_t from, size_t len)
{
	weir_job_copy(&v->j.job, weir_operand_at(v->d, at, len),
		      weir_operand_mem(v->mem + from, len));
	return jrec_run(v->dma, &v->j);
}

static int64_t get(struct nv *v, uint64_t at, size_t to, size_t len)
{
	weir_job_copy(&v->j.job, weir_operand_mem(v->mem + MEM + to, len),
		      weir_operand_at(v->d, at, len));
	return jrec_run(v->dma, &v->j);
}

/* What is there, without the library. */
static void assert_bytes(struct nv *v, uint64_t at, const char *wanted, size_t len)
{
	char path[32], *page;
	int fd;

	if (!v->is_real) {
		assert_memory_equal(mock_nvme_bytes() + at, wanted, len);
		return;
	}
	page = aligned_alloc(4096, (len + 4095) / 4096 * 4096);
	snprintf(path, sizeof(path), "/dev/nvme%s", v->name + 2);
	fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, page, len, (off_t)at), len);
	assert_memory_equal(page, wanted, len);
	close(fd);
	free(page);
}

/* Devices. */

static void find_device(struct weir_device_caps *caps, const char *name)
{
	struct weir_devinfo **list;
	size_t n, i;

	memset(caps, 0, sizeof(*caps));
	caps->size = sizeof(*caps);
	assert_int_equal(weir_device_list(&list, &n), 0);
	for (i = 0; i < n; i++) {
		assert_int_equal(weir_devinfo_caps(list[i], caps), 0);
		if (!strcmp(caps->name, name))
			break;
	}
	assert_true(i < n);
	weir_device_list_free(list);
}

static void a_namespace_is_a_device_with_what_it_says_of_itself(void **state)
{
	struct weir_device_caps caps;
	struct nv v;

	nv_begin(&v, state, (struct mock_nvme_opts){ .oncs = ALL_OF_THEM,
						     .block_size = 4096 });
	find_device(&caps, v.name);
	assert_int_equal(caps.kind, WEIR_DEVICE_NVME);
	assert_int_equal(caps.flags, WEIR_DEVICE_USABLE);
	assert_int_equal(caps.dm_size, v.info.blocks * v.info.block_size);
	assert_int_equal(caps.align, v.info.block_size);
	assert_int_equal(weir_domain_kind(v.d), WEIR_DOMAIN_NVME);
	if (!v.is_real) {
		assert_int_equal(caps.dm_size, MOCK_NVME_BYTES);
		assert_int_equal(v.info.block_size, 4096);
		assert_int_equal(v.info.nsid, 7);
		assert_string_equal(v.info.model, "mock");
		assert_string_equal(v.info.serial, "serial");
		assert_string_equal(v.info.firmware, "1.0");
		assert_int_equal(v.info.max_copy, 8 * 4096);
		assert_int_equal(v.info.max_transfer, 65536);
		assert_int_equal(v.info.flags,
				 WEIR_NVME_CACHE | WEIR_NVME_COMPARE |
				 WEIR_NVME_DSM | WEIR_NVME_WRITE_ZEROES |
				 WEIR_NVME_COPY);
	} else {
		assert_string_equal(v.info.model, MODEL);
		assert_int_equal(caps.dm_size, 64 << 20);
	}
	nv_end(&v);
}

static void a_device_that_cannot_be_used_says_why(void **state)
{
	struct weir_device_caps caps;
	struct weir_device *dev = NULL;
	struct nv v;

	if (has_drive())
		skip_because("over the mock only");
	nv_list(&v, state, (struct mock_nvme_opts){ .identify_err = EACCES });
	find_device(&caps, v.name);
	assert_int_equal(caps.flags, 0);
	assert_non_null(strstr(caps.why, "CAP_SYS_ADMIN"));
	assert_int_equal(weir_device_open_name(&dev, v.name), -EOPNOTSUPP);
	assert_non_null(strstr(weir_why(), "CAP_SYS_ADMIN"));
	mock_nvme_close();
	find_device(&caps, v.name);
	assert_non_null(strstr(caps.why, "it is no NVMe namespace"));
	setenv("WEIR_NVME_DEVICES", "/nowhere/ng1n1::/nowhere/ng2n1", 1);
	find_device(&caps, "ng1n1");
	assert_non_null(strstr(caps.why, "No such file"));
	find_device(&caps, "ng2n1");
	assert_null(weir_nvme_domain(NULL));
	assert_int_equal(weir_nvme_info(NULL, &v.info), -EINVAL);
}

static void blocks_with_metadata_are_for_commands_only(void **state)
{
	struct nv v;

	nv_begin_mock(&v, state, (struct mock_nvme_opts){ .metadata_size = 64 });
	assert_null(v.d);
	assert_non_null(strstr(weir_why(), "weir_nvme_submit"));
	nv_end(&v);
}

/* Jobs. */

static void bytes_go_there_and_back(void **state)
{
	static const size_t lens[] = { 512, 4096, 65536, 66048, MEM };
	struct nv v;
	size_t i;

	nv_begin_all(&v, state);
	for (i = 0; i < N_OF(lens); i++) {
		assert_int_equal(put(&v, 1536, 0, lens[i]), lens[i]);
		assert_bytes(&v, 1536, v.mem, lens[i]);
		memset(v.mem + MEM, 0, lens[i]);
		assert_int_equal(get(&v, 1536, 0, lens[i]), lens[i]);
		assert_memory_equal(v.mem + MEM, v.mem, lens[i]);
	}
	if (!v.is_real)
		assert_int_equal(mock_nvme_largest(), v.info.max_transfer);
	nv_end(&v);
}

/* Memory at odd addresses; blocks over several pieces, and pieces of several. */
static void pieces_of_both_sides_are_gathered(void **state)
{
	struct iovec near[40], far[3] = { { (void *)8192, 1024 },
					  { (void *)0, 512 },
					  { (void *)65536, 18944 } };
	size_t at = 3, i, sum = 0;
	char *flat;
	struct nv v;

	nv_begin_all(&v, state);
	for (i = 0; i < 39; i++, at += near[i - 1].iov_len + 5) {
		near[i].iov_base = v.mem + at;
		near[i].iov_len = 1 + 26 * i;
		sum += near[i].iov_len;
	}
	near[39] = (struct iovec){ v.mem + at, 20480 - sum };
	weir_job_copy(&v.j.job, weir_operand_iov(v.d, far, 3),
		      weir_operand_iov(NULL, near, 40));
	assert_int_equal(jrec_run(v.dma, &v.j), 20480);
	flat = malloc(20480);
	for (i = 0, at = 0; i < 40; at += near[i++].iov_len)
		memcpy(flat + at, near[i].iov_base, near[i].iov_len);
	assert_bytes(&v, 8192, flat, 1024);
	assert_bytes(&v, 0, flat + 1024, 512);
	assert_bytes(&v, 65536, flat + 1536, 18944);
	for (i = 0; i < 40; i++)
		memset(near[i].iov_base, 0, near[i].iov_len);
	weir_job_copy(&v.j.job, weir_operand_iov(NULL, near, 40),
		      weir_operand_iov(v.d, far, 3));
	assert_int_equal(jrec_run(v.dma, &v.j), 20480);
	for (i = 0, at = 0; i < 40; at += near[i++].iov_len)
		assert_memory_equal(near[i].iov_base, flat + at, near[i].iov_len);
	free(flat);
	nv_end(&v);
}

static void a_block_in_too_many_pieces_is_refused(void **state)
{
	struct iovec near[128];
	struct nv v;
	size_t i;

	nv_begin_all(&v, state);
	for (i = 0; i < 128; i++)
		near[i] = (struct iovec){ v.mem + 9 * i, 4 };
	weir_job_copy(&v.j.job, weir_operand_at(v.d, 0, 512),
		      weir_operand_iov(NULL, near, 128));
	assert_int_equal(jrec_run(v.dma, &v.j), -EMSGSIZE);
	assert_int_equal(v.j.detail.bytes, 0);
	assert_int_equal(put(&v, 0, 0, 512), 512);
	nv_end(&v);
}

static void parts_of_blocks_and_bytes_outside_are_refused(void **state)
{
	uint64_t len;
	struct nv v;

	nv_begin_all(&v, state);
	len = v.info.blocks * v.info.block_size;
	weir_job_copy(&v.j.job, weir_operand_at(v.d, 100, 512),
		      weir_operand_mem(v.mem, 512));
	assert_int_equal(weir_job_start(v.dma, &v.j.job), -EINVAL);
	assert_non_null(strstr(weir_why(), "512 bytes at 100 of ng"));
	weir_job_copy(&v.j.job, weir_operand_mem(v.mem, 511),
		      weir_operand_at(v.d, 512, 511));
	assert_int_equal(weir_job_start(v.dma, &v.j.job), -EINVAL);
	weir_job_copy(&v.j.job, weir_operand_at(v.d, len - 512, 1024),
		      weir_operand_mem(v.mem, 1024));
	assert_int_equal(weir_job_start(v.dma, &v.j.job), -ERANGE);
	assert_int_equal(put(&v, len - 512, 0, 512), 512);
	nv_end(&v);
}

static void fill(struct nv *v, uint64_t at, size_t len, uint64_t pattern)
{
	weir_job_fill(&v->j.job, weir_operand_at(v->d, at, len), pattern);
	assert_int_equal(jrec_run(v->dma, &v->j), len);
}

static void fills_write_zeroes_or_a_pattern(void **state)
{
	struct jrec two[2];
	struct nv v;
	uint64_t *words;
	size_t i;

	nv_begin_all(&v, state);
	assert_int_equal(put(&v, 0, 0, MEM), MEM);
	fill(&v, 512, 300 << 10, 0);
	assert_bytes(&v, 0, v.mem, 512);
	assert_bytes(&v, 512, v.mem + MEM, 300 << 10);
	if (!v.is_real)
		assert_int_equal(mock_nvme_count(ZEROES), 5);
	fill(&v, 0, 300 << 10, UINT64_C(0x0807060504030201));
	words = (uint64_t *)(v.mem + MEM);
	for (i = 0; i < 300 << 7; i++)
		words[i] = UINT64_C(0x0807060504030201);
	assert_bytes(&v, 0, v.mem + MEM, 300 << 10);
	/* Two patterns at the same time. */
	for (i = 0; i < 2; i++) {
		jrec_init(&two[i]);
		weir_job_fill(&two[i].job, weir_operand_at(v.d, i << 18, 1 << 18),
			      i + 1);
		STARTS(weir_job_start(v.dma, &two[i].job));
	}
	UNTIL(v.r, two[0].calls && two[1].calls);
	for (i = 0; i < 1 << 16; i++)
		words[i] = i / (1 << 15) + 1;
	assert_int_equal(two[0].res + two[1].res, 1 << 19);
	assert_bytes(&v, 0, v.mem + MEM, 1 << 19);
	nv_end(&v);
}

static void zeroes_are_written_where_the_device_has_no_command(void **state)
{
	struct nv v;

	nv_begin_mock(&v, state, (struct mock_nvme_opts){ 0 });
	assert_int_equal(put(&v, 0, 0, 65536), 65536);
	fill(&v, 0, 65536, 0);
	assert_bytes(&v, 0, v.mem + MEM, 65536);
	assert_int_equal(mock_nvme_count(ZEROES), 0);
	nv_end(&v);
}

static void a_copy_on_the_device_is_one_of_its_commands(void **state)
{
	struct nv v;

	nv_begin_all(&v, state);
	if (!(v.info.flags & WEIR_NVME_COPY)) {
		nv_end(&v);
		skip_because("the drive has no Copy command");
	}
	assert_int_equal(put(&v, 0, 0, 65536), 65536);
	weir_job_copy(&v.j.job, weir_operand_at(v.d, 1 << 20, 65536),
		      weir_operand_at(v.d, 0, 65536));
	assert_int_equal(jrec_run(v.dma, &v.j), 65536);
	assert_bytes(&v, 1 << 20, v.mem, 65536);
	if (!v.is_real) {
		assert_int_equal(mock_nvme_count(COPY), 16);
		assert_int_equal(mock_nvme_count(READ), 0);
	}
	nv_end(&v);
}

static void jobs_of_other_kinds_and_files_go_through_staging(void **state)
{
	struct weir_domain *file;
	int fd;
	struct nv v;

	nv_begin(&v, state, (struct mock_nvme_opts){ 0 });
	fd = test_file(state, "file", 65536, 1);
	file = file_domain(fd);
	weir_job_copy(&v.j.job, weir_operand_at(v.d, 4096, 65536),
		      weir_operand_at(file, 0, 65536));
	assert_int_equal(jrec_run(v.dma, &v.j), 65536);
	assert_bytes(&v, 4096, v.mem, 65536);
	weir_job_copy_crc32c(&v.j.job, weir_operand_at(v.d, 1 << 20, 65536),
			     weir_operand_at(v.d, 4096, 65536), 0);
	assert_int_equal(jrec_run(v.dma, &v.j), 65536);
	assert_bytes(&v, 1 << 20, v.mem, 65536);
	weir_job_compare(&v.j.job, weir_operand_mem(v.mem, 65536),
			 weir_operand_at(v.d, 4096, 65536));
	assert_int_equal(jrec_run(v.dma, &v.j), 65536);
	assert_int_equal(weir_domain_destroy(file), 0);
	close(fd);
	nv_end(&v);
}

#define MANY 400

/* More than a queue has places for. */
static void a_queue_is_shared_by_many_jobs(void **state)
{
	static struct jrec jobs[MANY];
	unsigned int i;
	struct nv v;

	nv_begin_all(&v, state);
	for (i = 0; i < MANY; i++) {
		jrec_init(&jobs[i]);
		weir_job_copy(&jobs[i].job, weir_operand_at(v.d, 2048 * i, 2048),
			      weir_operand_mem(v.mem + 2048 * i, 2048));
		STARTS(weir_job_start(v.dma, &jobs[i].job));
	}
	UNTIL(v.r, dma_stats_of(v.dma).in_flight == 0);
	for (i = 0; i < MANY; i++)
		assert_int_equal(jobs[i].res, 2048);
	assert_bytes(&v, 0, v.mem, 2048 * MANY);
	nv_end(&v);
}

/* Failures. */

static void a_command_that_fails_is_sent_again_unless_the_device_forbids_it(
	void **state)
{
	struct mock_nvme_fault fault = { .opcode = READ, .slba = 256,
					 .res = 0x281 };
	struct nv v;

	nv_begin_mock(&v, state, (struct mock_nvme_opts){ 0 });
	fault.times = WEIR_NVME_TRIES - 1;
	mock_nvme_fail(&fault);
	assert_int_equal(get(&v, 0, 0, MEM), MEM);
	assert_int_equal(mock_nvme_count(READ), 16 + WEIR_NVME_TRIES - 1);
	fault.times = WEIR_NVME_TRIES;
	mock_nvme_fail(&fault);
	assert_int_equal(get(&v, 0, 0, MEM), -EIO);
	assert_int_equal(v.j.detail.bytes, 131072);
	assert_int_equal(v.j.detail.code, 0x281);
	fault.times = 1;
	fault.res |= DNR;
	mock_nvme_fail(&fault);
	assert_int_equal(get(&v, 0, 0, MEM), -EIO);
	assert_string_equal(weir_nvme_status_text(v.j.detail.code),
			    "unrecovered read error");
	nv_end(&v);
}

static void statuses_are_errnos(void **state)
{
	static const struct {
		int res, err;
	} answers[] = {
		{ 0x1 | DNR, -EOPNOTSUPP }, { 0x2 | DNR, -EINVAL },
		{ 0x20 | DNR, -EROFS }, { 0x80 | DNR, -ERANGE },
		{ 0x81 | DNR, -ENOSPC }, { 0x83 | DNR, -EBADE },
		{ 0x282 | DNR, -EILSEQ }, { 0x286 | DNR, -EACCES },
		{ 0x287 | DNR, -ENODATA }, { 0x7ff | DNR, -EIO },
		{ -ENXIO, -ENODEV }, { -EACCES, -EACCES }, { -EPERM, -EPERM },
		{ -ENOTTY, -EOPNOTSUPP }, { -EINTR, 0 }, { -EAGAIN, 0 },
	};
	struct mock_nvme_fault fault = { .opcode = WRITE, .times = 1 };
	struct nv v;
	size_t i;

	nv_begin_mock(&v, state, (struct mock_nvme_opts){ 0 });
	for (i = 0; i < N_OF(answers); i++) {
		fault.res = answers[i].res;
		mock_nvme_fail(&fault);
		assert_int_equal(put(&v, 0, 0, 512),
				 answers[i].err ? answers[i].err : 512);
		if (answers[i].err)
			assert_int_equal(v.j.detail.code, answers[i].res);
	}
	assert_string_equal(weir_nvme_status_text(0x7ff), "unknown status");
	assert_string_equal(weir_nvme_status_text(-EPERM),
			    "Operation not permitted");
	assert_string_equal(weir_nvme_status_text(-4000), "unknown status");
	nv_end(&v);
}

static void a_cancelled_job_sends_no_more(void **state)
{
	struct nv v;

	nv_begin_mock(&v, state, (struct mock_nvme_opts){ 0 });
	weir_job_copy(&v.j.job, weir_operand_at(v.d, 0, 2 * MEM),
		      weir_operand_mem(v.mem, 2 * MEM));
	mock_nvme_hold(true);
	STARTS(weir_job_start(v.dma, &v.j.job));
	UNTIL(v.r, mock_nvme_waiting());
	assert_int_equal(weir_op_cancel(&v.j.job.op), 0);
	some_turns(v.r, 3);
	assert_int_equal(v.j.calls, 0);
	mock_nvme_hold(false);
	assert_int_equal(jrec_finish(v.r, &v.j), -ECANCELED);
	/* A window of them. */
	assert_int_equal(mock_nvme_count(WRITE), 16);
	assert_int_equal(v.j.detail.bytes, 16 * 65536);
	nv_end(&v);
}

/* Commands. */

static struct weir_nvme_queue *start_queue(struct nv *v, uint32_t depth)
{
	struct weir_nvme_queue_opts opts = { .size = sizeof(opts),
					     .depth = depth };
	struct weir_nvme_queue *q = NULL;

	assert_int_equal(weir_nvme_queue_create(&q, v->r, v->dev, &opts), 0);
	return q;
}

static struct weir_nvme_stats queue_stats(const struct weir_nvme_queue *q)
{
	struct weir_nvme_stats s = { .size = sizeof(s) };

	assert_int_equal(weir_nvme_stats(q, &s), 0);
	return s;
}

static int64_t run(struct nv *v, struct weir_nvme_queue *q,
		   struct weir_nvme_cmd *cmd)
{
	struct rec rec;

	cmd->size = sizeof(*cmd);
	rec_init(&rec);
	STARTS(weir_nvme_submit(q, &rec.op, cmd));
	return finish(v->r, &rec);
}

/* Also for the kernel, which reads the bytes in assert_bytes(). */
static void the_device_makes_and_checks_protection_information(void **state)
{
	struct weir_nvme_cmd wrong = { .opcode = WRITE, .cdw10 = 200,
				       .cdw12 = 1u << 29, .cdw14 = 7 };
	struct weir_nvme_queue *q;
	struct nv v;

	nv_begin(&v, state, (struct mock_nvme_opts){
		.oncs = ALL_OF_THEM, .metadata_size = 8, .has_pi = true });
	assert_true(v.info.flags & WEIR_NVME_PI);
	assert_int_equal(put(&v, 1536, 0, MEM - 1536), MEM - 1536);
	assert_bytes(&v, 1536, v.mem, MEM - 1536);
	fill(&v, 8192, 4096, 0);
	assert_bytes(&v, 8192, v.mem + MEM, 4096);
	assert_int_equal(get(&v, 8192, 0, 4096), 4096);
	/* Not by the Copy command, which would copy tags. */
	weir_job_copy(&v.j.job, weir_operand_at(v.d, 1 << 20, 65536),
		      weir_operand_at(v.d, 65536, 65536));
	assert_int_equal(jrec_run(v.dma, &v.j), 65536);
	assert_bytes(&v, 1 << 20, v.mem + 65536 - 1536, 65536);
	/* The tag of another block. */
	q = start_queue(&v, 0);
	wrong.data = v.mem;
	wrong.data_len = 512;
	assert_int_equal(run(&v, q, &wrong), 0);
	assert_int_equal(get(&v, 200 * 512, 0, 512), -EILSEQ);
	assert_int_equal(weir_nvme_queue_destroy(q), 0);
	nv_end(&v);
}

static void commands_are_operations(void **state)
{
	struct weir_nvme_cmd flush = { .opcode = FLUSH };
	struct weir_nvme_cmd write = { .opcode = WRITE, .cdw10 = 2, .cdw12 = 1 };
	struct weir_nvme_cmd compare = { .opcode = COMPARE, .cdw10 = 2,
					 .cdw12 = 1 };
	struct weir_nvme_cmd beyond = { .opcode = READ, .cdw11 = 1 };
	struct weir_nvme_cmd identify = { .opcode = 6, .cdw10 = 1,
					  .flags = WEIR_NVME_ADMIN };
	struct weir_nvme_queue *q;
	struct weir_nvme_stats s;
	struct iovec iov[2];
	struct nv v;

	nv_begin_all(&v, state);
	q = start_queue(&v, 0);
	assert_int_equal(run(&v, q, &flush), 0);
	iov[0] = (struct iovec){ v.mem, 600 };
	iov[1] = (struct iovec){ v.mem + 600, 424 };
	write.iov = iov;
	write.n_iov = 2;
	assert_int_equal(run(&v, q, &write), 0);
	if (!v.is_real)
		assert_int_equal(write.result, 101);
	assert_bytes(&v, 1024, v.mem, 1024);
	compare.data = v.mem;
	compare.data_len = 1024;
	assert_int_equal(run(&v, q, &compare), 0);
	compare.data = v.mem + 1;
	assert_int_equal(run(&v, q, &compare), -EILSEQ);
	assert_string_equal(weir_nvme_status_text(compare.status),
			    "compare failure");
	beyond.data = v.mem + MEM;
	beyond.data_len = 512;
	assert_int_equal(run(&v, q, &beyond), -ERANGE);
	identify.data = v.mem + MEM;
	identify.data_len = 4096;
	assert_int_equal(run(&v, q, &identify), 0);
	assert_memory_equal(v.mem + MEM + 24, v.info.model,
			    strlen(v.info.model));
	s = queue_stats(q);
	assert_int_equal(s.commands, 6);
	assert_int_equal(s.failed, 2);
	assert_int_equal(s.in_flight, 0);
	/* In the guest by io_uring, but for those of administration; elsewhere that
	 * is tried with the first. */
	assert_int_equal(s.by_ioctl, v.is_real ? 1 : 6);
	assert_true(v.is_real ? s.submits == 5 : s.submits <= 1);
	assert_int_equal(weir_nvme_queue_destroy(q), 0);
	nv_end(&v);
}

static void blocks_are_deallocated(void **state)
{
	uint64_t range[2] = { UINT64_C(8) << 32, 16 };
	struct weir_nvme_cmd flush = { .opcode = FLUSH };
	struct weir_nvme_cmd dsm = { .opcode = DSM, .cdw11 = 4, .data = range,
				     .data_len = sizeof(range) };
	struct weir_nvme_queue *q;
	struct nv v;

	nv_begin_all(&v, state);
	q = start_queue(&v, 1);
	assert_int_equal(put(&v, 0, 0, MEM), MEM);
	assert_int_equal(run(&v, q, &flush), 0);
	assert_int_equal(run(&v, q, &dsm), 0);
	if (!v.is_real)
		assert_bytes(&v, 8192, v.mem + MEM, 4096);
	assert_int_equal(weir_nvme_queue_destroy(q), 0);
	nv_end(&v);
}

static void a_full_queue_refuses_and_one_in_use_stays(void **state)
{
	struct weir_nvme_cmd flush[3] = { { .opcode = FLUSH } };
	struct weir_nvme_queue *q;
	struct rec rec[3];
	struct nv v;
	size_t i;

	nv_begin_mock(&v, state, (struct mock_nvme_opts){ 0 });
	q = start_queue(&v, 2);
	mock_nvme_hold(true);
	for (i = 0; i < 3; i++) {
		flush[i].size = sizeof(flush[i]);
		rec_init(&rec[i]);
	}
	STARTS(weir_nvme_submit(q, &rec[0].op, &flush[0]));
	STARTS(weir_nvme_submit(q, &rec[1].op, &flush[1]));
	assert_int_equal(weir_nvme_submit(q, &rec[2].op, &flush[2]), -EAGAIN);
	assert_int_equal(weir_nvme_submit(q, &rec[1].op, &flush[1]), -EAGAIN);
	UNTIL(v.r, mock_nvme_waiting());
	assert_int_equal(queue_stats(q).in_flight, 2);
	assert_int_equal(weir_nvme_queue_destroy(q), -EBUSY);
	assert_non_null(strstr(weir_why(), "2 commands"));
	/* What a worker has begun is not taken back. */
	assert_int_equal(weir_op_cancel(&rec[0].op), 0);
	mock_nvme_hold(false);
	UNTIL(v.r, rec[0].calls && rec[1].calls);
	assert_int_equal(rec[0].res, 0);
	assert_int_equal(rec[1].res, 0);
	assert_int_equal(weir_nvme_queue_destroy(q), 0);
	nv_end(&v);
}

static void wrong_arguments_are_refused(void **state)
{
	struct weir_nvme_queue_opts opts = { .size = sizeof(opts) };
	struct weir_nvme_cmd cmd, good = { .size = sizeof(good) };
	struct {
		struct weir_nvme_cmd cmd;
		char more[8];
	} later = { .cmd = { .size = sizeof(later) }, .more = { 1 } };
	struct {
		struct weir_nvme_queue_opts opts;
		char more[8];
	} later_opts = { .more = { 1 } };
	struct weir_nvme_queue *q = NULL;
	struct weir_device *cpu = NULL;
	struct iovec iov;
	struct rec rec;
	struct nv v;

	nv_begin_all(&v, state);
	rec_init(&rec);
	assert_int_equal(weir_device_open_name(&cpu, "cpu"), 0);
	assert_int_equal(weir_nvme_queue_create(&q, v.r, cpu, NULL), -EINVAL);
	assert_int_equal(weir_nvme_queue_create(NULL, v.r, v.dev, NULL), -EINVAL);
	assert_int_equal(weir_nvme_queue_create(&q, v.r, NULL, NULL), -EINVAL);
	opts.depth = WEIR_NVME_DEPTH_MAX + 1;
	assert_int_equal(weir_nvme_queue_create(&q, v.r, v.dev, &opts), -EINVAL);
	opts.size = 1;
	assert_int_equal(weir_nvme_queue_create(&q, v.r, v.dev, &opts), -EINVAL);
	later_opts.opts.size = sizeof(later_opts);
	assert_int_equal(weir_nvme_queue_create(&q, v.r, v.dev, &later_opts.opts),
			 -E2BIG);
	assert_int_equal(weir_device_close(cpu), 0);
	q = start_queue(&v, 0);
	assert_int_equal(weir_nvme_submit(NULL, &rec.op, &good), -EINVAL);
	assert_int_equal(weir_nvme_submit(q, NULL, &good), -EINVAL);
	assert_int_equal(weir_nvme_submit(q, &rec.op, NULL), -EINVAL);
	cmd = good;
	cmd.size = 8;
	assert_int_equal(weir_nvme_submit(q, &rec.op, &cmd), -EINVAL);
	assert_int_equal(weir_nvme_submit(q, &rec.op, &later.cmd), -E2BIG);
	cmd = good;
	cmd.flags = 2;
	assert_int_equal(weir_nvme_submit(q, &rec.op, &cmd), -EINVAL);
	cmd = good;
	cmd.reserved0[1] = 1;
	assert_int_equal(weir_nvme_submit(q, &rec.op, &cmd), -EINVAL);
	cmd = good;
	cmd.data_len = 1;
	assert_int_equal(weir_nvme_submit(q, &rec.op, &cmd), -EINVAL);
	cmd = good;
	cmd.iov = &iov;
	cmd.data = &iov;
	assert_int_equal(weir_nvme_submit(q, &rec.op, &cmd), -EINVAL);
	cmd.data = NULL;
	cmd.flags = WEIR_NVME_ADMIN;
	assert_int_equal(weir_nvme_submit(q, &rec.op, &cmd), -EINVAL);
	cmd.flags = 0;
	cmd.n_iov = WEIR_NVME_PIECES_MAX + 1;
	assert_int_equal(weir_nvme_submit(q, &rec.op, &cmd), -EMSGSIZE);
	rec.op.fn = NULL;
	assert_int_equal(weir_nvme_submit(q, &rec.op, &good), -EINVAL);
	assert_int_equal(weir_nvme_stats(NULL, NULL), -EINVAL);
	assert_int_equal(queue_stats(q).commands, 0);
	assert_int_equal(weir_nvme_queue_destroy(q), 0);
	assert_int_equal(weir_nvme_queue_destroy(NULL), 0);
	nv_end(&v);
}

static void a_command_that_the_driver_has_cancelled_is_not_sent_again(void **state)
{
	struct mock_nvme_fault fault = { .opcode = FLUSH, .times = 1,
					 .res = -EINTR };
	struct weir_nvme_cmd flush = { .opcode = FLUSH };
	struct weir_nvme_queue *q;
	struct nv v;

	nv_begin_mock(&v, state, (struct mock_nvme_opts){ 0 });
	q = start_queue(&v, 0);
	mock_nvme_fail(&fault);
	assert_int_equal(run(&v, q, &flush), -EINTR);
	assert_int_equal(flush.status, 0);
	assert_int_equal(mock_nvme_count(FLUSH), 1);
	assert_int_equal(weir_nvme_queue_destroy(q), 0);
	nv_end(&v);
}

static void a_reactor_that_has_stopped_takes_no_queue_and_no_command(void **state)
{
	struct weir_nvme_cmd flush = { .size = sizeof(flush) };
	struct weir_nvme_queue *q, *other = NULL;
	struct rec rec;
	struct nv v;

	nv_begin_all(&v, state);
	q = start_queue(&v, 0);
	weir_reactor_stop(v.r);
	assert_int_equal(weir_reactor_run(v.r), 0);
	rec_init(&rec);
	assert_int_equal(weir_nvme_queue_create(&other, v.r, v.dev, NULL),
			 -ESHUTDOWN);
	assert_int_equal(weir_nvme_submit(q, &rec.op, &flush), -ESHUTDOWN);
	assert_int_equal(weir_nvme_queue_destroy(q), 0);
	nv_end(&v);
}

static void a_world_has_no_devices_of_the_system(void **state)
{
	struct weir_nvme_queue *q = NULL;
	struct nv v;

	nv_begin_all(&v, state);
	if (strcmp(weir_reactor_backend(v.r), "sim")) {
		q = start_queue(&v, 0);
		assert_int_equal(weir_nvme_queue_destroy(q), 0);
	} else {
		assert_int_equal(weir_nvme_queue_create(&q, v.r, v.dev, NULL),
				 -EOPNOTSUPP);
		weir_job_copy(&v.j.job, weir_operand_at(v.d, 0, 512),
			      weir_operand_mem(v.mem, 512));
		assert_int_equal(weir_job_start(v.dma, &v.j.job), -EXDEV);
	}
	nv_end(&v);
}

/* A domain that a job of another context uses is not freed under it. */
static void a_device_may_be_closed_before_its_context(void **state)
{
	struct weir_device *dev;
	struct nv v;

	nv_begin_mock(&v, state, (struct mock_nvme_opts){ 0 });
	mock_nvme_hold(true);
	weir_job_copy(&v.j.job, weir_operand_at(v.d, 0, 4096),
		      weir_operand_mem(v.mem, 4096));
	STARTS(weir_job_start(v.dma, &v.j.job));
	assert_int_equal(weir_device_close(v.dev), 0);
	mock_nvme_hold(false);
	assert_int_equal(jrec_finish(v.r, &v.j), 4096);
	assert_int_equal(weir_device_open_name(&dev, v.name), 0);
	v.dev = dev;
	v.d = weir_nvme_domain(dev);
	assert_int_equal(get(&v, 0, 0, 4096), 4096);
	assert_memory_equal(v.mem, v.mem + MEM, 4096);
	nv_end(&v);
}

/* Its descriptor is closed then, and may be another file's. */
static void a_domain_of_a_closed_device_takes_no_job(void **state)
{
	struct weir_mmap *m;
	struct nv v;

	nv_begin_mock(&v, state, (struct mock_nvme_opts){ 0 });
	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_set_domain(m, v.d, 0, 4096), 0);
	assert_int_equal(weir_device_close(v.dev), 0);
	v.dev = NULL;
	weir_job_copy(&v.j.job, weir_operand_at(v.d, 0, 4096),
		      weir_operand_mem(v.mem, 4096));
	assert_int_equal(weir_job_start(v.dma, &v.j.job), -ENODEV);
	assert_non_null(strstr(weir_why(), "was closed"));
	assert_int_equal(mock_nvme_count(WRITE), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	nv_end(&v);
}

/* Each command is an operation of a worker's. */
static void a_job_waits_where_workers_take_no_more_commands(void **state)
{
	struct nv v;

	if (has_drive())
		skip_because("over the mock only");
	nv_begin_with(&v, state, (struct mock_nvme_opts){ 0 },
		      (struct weir_reactor_opts){ .ops_max = 8 });
	/* The first one finds that there is no ring. */
	assert_int_equal(put(&v, 0, 0, 512), 512);
	assert_int_equal(put(&v, 0, 0, MEM), MEM);
	assert_bytes(&v, 0, v.mem, MEM);
	nv_end(&v);
}

static void a_job_ends_when_its_reactor_stops(void **state)
{
	struct nv v;

	nv_begin_mock(&v, state, (struct mock_nvme_opts){ 0 });
	mock_nvme_hold(true);
	weir_job_copy(&v.j.job, weir_operand_at(v.d, 0, 2 * MEM),
		      weir_operand_mem(v.mem, 2 * MEM));
	STARTS(weir_job_start(v.dma, &v.j.job));
	UNTIL(v.r, mock_nvme_waiting());
	weir_reactor_stop(v.r);
	mock_nvme_hold(false);
	assert_int_equal(weir_reactor_run(v.r), 0);
	assert_int_equal(v.j.calls, 1);
	assert_int_equal(v.j.res, -ECANCELED);
	assert_memory_equal(mock_nvme_bytes(), v.mem, v.j.detail.bytes);
	nv_end(&v);
}

static const struct harness_case cases[] = {
	REAL(a_namespace_is_a_device_with_what_it_says_of_itself),
	REAL(a_device_that_cannot_be_used_says_why),
	REAL(blocks_with_metadata_are_for_commands_only),
	REAL(bytes_go_there_and_back),
	REAL(pieces_of_both_sides_are_gathered),
	REAL(a_block_in_too_many_pieces_is_refused),
	REAL(parts_of_blocks_and_bytes_outside_are_refused),
	REAL(fills_write_zeroes_or_a_pattern),
	REAL(zeroes_are_written_where_the_device_has_no_command),
	REAL(a_copy_on_the_device_is_one_of_its_commands),
	REAL(jobs_of_other_kinds_and_files_go_through_staging),
	REAL(a_queue_is_shared_by_many_jobs),
	REAL(a_command_that_fails_is_sent_again_unless_the_device_forbids_it),
	REAL(statuses_are_errnos),
	REAL(a_cancelled_job_sends_no_more),
	REAL(the_device_makes_and_checks_protection_information),
	REAL(commands_are_operations),
	REAL(blocks_are_deallocated),
	REAL(a_full_queue_refuses_and_one_in_use_stays),
	REAL(wrong_arguments_are_refused),
	REAL(a_command_that_the_driver_has_cancelled_is_not_sent_again),
	REAL(a_reactor_that_has_stopped_takes_no_queue_and_no_command),
	REAL(a_device_may_be_closed_before_its_context),
	REAL(a_domain_of_a_closed_device_takes_no_job),
	REAL(a_job_waits_where_workers_take_no_more_commands),
	REAL(a_job_ends_when_its_reactor_stops),
	CASE(a_world_has_no_devices_of_the_system),
};

int main(void)
{
	return harness_run_all(cases, N_OF(cases));
}
