/* SPDX-License-Identifier: BSD-3-Clause */

/* The descriptor of an exported mmap: what is written is read, what is not
 * exactly that is refused. */

#include "tests/support/harness.h"

#include "tests/fuzz/descriptor-fixture.h"

#ifdef HAVE_LIBSODIUM
#define KEYS 2
#else
#define KEYS 1
#endif

/* A descriptor, in as much memory as it has bytes. */
struct blob {
	uint8_t *p;
	size_t len;
	const char *key;
};

static size_t key_len(const char *key)
{
	return key ? sizeof(fixture_key) : 0;
}

static void make(struct blob *b, unsigned int i, int with_key)
{
	uint8_t buf[DESCRIPTOR_MAX];
	struct descriptor d;
	int n;

	fixture_descriptor(&d, i);
	b->key = with_key ? fixture_key : NULL;
	n = descriptor_format(buf, &d, b->key, key_len(b->key), FIXTURE_CALL);
	assert_true(n > 0 && n <= DESCRIPTOR_MAX);
	b->len = (size_t)n;
	b->p = malloc(b->len);
	assert_non_null(b->p);
	memcpy(b->p, buf, b->len);
}

static int parse(const struct blob *b)
{
	struct descriptor d;

	memset(&d, 0x5a, sizeof(d));
	return descriptor_parse(&d, b->p, b->len, b->key, key_len(b->key),
				FIXTURE_NOW, FIXTURE_CALL);
}

static void encoded_descriptor_is_decoded(void **state)
{
	struct descriptor d, e;
	struct blob b;
	unsigned int i;
	int k;

	(void)state;
	for (i = 0; fixture_descriptor(&d, i); i++) {
		for (k = 0; k < KEYS; k++) {
			make(&b, i, k);
			memset(&e, 0, sizeof(e));
			assert_int_equal(descriptor_parse(&e, b.p, b.len, b.key,
							  key_len(b.key),
							  FIXTURE_NOW,
							  FIXTURE_CALL),
					 0);
			assert_memory_equal(&d, &e, sizeof(d));
			free(b.p);
		}
	}
}

/* The bytes are the same on every machine and in every version 1. */
static void the_format_is_what_it_was(void **state)
{
	static const uint8_t want[] = {
		'w', 'e', 'i', 'r', 'm', 'm', 'a', 'p', 1, 0, 0, 0, 144, 0, 0, 0,
	};
	struct blob b;

	(void)state;
	make(&b, 0, 0);
	assert_int_equal(b.len, DESCRIPTOR_HEADER + 8 + 64);
	assert_memory_equal(b.p, want, sizeof(want));
	assert_int_equal(b.p[20], DESCRIPTOR_MEMFD);
	assert_int_equal(b.p[24], 0xa5);
	assert_int_equal(b.p[40], 7);
	assert_int_equal(b.p[48], 1);
	assert_int_equal(b.p[64], DESCRIPTOR_READ);
	free(b.p);
}

/* Parse each descriptor, cut at each length; @repair makes the rest look whole. */
static void try_cuts(bool repair)
{
	struct blob b, cut;
	unsigned int i;
	int k, err;

	for (i = 0; i < FIXTURE_DESCRIPTORS; i++) {
		for (k = 0; k < KEYS; k++) {
			make(&b, i, k);
			for (cut.len = 0; cut.len < b.len; cut.len++) {
				cut.p = malloc(cut.len ? cut.len : 1);
				cut.key = b.key;
				memcpy(cut.p, b.p, cut.len);
				if (repair)
					fixture_repair(cut.p, cut.len, k);
				err = parse(&cut);
				assert_true(repair ? err < 0 : err == -EBADMSG);
				free(cut.p);
			}
			free(b.p);
		}
	}
}

static void truncated_descriptor_is_refused(void **state)
{
	(void)state;
	try_cuts(false);
}

/* The MAC shows the repair, or the fields do. */
static void a_cut_that_is_repaired_says_no_more(void **state)
{
	(void)state;
	try_cuts(true);
}

static void descriptor_with_a_flipped_bit_is_refused(void **state)
{
	struct blob b;
	unsigned int i;
	size_t bit;
	int k;

	(void)state;
	for (i = 0; i < FIXTURE_DESCRIPTORS; i++) {
		for (k = 0; k < KEYS; k++) {
			make(&b, i, k);
			for (bit = 0; bit < 8 * b.len; bit++) {
				b.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
				assert_true(parse(&b) < 0);
				b.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
			}
			assert_int_equal(parse(&b), 0);
			free(b.p);
		}
	}
}

