/* SPDX-License-Identifier: BSD-3-Clause */
/* AES-XTS, by OpenSSL. */

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_OPENSSL
#include <openssl/evp.h>
#endif

#include <weir/accel/xts.h>

#include "accel/kinds.h"
#include "base/opts.h"
#include "base/why.h"

#ifdef HAVE_OPENSSL

/* OpenSSL's contexts of a key, each for one thread at a time: as many as may
 * work at once, which are the workers of some reactors. */
#define CIPHERS 16

/* What a call of .run() works on at most. */
#define STEP ((size_t)512 << 10)

struct cipher {
	atomic_flag busy;
	EVP_CIPHER_CTX *ctx[2];	/* To decrypt, to encrypt. */
};

struct weir_xts {
	uint32_t sector;
	uint32_t per_sector;	/* What a number goes on by. */
	atomic_uint jobs;
	struct cipher ciphers[CIPHERS];
};

static int check_opts(const struct weir_xts_opts *o)
{
	if (!o->key || (o->key_len != 32 && o->key_len != 64))
		return why(-EINVAL, "weir_xts_create: a key has 32 or 64 bytes, "
			   "not %u", o->key ? o->key_len : 0);
	if (!memcmp(o->key, (const char *)o->key + o->key_len / 2,
		    o->key_len / 2))
		return why(-EINVAL, "weir_xts_create: the two halves of the key "
			   "are equal, which makes XTS weak");
	if (o->sector < 16 || o->sector > WEIR_KIND_UNIT_MAX)
		return why(-EINVAL, "weir_xts_create: a sector has 16 to %u "
			   "bytes, not %u", WEIR_KIND_UNIT_MAX, o->sector);
	if (o->count_512 && o->sector % 512)
		return why(-EINVAL, "weir_xts_create: .count_512 needs sectors "
			   "of a multiple of 512 bytes");
	return 0;
}

static void free_all(struct weir_xts *xts)
{
	for (int i = 0; i < CIPHERS; i++) {
		EVP_CIPHER_CTX_free(xts->ciphers[i].ctx[0]);
		EVP_CIPHER_CTX_free(xts->ciphers[i].ctx[1]);
	}
	free(xts);
}

/* Returns 0, or -ENOMEM, or -EOPNOTSUPP. */
static int make_ciphers(struct weir_xts *xts, const struct weir_xts_opts *o)
{
	const EVP_CIPHER *cipher = o->key_len == 32 ? EVP_aes_128_xts() :
						      EVP_aes_256_xts();
	int i, enc;

	for (i = 0; i < CIPHERS; i++)
		for (enc = 0; enc < 2; enc++) {
			xts->ciphers[i].ctx[enc] = EVP_CIPHER_CTX_new();
			if (!xts->ciphers[i].ctx[enc])
				return -ENOMEM;
			if (EVP_CipherInit_ex(xts->ciphers[i].ctx[enc], cipher,
					      NULL, o->key, NULL, enc) != 1)
				return -EOPNOTSUPP;
		}
	return 0;
}

int weir_xts_create(struct weir_xts **ret, const struct weir_xts_opts *opts)
{
	struct weir_xts_opts own;
	struct weir_xts *xts;
	int err;

	if (!ret || !opts)
		return why(-EINVAL, "weir_xts_create: an argument is NULL");
	err = opts_load(&own, sizeof(own), opts, "weir_xts_create");
	if (err)
		return err;
	if (!own.sector)
		own.sector = 512;
	err = check_opts(&own);
	if (err)
		return err;
	xts = calloc(1, sizeof(*xts));
	if (!xts)
		return why(-ENOMEM, "weir_xts_create: no memory");
	xts->sector = own.sector;
	xts->per_sector = own.count_512 ? own.sector / 512 : 1;
	err = make_ciphers(xts, &own);
	if (err) {
		free_all(xts);
		return why(err, "weir_xts_create: OpenSSL cannot make an "
			   "AES-XTS key");
	}
	*ret = xts;
	return 0;
}

int weir_xts_destroy(struct weir_xts *xts)
{
	if (!xts)
		return 0;
	if (atomic_load(&xts->jobs))
		return why(-EBUSY, "weir_xts_destroy: a job of it is in "
			   "flight; wait for its callback");
	free_all(xts);
	return 0;
}

/* The jobs. */

static struct weir_xts *xts_of(const struct weir_job *job)
{
	const struct weir_xts_args *args = weir_job_args(job);

