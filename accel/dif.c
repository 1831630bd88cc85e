/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection information. */

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include <weir/accel/crc.h>
#include <weir/accel/dif.h>

#include "accel/kinds.h"

/* What is in a block's protection information. */
struct pi {
	uint64_t guard, ref;
	uint16_t app;
};

static uint32_t pi_len(const struct weir_dif *dif)
{
	return dif->format == WEIR_DIF_GUARD_64 ? 16 : 8;
}

static uint64_t ref_mask(const struct weir_dif *dif)
{
	return dif->format == WEIR_DIF_GUARD_64 ? (UINT64_C(1) << 48) - 1 :
						  UINT32_MAX;
}

/* Where the information is in the metadata. */
static uint32_t pi_at(const struct weir_dif *dif)
{
	return dif->first ? 0 : dif->metadata - pi_len(dif);
}

static uint64_t get_be(const uint8_t *p, int n)
{
	uint64_t value = 0;

	while (n--)
		value = value << 8 | *p++;
	return value;
}

static void put_be(uint8_t *p, int n, uint64_t value)
{
	while (n--)
		p[n] = (uint8_t)value, value >>= 8;
}

static struct pi pi_get(const struct weir_dif *dif, const uint8_t *p)
{
	if (dif->format == WEIR_DIF_GUARD_64)
		return (struct pi){ .guard = get_be(p, 8),
				    .app = (uint16_t)get_be(p + 8, 2),
				    .ref = get_be(p + 10, 6) };
	return (struct pi){ .guard = get_be(p, 2),
			    .app = (uint16_t)get_be(p + 2, 2),
			    .ref = get_be(p + 4, 4) };
}

static void pi_put(const struct weir_dif *dif, uint8_t *p, struct pi pi)
{
	if (dif->format == WEIR_DIF_GUARD_64) {
		put_be(p, 8, pi.guard);
		put_be(p + 8, 2, pi.app);
		put_be(p + 10, 6, pi.ref);
	} else {
		put_be(p, 2, pi.guard);
		put_be(p + 2, 2, pi.app);
		put_be(p + 4, 4, pi.ref);
	}
}

/* The CRC covers the data, and the metadata in front of the information. */
static uint64_t guard_of(const struct weir_dif *dif, const uint8_t *data,
			 const uint8_t *metadata)
{
	uint16_t crc;
	uint64_t crc64;

	if (dif->format == WEIR_DIF_GUARD_64) {
		crc64 = weir_crc64_nvme(0, data, dif->data);
		return weir_crc64_nvme(crc64, metadata, pi_at(dif));
	}
	crc = weir_crc16_t10dif(dif->guard, data, dif->data);
	return weir_crc16_t10dif(crc, metadata, pi_at(dif));
}

/* The reference tag of the @i-th block, counted from @first. */
static uint64_t ref_of(const struct weir_dif *dif, uint64_t first, uint64_t i)
{
	return (dif->type == 3 ? first : first + i) & ref_mask(dif);
}

static void set(const struct weir_dif *dif, const uint8_t *data,
		uint8_t *metadata, uint64_t i)
{
	pi_put(dif, metadata + pi_at(dif),
	       (struct pi){ .guard = guard_of(dif, data, metadata),
			    .app = dif->app,
			    .ref = ref_of(dif, dif->ref, i) });
}

static int differs(struct weir_kind_run *run, uint32_t what, uint64_t expected,
		   uint64_t there, uint64_t i)
{
	run->result[0] = what;
	run->result[1] = expected;
	run->result[2] = there;
	run->result[3] = i;
	return -EILSEQ;
}

static bool is_escaped(const struct weir_dif *dif, struct pi pi)
{
	return pi.app == 0xffff && (dif->type != 3 || pi.ref == ref_mask(dif));
}

static int verify(struct weir_kind_run *run, const struct weir_dif *dif,
		  const uint8_t *data, const uint8_t *metadata, uint64_t i)
{
	struct pi pi = pi_get(dif, metadata + pi_at(dif));
	uint16_t mask = dif->app_mask ? dif->app_mask : 0xffff;
	uint64_t guard, ref = ref_of(dif, dif->ref, i);

	if (is_escaped(dif, pi))
		return 0;
	if (dif->check & WEIR_DIF_GUARD) {
		guard = guard_of(dif, data, metadata);
		if (guard != pi.guard)
			return differs(run, WEIR_DIF_GUARD, guard, pi.guard, i);
	}
	if (dif->check & WEIR_DIF_APP && (pi.app ^ dif->app) & mask)
		return differs(run, WEIR_DIF_APP, dif->app & mask,
			       pi.app & mask, i);
	if (dif->check & WEIR_DIF_REF && pi.ref != ref)
		return differs(run, WEIR_DIF_REF, ref, pi.ref, i);
	return 0;
}

/* What is done with one block. */
typedef int block_fn(struct weir_kind_run *run, const struct weir_dif *dif,
		     const uint8_t *in, uint8_t *out, uint64_t i);

static int generate(struct weir_kind_run *run, const struct weir_dif *dif,
		    const uint8_t *in, uint8_t *out, uint64_t i)
{
	(void)run;
	if (in != out)
		memcpy(out, in, dif->data + dif->metadata);
	set(dif, out, out + dif->data, i);
	return 0;
}

static int insert(struct weir_kind_run *run, const struct weir_dif *dif,
		  const uint8_t *in, uint8_t *out, uint64_t i)
{
	(void)run;
	memcpy(out, in, dif->data);
	memset(out + dif->data, 0, dif->metadata);
	set(dif, out, out + dif->data, i);
	return 0;
}