/* Who cannot make a MAC cannot change anything, CRC or not. */
static void keyed_descriptor_with_a_flip_and_a_new_crc_is_refused(void **state)
{
	struct blob b;
	size_t bit;
	int err;

	(void)state;
	if (KEYS < 2)
		skip_because("built without libsodium");
	make(&b, 8, 1);
	for (bit = 0; bit < 8 * b.len; bit++) {
		if (bit / 8 >= 16 && bit / 8 < 20)
			continue;
		b.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
		fixture_put(b.p + 16, 0, 4);
		fixture_put(b.p + 16, crc32c(0, b.p, b.len), 4);
		err = parse(&b);
		if (bit / 8 < 16)
			assert_true(err < 0 || bit / 8 == 9);
		else
			assert_int_equal(err, -EKEYREJECTED);
		b.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	free(b.p);
}

static void the_key_must_be_the_right_one(void **state)
{
	static const char other[32] = "another key of thirty-two bytes";
	uint8_t buf[DESCRIPTOR_MAX];
	struct descriptor d;
	struct blob plain, keyed;

	(void)state;
	make(&plain, 0, 0);
	if (KEYS < 2) {
		fixture_descriptor(&d, 0);
		assert_int_equal(descriptor_format(buf, &d, fixture_key, 32,
						   FIXTURE_CALL),
				 -EOPNOTSUPP);
		free(plain.p);
		skip_because("built without libsodium");
	}
	make(&keyed, 0, 1);
	plain.key = fixture_key;
	assert_int_equal(parse(&plain), -EKEYREJECTED);
	assert_non_null(strstr(weir_why(), "has no MAC"));
	keyed.key = NULL;
	assert_int_equal(parse(&keyed), -EKEYREJECTED);
	keyed.key = other;
	assert_int_equal(parse(&keyed), -EKEYREJECTED);
	assert_int_equal(descriptor_parse(&d, keyed.p, keyed.len, fixture_key,
					  31, 0, FIXTURE_CALL),
			 -EKEYREJECTED);
	assert_int_equal(descriptor_parse(&d, keyed.p, keyed.len, fixture_key,
					  15, 0, FIXTURE_CALL),
			 -EINVAL);
	assert_int_equal(descriptor_parse(&d, keyed.p, keyed.len, fixture_key,
					  65, 0, FIXTURE_CALL),
			 -EINVAL);
	keyed.key = fixture_key;
	assert_int_equal(parse(&keyed), 0);
	free(plain.p);
	free(keyed.p);
}

static void descriptor_expires(void **state)
{
	struct descriptor d;
	struct blob b;

	(void)state;
	make(&b, 1, 0);
	assert_int_equal(descriptor_parse(&d, b.p, b.len, NULL, 0, FIXTURE_NOW,
					  FIXTURE_CALL),
			 0);
	assert_int_equal(descriptor_parse(&d, b.p, b.len, NULL, 0,
					  FIXTURE_NOW + 1, FIXTURE_CALL),
			 -EKEYEXPIRED);
	free(b.p);
}

/* A byte of the header is changed, and the CRC is right. */
static const struct change {
	const char *name;
	size_t off;
	uint64_t value;
	unsigned int bytes;
	int want;
} changes[] = {
	{ "an older major version", 8, 0, 1, -EPROTONOSUPPORT },
	{ "a newer major version", 8, 2, 1, -EPROTONOSUPPORT },
	{ "a newer minor version", 9, 200, 1, 0 },
	{ "an unknown flag", 10, 2, 2, -EPROTONOSUPPORT },
	{ "another length", 12, 71, 4, -EBADMSG },
	{ "kind 0", 20, 0, 4, -EPROTONOSUPPORT },
	{ "a device, without its field", 20, DESCRIPTOR_DEVICE, 4, -EBADMSG },
	{ "kind 4", 20, 4, 4, -EPROTONOSUPPORT },
	{ "a process, without its field", 20, 2, 4, -EBADMSG },
	{ "no length", 48, 0, 8, -EBADMSG },
	{ "a negative length", 48, UINT64_C(1) << 63, 8, -EBADMSG },
	{ "no permission", 64, 0, 4, -EBADMSG },
	{ "writing alone", 64, 2, 4, -EBADMSG },
	{ "an unknown permission", 64, 5, 4, -EBADMSG },
	{ "what must be 0", 68, 1, 4, -EBADMSG },
};

static void a_header_that_makes_no_sense_is_refused(void **state)
{
	struct blob b;
	size_t i;
	int err;

	(void)state;
	for (i = 0; i < N_OF(changes); i++) {
		make(&b, 0, 0);
		fixture_put(b.p + changes[i].off, changes[i].value,
			    changes[i].bytes);
		fixture_put(b.p + 16, 0, 4);
		fixture_put(b.p + 16, crc32c(0, b.p, b.len), 4);
		err = parse(&b);
		if (err != changes[i].want)
			fail_msg("%s: %d", changes[i].name, err);
		free(b.p);
	}
}

/* Fields behind the header: type, length, value, and what is left over. */
static const struct fields {
	const char *name;
	struct { unsigned int type, zero, len, bytes; } f[2];
	size_t trail;
	int want;
} fields[] = {
	{ "an unknown one", { { 99, 0, 3, 8 } }, 0, 0 },
	{ "an unknown one, twice", { { 99, 0, 3, 8 }, { 99, 0, 0, 0 } }, 0, 0 },
	{ "an unknown one that is empty", { { 99, 0, 0, 0 } }, 0, 0 },
	{ "that of a device, not critical", { { 4, 0, 40, 40 } }, 0, -EBADMSG },
	{ "a short one of a device", { { 0x8004, 0, 39, 40 } }, 0, -EBADMSG },
	{ "that of a device, without a name", { { 0x8004, 0, 40, 40 } }, 0,
	  -EBADMSG },
	{ "an unknown critical one", { { 0x8063, 0, 8, 8 } }, 0,
	  -EPROTONOSUPPORT },
	{ "a critical one behind another", { { 99, 0, 8, 8 },
	  { 0x8063, 0, 8, 8 } }, 0, -EPROTONOSUPPORT },
	{ "reserved bits", { { 99, 1, 8, 8 } }, 0, -EBADMSG },
	{ "too long", { { 99, 0, 9, 8 } }, 0, -EBADMSG },
	{ "too long by padding", { { 99, 0, 7, 7 } }, 0, -EBADMSG },
	{ "very long", { { 99, 0, UINT32_MAX, 8 } }, 0, -EBADMSG },
	{ "a byte behind", { { 99, 0, 8, 8 } }, 1, -EBADMSG },
	{ "seven bytes behind", { { 99, 0, 8, 8 } }, 7, -EBADMSG },
	{ "a process that is no process", { { 0x8002, 0, 24, 24 } }, 0,
	  -EBADMSG },
	{ "a short process", { { 0x8002, 0, 16, 16 } }, 0, -EBADMSG },
	{ "a process, not critical", { { 2, 0, 24, 24 } }, 0, -EBADMSG },
	{ "a second field of files", { { 0x8003, 0, 64, 64 } }, 0, -EBADMSG },
	{ "a MAC without a key", { { 0x8001, 0, 32, 32 } }, 0, -EBADMSG },
};

/* The field of the files, which comes first. */
#define FILES (8 + 16 * DESCRIPTOR_FILES)

static size_t put_fields(uint8_t *p, const struct fields *x)
{
	size_t i, at = DESCRIPTOR_HEADER + FILES;

	for (i = 0; i < 2 && x->f[i].type; i++) {
		fixture_put(p + at, x->f[i].type, 2);
		fixture_put(p + at + 2, x->f[i].zero, 2);
		fixture_put(p + at + 4, x->f[i].len, 4);
		at += 8 + x->f[i].bytes;
	}
	return at + x->trail;
}

static void fields_are_known_or_not_critical(void **state)
{
	uint8_t buf[DESCRIPTOR_MAX] = { 0 };
	struct blob head, b = { NULL, 0, NULL };
	size_t i;
	int err;

	(void)state;
	for (i = 0; i < N_OF(fields); i++) {
		make(&head, 0, 0);
		memset(buf, 0, sizeof(buf));
		memcpy(buf, head.p, head.len);
		b.len = put_fields(buf, &fields[i]);
		fixture_repair(buf, b.len, 0);
		b.p = malloc(b.len);
		memcpy(b.p, buf, b.len);
		err = parse(&b);
		if (err != fields[i].want)
			fail_msg("%s: %d", fields[i].name, err);
		free(b.p);
		free(head.p);
	}
}

/* Of a descriptor of memory of this process, of another one, and by a device. */
static void field_that_is_there_twice_is_refused(void **state)
{
	static const unsigned int numbers[] = { 0, 8, 17 };
	struct blob b, twice;
	size_t i, at, len;
	int n = 0;

	(void)state;
	for (i = 0; i < N_OF(numbers); i++) {
		make(&b, numbers[i], 0);
		assert_int_equal(parse(&b), 0);
		for (at = DESCRIPTOR_HEADER; at < b.len; at += len, n++) {
			len = 8 + b.p[at + 4];
			twice = (struct blob){ malloc(b.len + len),
					       b.len + len, NULL };
			assert_non_null(twice.p);
			memcpy(twice.p, b.p, b.len);
			memcpy(twice.p + b.len, b.p + at, len);
			fixture_repair(twice.p, twice.len, 0);
			assert_int_equal(parse(&twice), -EBADMSG);
			free(twice.p);
		}
		free(b.p);
	}
	assert_int_equal(n, 4); /* A process has two. */
}

/* In a sound descriptor, of number @i, @bytes at @off are changed. */
static int parse_changed(unsigned int i, size_t off, uint64_t value,
			 unsigned int bytes)
{
	struct blob b;
	int err;

	make(&b, i, 0);
	fixture_put(b.p + off, value, bytes);
	fixture_repair(b.p, b.len, 0);
	err = parse(&b);
	free(b.p);
	return err;
}

/* Number 24 has a name of one byte, and no bytes; 26 has as many as can be. */
static void memory_by_device_has_a_provider_and_does_not_wrap(void **state)
{
	const size_t field = DESCRIPTOR_HEADER + 8;
	size_t i;

	(void)state;
	assert_int_equal(parse_changed(24, field, INT64_MAX - 1, 8), 0);
	assert_int_equal(parse_changed(24, field, INT64_MAX, 8), -EBADMSG);
	assert_int_equal(parse_changed(24, field, UINT64_MAX, 8), -EBADMSG);
	assert_int_equal(parse_changed(24, field + 8, 0, 1), -EBADMSG);
	assert_int_equal(parse_changed(24, field + 8, 'x' | 'y' << 8, 2), 0);
	for (i = 2; i < DESCRIPTOR_NAME; i++)
		assert_int_equal(parse_changed(24, field + 8 + i, 'x', 1),
				 -EBADMSG);
	assert_int_equal(parse_changed(27, field + 8 + 31, 'x', 1), -EBADMSG);
	assert_int_equal(parse_changed(26, field + 40 + 255, 7, 1), 0);
	assert_int_equal(parse_changed(24, 64, 0, 4), -EBADMSG);
	assert_int_equal(parse_changed(24, 64, 8, 4), -EBADMSG);
	assert_int_equal(parse_changed(24, 64, DESCRIPTOR_WRITE, 4), 0);
	assert_int_equal(parse_changed(24, 64, DESCRIPTOR_ATOMIC, 4), 0);
	assert_int_equal(parse_changed(24, 20, DESCRIPTOR_PROCESS, 4),
			 -EBADMSG);
	assert_int_equal(parse_changed(8, 20, DESCRIPTOR_DEVICE, 4), -EBADMSG);
}

static void memory_of_a_process_does_not_wrap(void **state)
{
	const size_t addr = DESCRIPTOR_HEADER + FILES + 8 + 16;

	(void)state;
	assert_int_equal(parse_changed(8, addr, 1, 8), 0);
	assert_int_equal(parse_changed(8, addr, 0, 8), -EBADMSG);
	assert_int_equal(parse_changed(8, addr, INT64_MAX, 8), -EBADMSG);
	assert_int_equal(parse_changed(8, addr, UINT64_MAX, 8), -EBADMSG);
}

static void padding_hides_nothing_and_fields_come_once(void **state)
{
	uint8_t buf[DESCRIPTOR_MAX];
	struct blob one, b;

	(void)state;
	make(&one, 8, 0);
	memcpy(buf, one.p, one.len);
	memcpy(buf + one.len, one.p + DESCRIPTOR_HEADER, 32);
	b = (struct blob){ buf, one.len + 32, NULL };
	fixture_repair(buf, b.len, 0);
	assert_int_equal(parse(&b), -EBADMSG);

	memset(buf + one.len, 0, 16);
	fixture_put(buf + one.len, 99, 2);
	fixture_put(buf + one.len + 4, 3, 4);
	b.len = one.len + 16;
	fixture_repair(buf, b.len, 0);
	assert_int_equal(parse(&b), 0);
	buf[b.len - 1] = 1;
	fixture_repair(buf, b.len, 0);
	assert_int_equal(parse(&b), -EBADMSG);
	free(one.p);
}

static void descriptor_is_not_longer_than_its_limit(void **state)
{
	uint8_t buf[DESCRIPTOR_MAX + 8] = { 0 };
	struct blob one, b = { buf, DESCRIPTOR_MAX, NULL };

	(void)state;
	make(&one, 0, 0);
	memcpy(buf, one.p, one.len);
	fixture_put(buf + one.len, 99, 2);
	fixture_put(buf + one.len + 4, DESCRIPTOR_MAX - one.len - 8, 4);
	fixture_repair(buf, b.len, 0);
	assert_int_equal(parse(&b), 0);
	b.len = DESCRIPTOR_MAX + 8;
	fixture_put(buf + one.len + 4, DESCRIPTOR_MAX - one.len, 4);
	fixture_repair(buf, b.len, 0);
	assert_int_equal(parse(&b), -EBADMSG);
	free(one.p);
}

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static void garbage_is_refused(void **state)
{
	unsigned int i, n = want_long() ? 2000000 : scaled(50000);
	uint64_t seed = 88172645463325252u;
	struct blob b;
	size_t j;

	(void)state;
	for (i = 0; i < n; i++) {
		b.len = next_random(&seed) % 300;
		b.p = malloc(b.len ? b.len : 1);
		b.key = i % 2 && KEYS > 1 ? fixture_key : NULL;
		for (j = 0; j < b.len; j++)
			b.p[j] = (uint8_t)next_random(&seed);
		if (i % 3 && b.len > 16)
			memcpy(b.p, "weirmmap\1", 9);
		assert_true(parse(&b) < 0);
		free(b.p);
	}
}

/* The fuzz target without clang: a few mutations, always the same. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mutations_find_nothing(void **state)
{
	unsigned int i, k, n = want_long() ? 3000000 : scaled(60000);
	uint64_t seed = 0x9e3779b97f4a7c15u;
	uint8_t buf[1 + DESCRIPTOR_MAX];
	struct blob b;

	(void)state;
	for (i = 0; i < n; i++) {
		make(&b, i % FIXTURE_DESCRIPTORS,
		     i / FIXTURE_DESCRIPTORS % KEYS);
		memset(buf, 0, sizeof(buf));
		buf[0] = (uint8_t)(i / FIXTURE_DESCRIPTORS % 4);
		memcpy(buf + 1, b.p, b.len);
		for (k = next_random(&seed) % 4 + 1; k; k--)
			buf[1 + next_random(&seed) % (b.len + 16)] =
				(uint8_t)next_random(&seed);
		b.len += next_random(&seed) % 16;
		b.len -= next_random(&seed) % 16;
		LLVMFuzzerTestOneInput(buf, 1 + b.len);
		free(b.p);
	}
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(memory_by_device_has_a_provider_and_does_not_wrap),
		CASE(memory_of_a_process_does_not_wrap),
		CASE(encoded_descriptor_is_decoded),
		CASE(the_format_is_what_it_was),
		CASE(truncated_descriptor_is_refused),
		CASE(a_cut_that_is_repaired_says_no_more),
		CASE(descriptor_with_a_flipped_bit_is_refused),
		CASE(keyed_descriptor_with_a_flip_and_a_new_crc_is_refused),
		CASE(the_key_must_be_the_right_one),
		CASE(descriptor_expires),
		CASE(a_header_that_makes_no_sense_is_refused),
		CASE(fields_are_known_or_not_critical),
		CASE(field_that_is_there_twice_is_refused),
		CASE(padding_hides_nothing_and_fields_come_once),
		CASE(descriptor_is_not_longer_than_its_limit),
		CASE(garbage_is_refused),
		CASE(mutations_find_nothing),
	};

	return harness_run_plain(cases, N_OF(cases));
}
