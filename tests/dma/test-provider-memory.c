/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory on a provider's device, and what a provider binds to an mmap.
 */

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
	*ret = (struct weir_provider_key){ .data = &c, .lkey = 5, .rkey = 6 };
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
		assert_int_equal(binding->key.rkey, 6);
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
		CASE(provider_is_asked_for_the_device_that_is_wanted),
		CASE(provider_whose_memory_has_no_end_is_refused),
	};

	return harness_run_plain(cases, N_OF(cases));
}
