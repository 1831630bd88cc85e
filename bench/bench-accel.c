/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kinds of jobs of libweir-accel: bytes of plain input in a second, beside the
 * library that does the work, called bare.
 *
 * Small jobs are done by the reactor's thread, large ones by a worker: "job" is
 * one at a time, "4 jobs" are in flight together, each with a stream of its
 * own.  "igzip" is ISA-L, which the jobs use for gzip where it is found, and
 * "zlib" is what they use otherwise.  "by bytes" is a CRC by a table of 256
 * words, as programs without a library have it.  "of input" is how large the
 * output is.
 *
 * The input is made of random words, and compresses like text.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_OPENSSL
#include <openssl/evp.h>
#endif
#ifdef HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif
#ifdef HAVE_ISAL
#include <isa-l.h>
#endif

#include <weir/accel/codec.h>
#include <weir/accel/crc.h>
#include <weir/accel/dif.h>
#include <weir/accel/kinds.h>
#include <weir/accel/xts.h>
#include <weir/dma.h>
#include <weir/job.h>
#include <weir/reactor.h>

#include "bench/bench.h"

#define SIZE_MAX_HERE ((size_t)1 << 20)
#define CAP (2 * SIZE_MAX_HERE)
#define DEPTH 4
#define SECTOR 4096

static struct weir_reactor *reactor;
static struct weir_dma *dma;
static char *plain, *packed;
static size_t n_packed;
static unsigned char key[64];

/* A job, and what it needs for itself. */
struct slot {
	struct weir_job job;
	struct weir_codec *codec;
	struct weir_codec_args codec_args;
	char *dst;
};

static struct slot slots[DEPTH];
static struct weir_xts *xts;
static struct weir_xts_args xts_args;

/* What is run now. */
static struct weir_operand source;
static uint32_t kind;
static const void *common_args;	/* NULL: the slot's codec. */
static bool has_output;
static uint64_t left, running;
static int64_t last_res;

static void start(struct slot *s)
{
	struct weir_operand none = weir_operand_mem(NULL, 0);

	weir_job_registered(&s->job, kind,
			    has_output ? weir_operand_mem(s->dst, CAP) : none,
			    source, common_args ? common_args :
				    s->codec ? &s->codec_args : NULL);
	bench_must(weir_job_start(dma, &s->job), "weir_job_start");
	left--;
	running++;
}

static void on_done(struct weir_op *op, int64_t res)
{
	struct slot *s = weir_container_of(op, struct slot, job.op);

	if (res < 0)
		bench_die("a job", (int)-res);
	last_res = res;
	running--;
	if (left)
		start(s);
	else if (!running)
		weir_reactor_break(reactor);
}

/* Nanoseconds for each of @n jobs, of which @depth are in flight. */
static double run_jobs(uint64_t n, int depth)
{
	uint64_t begin = bench_wall_ns();

	left = n;
	for (int i = 0; i < depth && left; i++)
		start(&slots[i]);
	bench_must(weir_reactor_run(reactor), "weir_reactor_run");
	return (double)(bench_wall_ns() - begin) / (double)n;
}

/* What a library does with @len bytes of @from; returns how many it writes. */
typedef size_t bare_fn(char *to, const char *from, size_t len, int level);

static double run_bare(uint64_t n, bare_fn *fn, const char *from, size_t len,
		       int level)
{
	uint64_t begin = bench_wall_ns();

	for (uint64_t i = 0; i < n; i++)
		if (!fn(slots[0].dst, from, len, level))
			bench_die("a library", EIO);
	return (double)(bench_wall_ns() - begin) / (double)n;
}

#ifdef HAVE_ZLIB
static size_t zlib_pack(char *to, const char *from, size_t len, int level)
{
	static z_stream z[10];
	z_stream *s = &z[level];

	if (!s->state)
		deflateInit2(s, level, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY);
	else
		deflateReset(s);
	s->next_in = (Bytef *)(uintptr_t)from;
	s->avail_in = (uInt)len;
	s->next_out = (Bytef *)to;
	s->avail_out = CAP;
	return deflate(s, Z_FINISH) == Z_STREAM_END ? CAP - s->avail_out : 0;
}

static size_t zlib_unpack(char *to, const char *from, size_t len, int level)
{
	static z_stream z;

	(void)level;
	if (!z.state)
		inflateInit2(&z, 31);
	else
		inflateReset(&z);
	z.next_in = (Bytef *)(uintptr_t)from;
	z.avail_in = (uInt)len;
	z.next_out = (Bytef *)to;
	z.avail_out = CAP;
	return inflate(&z, Z_FINISH) == Z_STREAM_END ? CAP - z.avail_out : 0;
}
#endif

