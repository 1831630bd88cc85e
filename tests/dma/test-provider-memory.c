/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory on a provider's device, and what a provider binds to an mmap.
 */

#include "tests/support/alloc-fixture.h"
#include "tests/support/job-fixture.h"

#include <weir/device.h>
#include <weir/dm.h>
#include <weir/export.h>
#include <weir/provider.h>

#define LEN 4096u

/* A card with memory, of which a token is its address. */
static struct card {
	struct weir_provider *p;
	struct weir_device *dev;
	int allocs, releases, imported, fails, binds, unbinds, keeps, asked;
	uint32_t registered;
	int no_copies, steps, unbound_at, deregistered_at;
	struct weir_provider_range range;	/* The last one. */
	char mem[LEN];
} c;

static int card_list(void *arg, struct weir_provider_list *list)
{
	struct weir_device_caps caps = {
		.size = sizeof(caps),
		.name = "card",
		.kind = WEIR_DEVICE_USER,
		.flags = WEIR_DEVICE_USABLE,
		.caps = WEIR_DEVICE_CAP_MMAP | WEIR_DEVICE_CAP_DM |
			WEIR_DEVICE_CAP_DM_IMPORT | WEIR_DEVICE_CAP_DM_DMABUF |
			WEIR_DEVICE_CAP_MW,
		.dm_size = LEN,
	};

	(void)arg;
	if (!weir_provider_list_wants(list, "card"))
		return 0;
	c.asked++;
	return weir_provider_list_add(list, &caps);
}

static int card_register(void *card, const struct weir_provider_range *range,
			 struct weir_provider_key *ret)
{
	(void)card;
	c.range = *range;
	*ret = (struct weir_provider_key){
		.data = &c, .lkey = 5, .rkey = 6 + c.registered++,
	};
	return 0;
}

static int card_deregister(void *card, const struct weir_provider_key *key)
{
	(void)card, (void)key;
	c.deregistered_at = ++c.steps;
	return 0;
}

static int made(struct weir_provider_dm *ret)
{
	if (c.fails)
		return c.fails;
	ret->data = c.mem;
	ret->copies = !c.no_copies;
	return 0;
}

static int card_alloc(void *card, size_t len, uint32_t log_align,
		      struct weir_provider_dm *ret)
{
	(void)card;
	assert_int_equal(len, 64);
	assert_int_equal(log_align, 3);
	c.allocs++;
	return made(ret);
}

static int card_import(void *card, const struct weir_dm_token *token,
		       struct weir_provider_dm *ret)
{
	(void)card;
	assert_int_equal(token->handle, 77);
	c.imported++;
	return made(ret);
}

static int card_release(void *card, void *data, int imported)
{
	(void)card;
	assert_ptr_equal(data, c.mem);
	if (c.fails)
		return c.fails;
	c.releases++;
	c.imported -= imported;
	return 0;
}

static int card_copy_to(void *data, uint64_t off, const void *src, size_t len)
{
	memcpy((char *)data + off, src, len);
	return c.fails;
}

static int card_copy_from(void *dst, void *data, uint64_t off, size_t len)
{
	memcpy(dst, (char *)data + off, len);
	return c.fails;
}

static int card_get_token(void *data, struct weir_dm_token *token)
{
	assert_ptr_equal(data, c.mem);
	token->handle = 77;
	return c.fails;
}

static int card_dmabuf_fd(void *data)
{
	assert_ptr_equal(data, c.mem);
	return c.fails ? c.fails : 1234;
}

static int card_unbind(void *card, void **slot)
{
	(void)card;
	if (c.keeps)
		return c.keeps;
	assert_ptr_equal(*slot, &c.binds);
	c.unbinds++;
	c.unbound_at = ++c.steps;
	return 0;
}

static const struct weir_provider_dm_ops dm_ops = {
	.size = sizeof(dm_ops),
	.alloc = card_alloc,
	.release = card_release,
	.copy_to = card_copy_to,
	.copy_from = card_copy_from,
	.get_token = card_get_token,
	.import = card_import,
	.dmabuf_fd = card_dmabuf_fd,
};

static const struct weir_provider_ops card_ops = {
	.size = sizeof(card_ops),
	.name = "card",
	.list = card_list,
	.mem_register = card_register,
	.mem_deregister = card_deregister,
	.dm = &dm_ops,
	.unbind = card_unbind,
};