	return args ? args->xts : NULL;
}

static int xts_shape(const struct weir_job *job, uint64_t bytes,
		     struct weir_kind_shape *ret)
{
	const struct weir_xts *xts = xts_of(job);

	if (!xts)
		return -EINVAL;
	ret->in_unit = xts->sector;
	ret->out_unit = xts->sector;
	ret->out_min = bytes;
	return 0;
}

static int xts_begin(const struct weir_job *job)
{
	atomic_fetch_add(&xts_of(job)->jobs, 1);
	return 0;
}

static void xts_end(const struct weir_job *job, int64_t res)
{
	(void)res;
	atomic_fetch_sub(&xts_of(job)->jobs, 1);
}

/* A thread keeps a cipher for one call only, so one is free soon. */
static struct cipher *take_cipher(struct weir_xts *xts)
{
	unsigned int i = 0;

	while (atomic_flag_test_and_set_explicit(&xts->ciphers[i].busy,
						 memory_order_acquire))
		i = (i + 1) % CIPHERS;
	return &xts->ciphers[i];
}

static int do_sector(EVP_CIPHER_CTX *ctx, uint64_t number, uint8_t *out,
		     const uint8_t *in, uint32_t len)
{
	uint8_t iv[16] = { 0 };
	int i, n = 0;

	for (i = 0; i < 8; i++)
		iv[i] = (uint8_t)(number >> (8 * i));
	return EVP_CipherInit_ex(ctx, NULL, NULL, NULL, iv, -1) == 1 &&
	       EVP_CipherUpdate(ctx, out, &n, in, (int)len) == 1 &&
	       n == (int)len ? 0 : -EIO;
}

static int run_sectors(struct weir_kind_run *run, int enc)
{
	const struct weir_xts_args *args = run->args;
	struct weir_xts *xts = args->xts;
	size_t n = run->in_len < run->out_len ? run->in_len : run->out_len;
	struct cipher *own = take_cipher(xts);
	uint64_t first = run->offset / xts->sector;
	size_t done;
	int err = 0;

	if (n > STEP)
		n = STEP;
	for (done = 0; done + xts->sector <= n && !err; done += xts->sector)
		err = do_sector(own->ctx[enc],
				args->sector + (first + done / xts->sector) *
						       xts->per_sector,
				(uint8_t *)run->out + done,
				(const uint8_t *)run->in + done, xts->sector);
	atomic_flag_clear_explicit(&own->busy, memory_order_release);
	run->consumed = run->produced = done;
	return err ? err : run->last && done == run->in_len;
}

static int encrypt_run(struct weir_kind_run *run)
{
	return run_sectors(run, 1);
}

static int decrypt_run(struct weir_kind_run *run)
{
	return run_sectors(run, 0);
}

#else	/* Without OpenSSL there are no keys, so no job can be started. */

int weir_xts_create(struct weir_xts **ret, const struct weir_xts_opts *opts)
{
	(void)ret, (void)opts;
	return why(-EOPNOTSUPP, "weir_xts_create: weir was built without "
		   "OpenSSL");
}

int weir_xts_destroy(struct weir_xts *xts)
{
	(void)xts;
	return 0;
}

static int xts_shape(const struct weir_job *job, uint64_t bytes,
		     struct weir_kind_shape *ret)
{
	(void)job, (void)bytes, (void)ret;
	return -EINVAL;
}

#define xts_begin NULL
#define xts_end NULL

static int encrypt_run(struct weir_kind_run *run)
{
	(void)run;
	return -EOPNOTSUPP;
}

#define decrypt_run encrypt_run

#endif

const struct weir_kind_ops accel_encrypt = {
	.size = sizeof(accel_encrypt),
	.name = "aes-xts-encrypt",
	.flags = WEIR_KIND_OUTPUT | WEIR_KIND_IN_PLACE,
	.weight = 8,
	.worker_min = 256 << 10,
	.shape = xts_shape,
	.begin = xts_begin,
	.run = encrypt_run,
	.end = xts_end,
};

const struct weir_kind_ops accel_decrypt = {
	.size = sizeof(accel_decrypt),
	.name = "aes-xts-decrypt",
	.flags = WEIR_KIND_OUTPUT | WEIR_KIND_IN_PLACE,
	.weight = 8,
	.worker_min = 256 << 10,
	.shape = xts_shape,
	.begin = xts_begin,
	.run = decrypt_run,
	.end = xts_end,
};