#ifdef HAVE_ISAL
static size_t igzip_pack(char *to, const char *from, size_t len, int level)
{
	static struct isal_zstream z;
	static uint8_t level_buf[ISAL_DEF_LVL1_DEFAULT];

	isal_deflate_init(&z);
	z.level = (uint32_t)level;
	z.level_buf = level_buf;
	z.level_buf_size = sizeof(level_buf);
	z.gzip_flag = IGZIP_GZIP;
	z.end_of_stream = 1;
	z.next_in = (uint8_t *)(uintptr_t)from;
	z.avail_in = (uint32_t)len;
	z.next_out = (uint8_t *)to;
	z.avail_out = CAP;
	return isal_deflate(&z) == COMP_OK ? CAP - z.avail_out : 0;
}
#endif

#ifdef HAVE_ZSTD
static size_t zstd_pack(char *to, const char *from, size_t len, int level)
{
	static ZSTD_CCtx *c;
	size_t n;

	if (!c) {
		c = ZSTD_createCCtx();
		ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
	}
	ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level);
	n = ZSTD_compress2(c, to, CAP, from, len);
	return ZSTD_isError(n) ? 0 : n;
}

static size_t zstd_unpack(char *to, const char *from, size_t len, int level)
{
	static ZSTD_DCtx *d;
	size_t n;

	(void)level;
	if (!d)
		d = ZSTD_createDCtx();
	n = ZSTD_decompressDCtx(d, to, CAP, from, len);
	return ZSTD_isError(n) ? 0 : n;
}
#endif

#ifdef HAVE_OPENSSL
static size_t openssl_encrypt(char *to, const char *from, size_t len, int level)
{
	static EVP_CIPHER_CTX *c;
	unsigned char iv[16] = { 0 };
	int n;

	(void)level;
	if (!c) {
		c = EVP_CIPHER_CTX_new();
		EVP_CipherInit_ex(c, EVP_aes_256_xts(), NULL, key, NULL, 1);
	}
	for (size_t at = 0; at < len; at += SECTOR) {
		memcpy(iv, &(uint64_t){ at / SECTOR }, 8);
		if (!EVP_CipherInit_ex(c, NULL, NULL, NULL, iv, -1) ||
		    !EVP_CipherUpdate(c, (unsigned char *)to + at, &n,
				      (const unsigned char *)from + at, SECTOR))
			return 0;
	}
	return len;
}
#endif

static size_t crc64_by_bytes(char *to, const char *from, size_t len, int level)
{
	static uint64_t table[256];
	uint64_t crc = ~UINT64_C(0), word;

	(void)level;
	for (int i = 0; !table[255] && i < 256; i++) {
		word = (uint64_t)i;
		for (int k = 0; k < 8; k++)
			word = word >> 1 ^
			       (word & 1 ? UINT64_C(0x9a6c9329ac4bc9b5) : 0);
		table[i] = word;
	}
	for (size_t i = 0; i < len; i++)
		crc = crc >> 8 ^ table[(crc ^ (unsigned char)from[i]) & 255];
	memcpy(to, &crc, sizeof(crc));
	return len;
}

static size_t crc16_by_bytes(char *to, const char *from, size_t len, int level)
{
	static uint16_t table[256];
	uint16_t crc = 0, word;

	(void)level;
	for (int i = 0; !table[255] && i < 256; i++) {
		word = (uint16_t)(i << 8);
		for (int k = 0; k < 8; k++)
			word = (uint16_t)(word << 1 ^
					  (word & 0x8000 ? 0x8bb7 : 0));
		table[i] = word;
	}
	for (size_t i = 0; i < len; i++)
		crc = (uint16_t)(crc << 8 ^
				 table[crc >> 8 ^ (unsigned char)from[i]]);
	memcpy(to, &crc, sizeof(crc));
	return len;
}

/* A case: a kind, and a library that does the same. */
struct work {
	const char *name;
	uint32_t which, format;
	int level;
	size_t small;		/* Done by the reactor's thread. */
	const char *library;
	bare_fn *bare, *pack;	/* .pack: what makes the input. */
	uint64_t rate;		/* Bytes in 10 ms, about. */
};

static const struct weir_dif dif = {
	.size = sizeof(dif), .data = 4096, .metadata = 8, .check = 7,
};