static void card_begin(void)
{
	memset(&c, 0, sizeof(c));
	assert_int_equal(weir_provider_register(&c.p, &card_ops, &c), 0);
	assert_int_equal(weir_device_open_name(&c.dev, "card"), 0);
}

static void card_end(void)
{
	assert_int_equal(weir_device_close(c.dev), 0);
	assert_int_equal(weir_provider_unregister(c.p), 0);
}

static void memory_of_a_card_is_allocated_copied_and_freed(void **state)
{
	struct weir_dm *dm = NULL;
	char back[8] = "";

	(void)state;
	card_begin();
	assert_int_equal(weir_dm_alloc(&dm, c.dev, 64, 3), 0);
	assert_ptr_equal(weir_provider_dm_data(dm), c.mem);
	assert_int_equal(weir_dm_copy_to(dm, 8, "abcdefg", 8), 0);
	assert_string_equal(c.mem + 8, "abcdefg");
	assert_int_equal(weir_dm_copy_from(back, dm, 8, 8), 0);
	assert_string_equal(back, "abcdefg");
	assert_int_equal(weir_dm_dmabuf_fd(dm), 1234);
	assert_int_equal(weir_device_close(c.dev), -EBUSY);
	assert_int_equal(weir_dm_free(dm), 0);
	assert_int_equal(c.allocs + c.releases, 2);
	/* One whose driver does not copy. */
	c.no_copies = 1;
	assert_int_equal(weir_dm_alloc(&dm, c.dev, 64, 3), 0);
	assert_int_equal(weir_dm_copy_to(dm, 8, "abcdefg", 8), -EOPNOTSUPP);
	assert_int_equal(weir_dm_free(dm), 0);
	card_end();
}

static void memory_of_a_card_is_imported_by_its_token(void **state)
{
	struct weir_dm_token token = { .size = sizeof(token) };
	struct weir_dm *dm = NULL, *same = NULL;

	(void)state;
	card_begin();
	assert_int_equal(weir_dm_alloc(&dm, c.dev, 64, 3), 0);
	assert_int_equal(weir_dm_export(dm, &token), 0);
	assert_int_equal(token.handle, 77);
	assert_int_equal(token.len, 64);
	assert_int_equal(weir_dm_import(&same, c.dev, &token), 0);
	assert_int_equal(weir_dm_is_imported(same), 1);
	assert_int_equal(c.imported, 1);
	assert_int_equal(weir_dm_free(same), 0);
	assert_int_equal(c.imported, 0);
	assert_int_equal(weir_dm_free(dm), 0);
	assert_int_equal(c.releases, 2);
	card_end();
}

static void errno_of_a_card_is_that_of_the_call(void **state)
{
	struct weir_dm_token token = { .size = sizeof(token) };
	struct weir_dm *dm = NULL;
	char mem[8] = "";

	(void)state;
	card_begin();
	c.fails = -EHOSTDOWN;
	assert_int_equal(weir_dm_alloc(&dm, c.dev, 64, 3), -EHOSTDOWN);
	assert_starts_with(weir_why(), "weir_dm_alloc: card gives no memory");
	assert_null(dm);
	c.fails = 0;
	assert_int_equal(weir_dm_alloc(&dm, c.dev, 64, 3), 0);
	c.fails = -EHOSTDOWN;
	assert_int_equal(weir_dm_copy_to(dm, 0, mem, 8), -EHOSTDOWN);
	assert_int_equal(weir_dm_copy_from(mem, dm, 0, 8), -EHOSTDOWN);
	assert_int_equal(weir_dm_export(dm, &token), -EHOSTDOWN);
	assert_int_equal(weir_dm_dmabuf_fd(dm), -EHOSTDOWN);
	assert_starts_with(weir_why(), "weir_dm_dmabuf_fd: card");
	assert_int_equal(weir_dm_free(dm), -EHOSTDOWN);
	c.fails = 0;
	assert_int_equal(weir_dm_free(dm), 0);
	card_end();
}