static int generate_apart(struct weir_kind_run *run, const struct weir_dif *dif,
			  const uint8_t *in, uint8_t *out, uint64_t i)
{
	(void)run;
	memset(out, 0, dif->metadata);
	set(dif, in, out, i);
	return 0;
}

static int check_only(struct weir_kind_run *run, const struct weir_dif *dif,
		      const uint8_t *in, uint8_t *out, uint64_t i)
{
	(void)out;
	return verify(run, dif, in, in + dif->data, i);
}

static int check_apart(struct weir_kind_run *run, const struct weir_dif *dif,
		       const uint8_t *in, uint8_t *out, uint64_t i)
{
	(void)out;
	return verify(run, dif, in,
		      (const uint8_t *)dif->separate + i * dif->metadata, i);
}

static int strip(struct weir_kind_run *run, const struct weir_dif *dif,
		 const uint8_t *in, uint8_t *out, uint64_t i)
{
	int err = verify(run, dif, in, in + dif->data, i);

	if (!err)
		memcpy(out, in, dif->data);
	return err;
}

/* The guard of what lies in front of the information does not change. */
static int update(struct weir_kind_run *run, const struct weir_dif *dif,
		  const uint8_t *in, uint8_t *out, uint64_t i)
{
	uint8_t *at = out + dif->data + pi_at(dif);
	int err = verify(run, dif, in, in + dif->data, i);
	struct pi pi;

	if (err)
		return err;
	if (in != out)
		memcpy(out, in, dif->data + dif->metadata);
	pi = pi_get(dif, at);
	if (is_escaped(dif, pi))
		return 0;
	pi.ref = ref_of(dif, dif->new_ref, i);
	pi_put(dif, at, pi);
	return 0;
}

/* Blocks as far as there are whole ones on both sides. */
static int run_blocks(struct weir_kind_run *run, block_fn *fn, uint32_t in_len,
		      uint32_t out_len)
{
	const struct weir_dif *dif = run->args;
	const uint8_t *in = run->in;
	uint8_t *out = run->out;
	size_t n = run->in_len / in_len, i;
	uint64_t first = run->offset / in_len;
	int err;

	if (out_len && run->out_len / out_len < n)
		n = run->out_len / out_len;
	for (i = 0; i < n; i++) {
		err = fn(run, dif, in + i * in_len,
			 out_len ? out + i * out_len : NULL, first + i);
		if (err)
			return err;
	}
	run->consumed = n * in_len;
	run->produced = n * out_len;
	return run->last && run->consumed == run->in_len;
}

static bool is_sound(const struct weir_dif *dif)
{
	return dif && dif->size >= offsetof(struct weir_dif, separate) &&
	       dif->data &&
	       !(dif->data % 4) && dif->format <= WEIR_DIF_GUARD_64 &&
	       dif->metadata >= pi_len(dif) && dif->type <= 3 &&
	       dif->data < WEIR_KIND_UNIT_MAX &&
	       dif->metadata <= WEIR_KIND_UNIT_MAX - dif->data &&
	       !(dif->check & ~(WEIR_DIF_GUARD | WEIR_DIF_APP | WEIR_DIF_REF));
}

/* 0, or the errno that refuses a job of @n blocks that are verified with their
 * metadata apart. */
static int check_separate(const struct weir_dif *dif, uint64_t n)
{
	if (dif->size < sizeof(*dif) || !dif->separate)
		return -EINVAL;
	return n > dif->separate_len / dif->metadata ? -EMSGSIZE : 0;
}

static int check_none(const struct weir_dif *dif, uint64_t n)
{
	(void)dif, (void)n;
	return 0;
}

/* accel_ID: the table of a kind, whose blocks are IN and OUT bytes of @dif. */
#define DIF_KIND(id, text, fn, bits, IN, OUT, check) \
	static int id##_shape(const struct weir_job *job, uint64_t bytes, \
				struct weir_kind_shape *ret) \
	{ \
		const struct weir_dif *dif = weir_job_args(job); \
\
		if (!is_sound(dif)) \
			return -EINVAL; \
		ret->in_unit = IN; \
		ret->out_unit = (OUT) ? (OUT) : 1; \
		ret->out_min = bytes / (IN) * (OUT); \
		return check(dif, bytes / (IN)); \
	} \
\
	static int id##_run(struct weir_kind_run *run) \
	{ \
		const struct weir_dif *dif = run->args; \
\
		return run_blocks(run, fn, IN, OUT); \
	} \
\
	const struct weir_kind_ops accel_##id = { \
		.size = sizeof(accel_##id), \
		.name = text, \
		.flags = bits, \
		.weight = 4, \
		.worker_min = (uint64_t)1 << 20, \
		.shape = id##_shape, \
		.run = id##_run, \
	}

#define EXTENDED (dif->data + dif->metadata)

DIF_KIND(dif_generate, "dif-generate", generate,
	 WEIR_KIND_OUTPUT | WEIR_KIND_IN_PLACE, EXTENDED, EXTENDED, check_none);
DIF_KIND(dif_verify, "dif-verify", check_only, 0, EXTENDED, 0, check_none);
DIF_KIND(dif_insert, "dif-insert", insert, WEIR_KIND_OUTPUT, dif->data,
	 EXTENDED, check_none);
DIF_KIND(dif_strip, "dif-strip", strip, WEIR_KIND_OUTPUT, EXTENDED, dif->data,
	 check_none);
DIF_KIND(dif_update, "dif-update", update,
	 WEIR_KIND_OUTPUT | WEIR_KIND_IN_PLACE, EXTENDED, EXTENDED, check_none);
DIF_KIND(dix_generate, "dix-generate", generate_apart, WEIR_KIND_OUTPUT,
	 dif->data, dif->metadata, check_none);
DIF_KIND(dix_verify, "dix-verify", check_apart, 0, dif->data, 0,
	 check_separate);