static const struct work works[] = {
#ifdef HAVE_ZLIB
	{ "gzip, level 1", WEIR_ACCEL_COMPRESS, WEIR_CODEC_GZIP, 1, 8 << 10,
	  "zlib", zlib_pack, NULL, 1 << 20 },
	{ "gzip, level 6", WEIR_ACCEL_COMPRESS, WEIR_CODEC_GZIP, 6, 8 << 10,
	  "zlib", zlib_pack, NULL, 1 << 19 },
	{ "gunzip", WEIR_ACCEL_DECOMPRESS, WEIR_CODEC_GZIP, 6, 4 << 10,
	  "zlib", zlib_unpack, zlib_pack, 4 << 20 },
#endif
#ifdef HAVE_ZSTD
	{ "zstd, level 3", WEIR_ACCEL_COMPRESS, WEIR_CODEC_ZSTD, 3, 8 << 10,
	  "libzstd", zstd_pack, NULL, 2 << 20 },
	{ "unzstd", WEIR_ACCEL_DECOMPRESS, WEIR_CODEC_ZSTD, 3, 4 << 10,
	  "libzstd", zstd_unpack, zstd_pack, 8 << 20 },
#endif
#ifdef HAVE_OPENSSL
	{ "AES-256-XTS", WEIR_ACCEL_ENCRYPT, 0, 0, 64 << 10, "OpenSSL",
	  openssl_encrypt, NULL, 16 << 20 },
#endif
	{ "CRC-64 NVMe", WEIR_ACCEL_CRC64, 0, 0, 64 << 10, "by bytes",
	  crc64_by_bytes, NULL, 16 << 20 },
	{ "CRC-16 T10-DIF", WEIR_ACCEL_CRC16, 0, 0, 64 << 10, "by bytes",
	  crc16_by_bytes, NULL, 16 << 20 },
	{ "DIF insert", WEIR_ACCEL_DIF_INSERT, 0, 0, 64 << 10, NULL, NULL, NULL,
	  16 << 20 },
};

static void make_codecs(const struct work *w)
{
	struct weir_codec_opts opts = {
		.size = sizeof(opts), .format = w->format,
		.decode = w->which == WEIR_ACCEL_DECOMPRESS,
		.level = w->which == WEIR_ACCEL_DECOMPRESS ? 0 : w->level,
	};

	for (int i = 0; i < DEPTH; i++) {
		if (w->format)
			bench_must(weir_codec_create(&slots[i].codec, &opts),
				   weir_why());
		slots[i].codec_args.codec = slots[i].codec;
	}
}

static void drop_codecs(void)
{
	for (int i = 0; i < DEPTH; i++) {
		bench_must(weir_codec_destroy(slots[i].codec), "destroy");
		slots[i].codec = NULL;
	}
}

static void measure(struct bench *b, const struct work *w, size_t len)
{
	const char *from = plain;
	char what[48], text[24];
	size_t n_in = len;
	uint64_t n = b->quick ? 1 : w->rate / len + DEPTH;

	snprintf(what, sizeof(what), "%s, %s", w->name,
		 bench_size_text(text, len));
	if (w->pack) {
		n_in = n_packed = w->pack(packed, plain, len, w->level);
		from = packed;
	}
	kind = weir_accel_kind(w->which);
	has_output = w->which != WEIR_ACCEL_CRC64 &&
		     w->which != WEIR_ACCEL_CRC16;
	common_args = w->which == WEIR_ACCEL_ENCRYPT ? (void *)&xts_args :
		      w->which == WEIR_ACCEL_DIF_INSERT ? (const void *)&dif :
							  NULL;
	source = weir_operand_mem((void *)(uintptr_t)from, n_in);
	make_codecs(w);
	if (w->bare && bench_wants(b, w->library))
		bench_add(b, what, w->library, "MB/s", (double)len * 1e3 /
			  run_bare(n, w->bare, from, n_in, w->level));
#ifdef HAVE_ISAL
	if (w->format == WEIR_CODEC_GZIP && !w->pack && w->level == 1 &&
	    bench_wants(b, "igzip"))
		bench_add(b, what, "igzip", "MB/s", (double)len * 1e3 /
			  run_bare(n, igzip_pack, from, n_in, 1));
#endif
	if (bench_wants(b, "job"))
		bench_add(b, what, "job", "MB/s",
			  (double)len * 1e3 / run_jobs(n, 1));
	if (len == SIZE_MAX_HERE && bench_wants(b, "4 jobs"))
		bench_add(b, what, "4 jobs", "MB/s",
			  (double)len * 1e3 / run_jobs(n, DEPTH));
	if (w->which == WEIR_ACCEL_COMPRESS && len == SIZE_MAX_HERE &&
	    bench_wants(b, "job")) {
		snprintf(what, sizeof(what), "%s, output", w->name);
		bench_add(b, what, w->library, "% of input",
			  100. * (double)w->bare(packed, plain, len, w->level) /
				  (double)len);
		bench_add(b, what, "job", "% of input",
			  100. * (double)last_res / (double)len);
	}
	drop_codecs();
}