/* The range that the device registers is that of the memory. */
static void mmap_of_a_cards_memory_is_registered_as_that(void **state)
{
	struct weir_dm *dm = NULL;
	struct weir_mmap *m = NULL;
	uint32_t lkey = 0;

	(void)state;
	card_begin();
	assert_int_equal(weir_dm_alloc(&dm, c.dev, 64, 3), 0);
	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_add_device(m, c.dev), 0);
	assert_int_equal(weir_mmap_set_dm(m, dm, 16, 32), 0);
	assert_int_equal(weir_mmap_set_permissions(m, WEIR_MMAP_WRITE), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_mmap_keys(m, c.dev, &lkey, NULL), 0);
	assert_int_equal(lkey, 5);
	assert_int_equal(c.range.kind, WEIR_PROVIDER_RANGE_DM);
	assert_ptr_equal(c.range.dm, dm);
	assert_int_equal(c.range.off, 16);
	assert_int_equal(c.range.len, 32);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_dm_free(dm), 0);
	card_end();
}

static int bind_it(void *arg, const struct weir_provider_binding *binding)
{
	struct weir_provider_range part = { .size = sizeof(part) };

	c.binds++;
	assert_null(*binding->slot);
	assert_int_equal(binding->registered, !!arg);
	if (binding->registered)
		assert_int_equal(binding->key.rkey, 5 + c.registered);
	if (c.fails)
		return c.fails;
	assert_int_equal(weir_mmap_part(arg, 8, 16, WEIR_MMAP_RDMA_WRITE,
					&part), 0);
	assert_int_equal(part.kind, WEIR_PROVIDER_RANGE_MEM);
	assert_ptr_equal(part.addr, c.mem + 8);
	assert_int_equal(part.len, 16);
	assert_int_equal(part.permissions,
			 WEIR_MMAP_RDMA_WRITE | WEIR_MMAP_WRITE);
	*binding->slot = &c.binds;
	return 0;
}

static void binding_of_a_provider_ends_before_the_memory(void **state)
{
	struct weir_provider_range unset = { .size = 0 };
	struct weir_device *cpu = NULL, *soft = NULL;
	struct weir_mmap *m = NULL;

	(void)state;
	card_begin();
	assert_int_equal(weir_device_open_name(&cpu, "cpu"), 0);
	assert_int_equal(weir_device_open_name(&soft, "soft-dm"), 0);
	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_add_device(m, c.dev), 0);
	assert_int_equal(weir_mmap_add_device(m, cpu), 0);
	assert_int_equal(weir_mmap_set_memrange(m, c.mem, LEN), 0);
	assert_int_equal(weir_mmap_set_permissions(m, WEIR_MMAP_WRITE |
						   WEIR_MMAP_RDMA_WRITE), 0);
	assert_int_equal(weir_mmap_bind(m, c.dev, bind_it, NULL), -EBADFD);
	assert_starts_with(weir_why(), "weir_mmap_bind: ");
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_mmap_bind(m, cpu, bind_it, NULL), -EOPNOTSUPP);
	assert_int_equal(weir_mmap_bind(m, soft, bind_it, NULL), -ENOENT);
	assert_int_equal(c.binds, 0);
	assert_int_equal(weir_mmap_part(m, 0, 1, 0, &unset), -EINVAL);
	c.fails = -EHOSTDOWN;
	assert_int_equal(weir_mmap_bind(m, c.dev, bind_it, NULL), -EHOSTDOWN);
	c.fails = 0;
	assert_int_equal(c.binds, 1);
	assert_int_equal(weir_mmap_keys(m, c.dev, NULL, NULL), 0);
	assert_int_equal(c.range.flags, WEIR_PROVIDER_RANGE_MW);
	assert_int_equal(weir_mmap_bind(m, c.dev, bind_it, m), 0);
	/* What keeps it keeps the mmap. */
	c.keeps = -EBUSY;
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), -EBUSY);
	assert_non_null(strstr(weir_why(), "keeps what is bound"));
	c.keeps = -EINPROGRESS;
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), -EBUSY);
	c.keeps = 0;
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
	assert_int_equal(c.unbinds, 1);
	assert_int_equal(c.unbound_at, 1);
	assert_int_equal(c.deregistered_at, 2);
	/* A revoke, too; and the end has nothing more to do. */
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_mmap_keys(m, c.dev, NULL, NULL), 0);
	assert_int_equal(weir_mmap_bind(m, c.dev, bind_it, m), 0);
	assert_int_equal(weir_mmap_revoke(m, NULL, NULL), 0);
	assert_int_equal(c.unbinds, 2);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(c.unbinds, 2);
	assert_int_equal(weir_device_close(soft), 0);
	assert_int_equal(weir_device_close(cpu), 0);
	card_end();
}

static void provider_is_asked_for_the_device_that_is_wanted(void **state)
{
	struct weir_device *cpu = NULL;

	(void)state;
	card_begin();
	c.asked = 0;
	assert_int_equal(weir_device_open_name(&cpu, "cpu"), 0);
	assert_int_equal(c.asked, 0);
	assert_int_equal(weir_device_close(cpu), 0);
	card_end();
}

/* Descriptors whose bytes the provider writes. */

#define RIGHTS (WEIR_MMAP_RDMA_READ | WEIR_MMAP_RDMA_WRITE | WEIR_MMAP_RDMA_ATOMIC)

struct described {
	uint32_t rkey, permissions;	/* As the function has seen them. */
	uint64_t addr, len;
	uint32_t n_bytes;		/* That it writes, at this address. */
	uint64_t at;
	int res, calls;
	void (*meddle)(struct weir_mmap *m);
	struct weir_mmap *m;
};

static int describe_it(void *arg, const struct weir_provider_key *key,
		       struct weir_provider_desc *desc)
{
	struct described *d = arg;

	d->calls++;
	d->rkey = key->rkey;
	d->permissions = desc->permissions;
	d->addr = desc->addr;
	d->len = desc->len;
	desc->addr = d->at;
	desc->n_bytes = d->n_bytes;
	memset(desc->bytes, 0x5a, sizeof(desc->bytes));
	if (d->meddle)
		d->meddle(d->m);
	return d->res;
}

static int describe_as(struct weir_mmap *m, const struct weir_describe_opts *opts,
		       struct described *d, struct weir_export_desc *desc)
{
	*desc = (struct weir_export_desc){ .size = sizeof(*desc) };
	return weir_mmap_describe(c.p, m, c.dev, opts, describe_it, d, desc);
}

static void part_is_described_as_its_provider_says(void **state)
{
	struct weir_describe_opts opts = {
		.size = sizeof(opts),
		.flags = WEIR_DESCRIBE_REGISTER,
	};
	struct described d = { .n_bytes = 3, .at = 0x1000 };
	struct weir_provider_desc read = { .size = sizeof(read) };
	uint8_t mine[WEIR_DESCRIPTOR_MAX];
	struct weir_export_desc first, desc;
	struct weir_mmap *m;

	(void)state;
	card_begin();
	m = start_mmap_on(c.dev, c.mem, LEN, RIGHTS | WEIR_MMAP_WRITE);
	/* All of it: by the registration that this process has. */
	assert_int_equal(describe_as(m, &opts, &d, &first), 0);
	assert_int_equal(d.calls, 1);
	assert_int_equal(d.rkey, 6);
	assert_int_equal(d.permissions, RIGHTS);
	assert_int_equal(d.addr, (uintptr_t)c.mem);
	assert_int_equal(d.len, LEN);
	assert_int_equal(c.range.flags, WEIR_PROVIDER_RANGE_MW);
	assert_int_equal(weir_mmap_is_exported(m), 1);
	assert_int_equal(first.fds[0], -1);
	assert_int_equal(weir_provider_read_desc(c.p, first.bytes, first.len,
						 NULL, 0, &read), 0);
	assert_int_equal(read.addr, 0x1000);
	assert_int_equal(read.len, LEN);
	assert_int_equal(read.permissions, WEIR_MMAP_READ | WEIR_MMAP_WRITE |
			 WEIR_MMAP_RDMA_ATOMIC);
	assert_int_equal(read.n_bytes, 3);
	assert_memory_equal(read.bytes, "ZZZ", 3);
	/* The same again is kept once. */
	assert_int_equal(describe_as(m, &opts, &d, &desc), 0);
	assert_ptr_equal(desc.bytes, first.bytes);
	assert_int_equal(c.registered, 1);
	/* A part, with fewer rights, into the caller's bytes. */
	opts.off = 8;
	opts.permissions = WEIR_MMAP_RDMA_WRITE;
	opts.bytes = mine;
	assert_int_equal(describe_as(m, &opts, &d, &desc), 0);
	assert_ptr_equal(desc.bytes, mine);
	assert_int_equal(d.rkey, 7);
	assert_int_equal(d.addr, (uintptr_t)c.mem + 8);
	assert_int_equal(d.len, LEN - 8);
	assert_ptr_equal(c.range.addr, c.mem + 8);
	assert_int_equal(c.range.permissions,
			 WEIR_MMAP_RDMA_WRITE | WEIR_MMAP_WRITE);
	assert_int_equal(weir_provider_read_desc(c.p, mine, desc.len, NULL, 0,
						 &read), 0);
	assert_int_equal(read.len, LEN - 8);
	assert_int_equal(read.permissions, WEIR_MMAP_WRITE);
	/* The same again is registered once. */
	assert_int_equal(describe_as(m, &opts, &d, &desc), 0);
	assert_int_equal(d.rkey, 7);
	/* With a key of the caller's nothing is registered. */
	opts.flags = 0;
	opts.len = 100;
	assert_int_equal(describe_as(m, &opts, &d, &desc), 0);
	assert_int_equal(d.rkey, 0);
	assert_int_equal(d.len, 100);
	assert_int_equal(c.registered, 2);
	assert_int_equal(weir_mmap_destroy(m), 0);
	card_end();
}