/* Words of two to nine letters, of which a few are frequent. */
static void make_input(void)
{
	uint64_t state = 88172645463325252, word;
	size_t at = 0;

	while (at < SIZE_MAX_HERE) {
		word = bench_random(&state) % 4096;
		word = word * (bench_random(&state) % 4096) >> 12;
		word *= UINT64_C(0x9e3779b97f4a7c15);
		for (uint64_t n = 2 + (word >> 60) % 8;
		     n && at < SIZE_MAX_HERE; n--, word >>= 5)
			plain[at++] = (char)('a' + (word & 31) % 26);
		if (at < SIZE_MAX_HERE)
			plain[at++] = ' ';
	}
}

static void setup(void)
{
	struct weir_xts_opts opts = { .size = sizeof(opts), .key = key,
				      .key_len = 64, .sector = SECTOR };

	plain = malloc(SIZE_MAX_HERE);
	packed = malloc(CAP);
	if (!plain || !packed)
		bench_die("malloc", ENOMEM);
	make_input();
	for (int i = 0; i < DEPTH; i++) {
		weir_job_init(&slots[i].job, on_done);
		slots[i].dst = malloc(CAP);
		if (!slots[i].dst)
			bench_die("malloc", ENOMEM);
		memset(slots[i].dst, 0, CAP);
	}
	for (size_t i = 0; i < sizeof(key); i++)
		key[i] = (unsigned char)(i * 7 + 1);
	bench_must(weir_reactor_create(&reactor, NULL), "weir_reactor_create");
	bench_must(weir_dma_create(&dma, reactor, NULL), "weir_dma_create");
	bench_must(weir_dma_start(dma), "weir_dma_start");
	if (weir_xts_create(&xts, &opts) == 0)
		xts_args.xts = xts;
}

static void goals(struct bench *b)
{
#if defined(HAVE_ISAL) && defined(HAVE_ZLIB)
	bench_goal(b, "gzip, level 1: at least 3 x zlib",
		   "gzip, level 1, 1 MiB", "job", "zlib", BENCH_AT_LEAST, 3);
	bench_goal(b, "gunzip: at least 1.2 x zlib", "gunzip, 1 MiB", "job",
		   "zlib", BENCH_AT_LEAST, 1.2);
#endif
#ifdef HAVE_ZSTD
	bench_goal(b, "zstd: at least 0.9 x libzstd", "zstd, level 3, 1 MiB",
		   "job", "libzstd", BENCH_AT_LEAST, 0.9);
#endif
#ifdef HAVE_OPENSSL
	bench_goal(b, "AES-256-XTS: at least 0.9 x OpenSSL",
		   "AES-256-XTS, 64 KiB", "job", "OpenSSL", BENCH_AT_LEAST,
		   0.9);
#endif
	bench_goal(b, "CRC-64 NVMe: at least 5 x a table",
		   "CRC-64 NVMe, 64 KiB", "job", "by bytes", BENCH_AT_LEAST,
		   5);
}

int main(int argc, char **argv)
{
	static struct bench b;

	bench_init(&b, "accel", argc, argv);
	setup();
	for (bench_begin(&b); bench_next(&b);)
		for (size_t i = 0; i < ARRAY_SIZE(works); i++) {
			measure(&b, &works[i], works[i].small);
			measure(&b, &works[i], SIZE_MAX_HERE);
		}
	goals(&b);
	bench_must(weir_xts_destroy(xts), "weir_xts_destroy");
	bench_must(weir_dma_destroy(dma), "weir_dma_destroy");
	bench_must(weir_reactor_destroy(reactor), "weir_reactor_destroy");
	for (int i = 0; i < DEPTH; i++)
		free(slots[i].dst);
	free(plain);
	free(packed);
	return bench_done(&b);
}