static void description_is_refused_before_anything_is_done(void **state)
{
	static const struct weir_describe_opts asked[] = {
		{ .size = sizeof(asked[0]), .flags = 2 },
		{ .size = sizeof(asked[0]), .permissions = WEIR_MMAP_PEER_READ },
		{ .size = sizeof(asked[0]), .key_len = 16 },
		{ .size = sizeof(asked[0]), .key = "short", .key_len = 5 },
		{ .size = sizeof(asked[0]), .permissions = WEIR_MMAP_RDMA_WRITE },
		{ .size = sizeof(asked[0]), .off = LEN },
		{ .size = sizeof(asked[0]), .off = 1, .len = LEN },
	};
	static const int want[] = {
		-EINVAL, -EINVAL, -EINVAL, -EINVAL, -EACCES, -ERANGE, -ERANGE,
	};
	struct weir_describe_opts opts = {
		.size = sizeof(opts),
		.flags = WEIR_DESCRIBE_REGISTER,
	};
	struct described d = { .at = 0 };
	struct weir_export_desc desc;
	struct weir_device *cpu;
	struct weir_mmap *m;

	(void)state;
	card_begin();
	assert_int_equal(weir_device_open_name(&cpu, "cpu"), 0);
	m = start_mmap_on(c.dev, c.mem, LEN, WEIR_MMAP_RDMA_READ);
	c.range.len = 0;
	for (size_t i = 0; i < N_OF(asked); i++) {
		opts = asked[i];
		opts.flags |= WEIR_DESCRIBE_REGISTER;
		assert_int_equal(describe_as(m, &opts, &d, &desc), want[i]);
		assert_starts_with(weir_why(), "weir_mmap_describe: ");
	}
	assert_int_equal(weir_mmap_describe(c.p, m, cpu, NULL, describe_it, &d,
					    &desc), -ENOENT);
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
	assert_int_equal(describe_as(m, NULL, &d, &desc), -EBADFD);
	assert_int_equal(weir_mmap_add_device(m, cpu), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_mmap_describe(c.p, m, cpu, NULL, describe_it, &d,
					    &desc), -EOPNOTSUPP);
	desc.size = 0;
	assert_int_equal(weir_mmap_describe(c.p, m, c.dev, NULL, describe_it,
					    &d, &desc), -EINVAL);
	assert_int_equal(d.calls, 0);
	assert_int_equal(c.range.len, 0);
	/* What the function says. */
	d.res = -EHOSTDOWN;
	assert_int_equal(describe_as(m, NULL, &d, &desc), -EHOSTDOWN);
	assert_starts_with(weir_why(), "weir_mmap_describe: ");
	d.res = 1;
	assert_int_equal(describe_as(m, NULL, &d, &desc), -EIO);
	d.res = 0;
	d.n_bytes = WEIR_PROVIDER_DESC_MAX + 1;
	assert_int_equal(describe_as(m, NULL, &d, &desc), -EIO);
	d.n_bytes = 0;
	d.at = INT64_MAX;
	assert_int_equal(describe_as(m, NULL, &d, &desc), -EIO);
	assert_int_equal(weir_mmap_is_exported(m), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	/* Without a right for peers. */
	m = start_mmap_on(c.dev, c.mem, LEN, WEIR_MMAP_WRITE);
	assert_int_equal(describe_as(m, NULL, &d, &desc), -EACCES);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_device_close(cpu), 0);
	card_end();
}

static void stop_it(struct weir_mmap *m)
{
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
}

static void revoke_it(struct weir_mmap *m)
{
	assert_int_equal(weir_mmap_revoke(m, NULL, NULL), 0);
}

static void describe_another(struct weir_mmap *m)
{
	struct described d = { .n_bytes = 2 };
	struct weir_export_desc desc;

	assert_int_equal(describe_as(m, NULL, &d, &desc), 0);
}

/* The mmap has been exported before, or this is the first time. */
static void provider_may_meddle_with_the_mmap_that_it_describes(void **state)
{
	static void (*const meddles[])(struct weir_mmap *) = {
		stop_it, revoke_it, describe_another,
	};
	struct weir_describe_opts opts = {
		.size = sizeof(opts),
		.flags = WEIR_DESCRIBE_REGISTER,
	};
	struct weir_export_desc desc;
	struct described d;
	struct weir_mmap *m;

	(void)state;
	card_begin();
	for (size_t i = 0; i < 2 * N_OF(meddles); i++) {
		d = (struct described){ .n_bytes = 1 };
		m = start_mmap_on(c.dev, c.mem, LEN, WEIR_MMAP_RDMA_READ);
		if (i % 2)
			assert_int_equal(describe_as(m, &opts, &d, &desc), 0);
		d.meddle = meddles[i / 2];
		d.m = m;
		assert_int_equal(describe_as(m, &opts, &d, &desc),
				 i < 2 ? -EBADFD : 0);
		assert_int_equal(weir_mmap_is_exported(m), i >= 2);
		assert_int_equal(weir_mmap_destroy(m), 0);
	}
	card_end();
}

static void import_of_a_description_is_its_providers(void **state)
{
	struct weir_provider_desc desc = {
		.size = sizeof(desc), .addr = 0x1000, .len = LEN,
		.permissions = WEIR_MMAP_WRITE, .n_bytes = 2, .bytes = "hi",
	};
	struct { struct weir_provider_desc desc; uint64_t more; } later;
	struct weir_provider_ops other = card_ops;
	const struct weir_provider_desc *got;
	struct weir_provider *p = NULL;
	struct weir_provider_key key;
	struct weir_inventory *inv;
	struct weir_domain *far;
	struct weir_mmap *im = NULL;
	struct weir_buf *buf;
	struct weir_reactor *r;
	struct weir_op op;

	(void)state;
	card_begin();
	assert_int_equal(weir_reactor_create(&r, NULL), 0);
	other.name = "other";
	other.dm = NULL;
	assert_int_equal(weir_provider_register(&p, &other, &c), 0);
	assert_int_equal(weir_domain_remote_create(&far, NULL), 0);
	later.desc = desc;
	later.desc.size = sizeof(later);
	later.more = 0;
	assert_int_equal(weir_mmap_import_desc(&im, c.p, far, &later.desc, 9,
					       &c), 0);
	got = weir_mmap_desc(im, c.p);
	assert_non_null(got);
	assert_ptr_not_equal(got, &later.desc);
	assert_int_equal(got->size, sizeof(*got));
	assert_memory_equal(got->bytes, "hi", 2);
	assert_null(weir_mmap_desc(im, p));
	assert_ptr_equal(weir_mmap_domain(im), far);
	assert_ptr_equal(weir_mmap_user_data(im), &c);
	assert_int_equal(weir_mmap_permissions(im), WEIR_MMAP_WRITE);
	assert_int_equal(weir_mmap_is_imported(im), 1);
	weir_op_init(&op, NULL);
	assert_int_equal(weir_mmap_watch(im, r, &op), -EOPNOTSUPP);
	/* Jobs find it by each device of the provider. */
	inv = start_inventory(r, im);
	assert_int_equal(weir_inventory_get_by_data(&buf, inv, im,
						    (void *)0x1000, 64), 0);
	assert_int_equal(weir_buf_key(buf, c.dev, &key), 0);
	assert_ptr_equal(key.data, got);
	assert_int_equal(weir_mmap_is_stale(im), 0);
	assert_int_equal(weir_provider_revoked(im), 0);
	assert_int_equal(weir_mmap_is_stale(im), 1);
	weir_buf_put(buf);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(im), 0);
	/* It outlives its provider. */
	assert_int_equal(weir_mmap_import_desc(&im, p, far, &desc, 0, NULL), 0);
	assert_int_equal(weir_provider_unregister(p), 0);
	assert_int_equal(weir_mmap_watch(im, r, &op), -EOPNOTSUPP);
	assert_non_null(strstr(weir_why(), "other"));
	assert_int_equal(weir_mmap_destroy(im), 0);
	/* What makes no sense. */
	assert_int_equal(weir_mmap_import_desc(&im, c.p, weir_domain_system(),
					       &desc, 9, NULL), -EINVAL);
	desc.permissions = 0;
	assert_int_equal(weir_mmap_import_desc(&im, c.p, far, &desc, 9, NULL),
			 -EINVAL);
	desc.permissions = WEIR_MMAP_PEER_READ;
	assert_int_equal(weir_mmap_import_desc(&im, c.p, far, &desc, 9, NULL),
			 -EINVAL);
	desc.permissions = WEIR_MMAP_READ;
	desc.n_bytes = WEIR_PROVIDER_DESC_MAX + 1;
	assert_int_equal(weir_mmap_import_desc(&im, c.p, far, &desc, 9, NULL),
			 -EINVAL);
	desc.n_bytes = 0;
	desc.len = 0;
	assert_int_equal(weir_mmap_import_desc(&im, c.p, far, &desc, 9, NULL),
			 -ERANGE);
	desc.len = 2;
	desc.addr = UINT64_MAX;
	assert_int_equal(weir_mmap_import_desc(&im, c.p, far, &desc, 9, NULL),
			 -ERANGE);
	assert_int_equal(weir_domain_destroy(far), 0);
	assert_int_equal(weir_reactor_destroy(r), 0);
	card_end();
}

/* Structs of a version that knows more, and what there is not enough of. */
static void descriptions_have_their_errnos(void **state)
{
	struct { struct weir_describe_opts opts; uint64_t more; } later = {
		.opts.size = sizeof(later), .more = 1,
	};
	struct { struct weir_provider_desc desc; uint64_t more; } desc = {
		.desc = { .size = sizeof(desc), .addr = 8, .len = 8,
			  .permissions = WEIR_MMAP_READ },
		.more = 1,
	};
	struct weir_describe_opts opts = { .size = sizeof(opts) };
	struct described d = { .n_bytes = 1 };
	struct weir_export_desc out;
	struct weir_mmap *m, *im = NULL;
	struct weir_domain *far;
	int i, err;

	(void)state;
	card_begin();
	assert_int_equal(weir_domain_remote_create(&far, NULL), 0);
	m = start_mmap_on(c.dev, c.mem, LEN, WEIR_MMAP_RDMA_READ);
	assert_int_equal(describe_as(m, &later.opts, &d, &out), -E2BIG);
	assert_int_equal(weir_mmap_import_desc(&im, c.p, far, &desc.desc, 0,
					       NULL), -E2BIG);
	desc.more = 0;
	for (i = 0; i < 2 && has_counts(); i++) {
		atomic_store(&allocations_left, i);
		err = weir_mmap_import_desc(&im, c.p, far, &desc.desc, 0, NULL);
		atomic_store(&allocations_left, -1);
		assert_int_equal(err, -ENOMEM);
		atomic_store(&allocations_left, i);
		err = describe_as(m, &opts, &d, &out);
		atomic_store(&allocations_left, -1);
		assert_int_equal(err, -ENOMEM);
		assert_int_equal(weir_mmap_is_exported(m), 0);
	}
	assert_int_equal(weir_mmap_import_desc(&im, c.p, far, &desc.desc, 0,
					       NULL), 0);
	assert_int_equal(weir_mmap_describe(c.p, im, c.dev, &opts, describe_it,
					    &d, &out), -EPERM);
	assert_int_equal(weir_mmap_destroy(im), 0);
	for (i = 0; i < 256; i++) {
		opts.not_after = UINT64_MAX - (uint64_t)i;
		assert_int_equal(describe_as(m, &opts, &d, &out), 0);
	}
	opts.not_after = 1;
	assert_int_equal(describe_as(m, &opts, &d, &out), -EAGAIN);
	/* One that the mmap does not keep has capacity; it was over long ago. */
	opts.bytes = (uint8_t[WEIR_DESCRIPTOR_MAX]){ 0 };
	assert_int_equal(describe_as(m, &opts, &d, &out), 0);
	desc.desc.size = sizeof(desc.desc);
	assert_int_equal(weir_provider_read_desc(c.p, out.bytes, out.len, NULL,
						 0, &desc.desc), -EKEYEXPIRED);
	assert_int_equal(weir_provider_read_desc(c.p, out.bytes, out.len,
						 "of sixteen bytes", 16,
						 &desc.desc), -EKEYREJECTED);
	((uint8_t *)opts.bytes)[8] = 9;		/* Its version. */
	assert_int_equal(weir_provider_read_desc(c.p, out.bytes, out.len, NULL,
						 0, &desc.desc),
			 -EPROTONOSUPPORT);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_domain_destroy(far), 0);
	card_end();
}

static void descriptor_of_another_provider_is_not_read(void **state)
{
	struct described d = { .n_bytes = 1 };
	struct weir_provider_desc read = { .size = 0 };
	struct weir_provider_ops other = card_ops;
	struct weir_provider *p = NULL;
	struct weir_export_desc desc;
	struct weir_mmap *m;

	(void)state;
	card_begin();
	other.name = "other";
	other.dm = NULL;
	assert_int_equal(weir_provider_register(&p, &other, &c), 0);
	m = start_mmap_on(c.dev, c.mem, LEN, RIGHTS | WEIR_MMAP_WRITE);
	assert_int_equal(describe_as(m, NULL, &d, &desc), 0);
	assert_int_equal(weir_mmap_describe(p, m, c.dev, NULL, describe_it, &d,
					    &desc), -EOPNOTSUPP);
	assert_int_equal(weir_provider_read_desc(c.p, desc.bytes, desc.len, NULL,
						 0, &read), -EINVAL);
	read.size = sizeof(read);
	assert_int_equal(weir_provider_read_desc(p, desc.bytes, desc.len, NULL,
						 0, &read), -EOPNOTSUPP);
	assert_int_equal(weir_provider_read_desc(c.p, NULL, 0, NULL, 0, &read),
			 -EINVAL);
	assert_int_equal(weir_provider_read_desc(c.p, desc.bytes, desc.len - 1,
						 NULL, 0, &read), -EBADMSG);
	assert_int_equal(weir_provider_read_desc(c.p, desc.bytes, desc.len, NULL,
						 16, &read), -EINVAL);
	assert_int_equal(read.len, 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_provider_unregister(p), 0);
	card_end();
}

static void provider_whose_memory_has_no_end_is_refused(void **state)
{
	struct weir_provider_dm_ops dm = dm_ops;
	struct weir_provider_ops ops = card_ops;
	struct weir_provider *p = NULL;

	(void)state;
	ops.dm = &dm;
	dm.release = NULL;
	assert_int_equal(weir_provider_register(&p, &ops, &c), -EINVAL);
	dm = dm_ops;
	dm.alloc = NULL;
	assert_int_equal(weir_provider_register(&p, &ops, &c), -EINVAL);
	dm = dm_ops;
	dm.copy_to = NULL;
	assert_int_equal(weir_provider_register(&p, &ops, &c), -EINVAL);
	dm = dm_ops;
	dm.import = NULL;
	assert_int_equal(weir_provider_register(&p, &ops, &c), -EINVAL);
	assert_null(p);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(memory_of_a_card_is_allocated_copied_and_freed),
		CASE(memory_of_a_card_is_imported_by_its_token),
		CASE(errno_of_a_card_is_that_of_the_call),
		CASE(mmap_of_a_cards_memory_is_registered_as_that),
		CASE(binding_of_a_provider_ends_before_the_memory),
		CASE(part_is_described_as_its_provider_says),
		CASE(description_is_refused_before_anything_is_done),
		CASE(provider_may_meddle_with_the_mmap_that_it_describes),
		CASE(import_of_a_description_is_its_providers),
		CASE(descriptions_have_their_errnos),
		CASE(descriptor_of_another_provider_is_not_read),
		CASE(provider_is_asked_for_the_device_that_is_wanted),
		CASE(provider_whose_memory_has_no_end_is_refused),
	};

	return harness_run_plain(cases, N_OF(cases));
}
