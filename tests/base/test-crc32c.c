/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-32C: every kernel that this CPU can run against a bitwise reference.
 *
 * The reference is the definition, a shift and an exclusive or per bit, and
 * shares no table with the library.  It runs once over one buffer and keeps the
 * remainder after each byte: a CRC from any place to any other is compared
 * without computing it again, as the contents stay and only places change.
 *
 * What depends on the environment or on being first is done by a child process,
 * which is this program with an argument.
 */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/copy.h"
#include "base/crc32c.h"

/* Several of the largest blocks that a kernel works in, and a tile and more. */
#define LONG 200000
#define SHORT 4096
#define THREADS 8

static uint8_t data[LONG];
static uint32_t expected[LONG + 1];

static uint64_t random_state;

/* xorshift64: the same numbers in each run. */
static uint64_t random64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static size_t random_below(size_t n)
{
	return (size_t)(random64() % n);
}

static uint32_t reference_bit(uint32_t rem)
{
	return rem & 1 ? rem >> 1 ^ 0x82f63b78u : rem >> 1;
}

static uint32_t reference_byte(uint32_t rem, uint8_t v)
{
	rem ^= v;
	for (int i = 0; i < 8; i++)
		rem = reference_bit(rem);
	return rem;
}

static uint32_t reference(uint32_t crc, const uint8_t *p, size_t len)
{
	crc = ~crc;
	while (len--)
		crc = reference_byte(crc, *p++);
	return ~crc;
}

/* a * b mod P for mirrored polynomials, by the book. */
static uint32_t reference_multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
		if (a & bit)
			product ^= b;
		b = reference_bit(b);
	}
	return product;
}

/* @rem * x^(8 len) mod P, squaring and multiplying. */
static uint32_t reference_shift(uint32_t rem, uint64_t len)
{
	uint32_t power = 1u << 23;

	for (; len; len >>= 1) {
		if (len & 1)
			rem = reference_multiply(rem, power);
		power = reference_multiply(power, power);
	}
	return rem;
}

static int set_up(void **state)
{
	(void)state;
	random_state = 0x9e3779b97f4a7c15u;
	expected[0] = ~0u;
	for (size_t i = 0; i < LONG; i++) {
		data[i] = (uint8_t)random64();
		expected[i + 1] = reference_byte(expected[i], data[i]);
	}
	return 0;
}

/* Call @test for each kernel that can run here. */
static void for_each_kernel(void (*test)(const struct crc32c_kernel *))
{
	for (size_t i = 0; crc32c_kernels[i]; i++) {
		if (crc32c_kernels[i]->usable())
			test(crc32c_kernels[i]);
	}
}

/* Say which kernel and length it was: asserting in the loops would not. */
static void expect(const struct crc32c_kernel *k, size_t len, uint32_t rem,
		   uint32_t want)
{
	if (rem != want)
		fail_msg("%s, %zu bytes: 0x%08x, not 0x%08x", k->name, len, rem,
			 want);
}

static void published_examples_come_out(void **state)
{
	uint8_t zeros[32] = { 0 }, ones[32], up[32], down[32];

	(void)state;
	memset(ones, 0xff, sizeof(ones));
	for (uint8_t i = 0; i < 32; i++) {
		up[i] = i;
		down[i] = (uint8_t)(31 - i);
	}
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283u);

	/* RFC 3720, B.4. */
	assert_int_equal(crc32c(0, zeros, sizeof(zeros)), 0x8a9136aau);
	assert_int_equal(crc32c(0, ones, sizeof(ones)), 0x62a8ab43u);
	assert_int_equal(crc32c(0, up, sizeof(up)), 0x46dd794eu);
	assert_int_equal(crc32c(0, down, sizeof(down)), 0x113fdb5cu);
}

static void nothing_has_crc_0_and_changes_no_other(void **state)
{
	(void)state;
	assert_int_equal(crc32c(0, NULL, 0), 0);
	assert_int_equal(crc32c(0x12345678, NULL, 0), 0x12345678);
	assert_int_equal(crc32c_copy(0x12345678, data, data + 9, 0),
			 0x12345678);
	assert_int_equal(crc32c_combine(0x12345678, 0, 0), 0x12345678);
	assert_int_equal(crc32c_combine(0, 0x12345678, 1000), 0x12345678);
}

static void check_lengths_and_alignments(const struct crc32c_kernel *k)
{
	uint8_t *capacity = aligned_alloc(64, SHORT + 64);

	assert_non_null(capacity);
	for (size_t align = 0; align < 64; align++) {
		memcpy(capacity + align, data, SHORT);
		for (size_t len = 0; len <= SHORT; len++)
			expect(k, len, k->update(~0u, capacity + align, len),
			       expected[len]);
	}
	free(capacity);
}

static void every_kernel_is_right_at_each_length_and_alignment(void **state)
{
	(void)state;
	for_each_kernel(check_lengths_and_alignments);
}

static void check_long_input(const struct crc32c_kernel *k)
{
	for (int i = 0; i < 300; i++) {
		size_t from = random_below(LONG);
		size_t len = random_below(LONG - from + 1);

		expect(k, len, k->update(expected[from], data + from, len),
		       expected[from + len]);
	}
}

static void every_kernel_is_right_on_long_input(void **state)
{
	(void)state;
	for_each_kernel(check_long_input);
}

static void check_pieces(const struct crc32c_kernel *k)
{
	for (int i = 0; i < 50; i++) {
		size_t max = (size_t)1 << random_below(17);
		uint32_t rem = ~0u;
		size_t n;

		for (size_t at = 0; at < LONG; at += n) {
			n = random_below(max + 1);
			if (n > LONG - at)
				n = LONG - at;
			rem = k->update(rem, data + at, n);
		}
		expect(k, LONG, rem, expected[LONG]);
	}
}

static void random_pieces_give_what_one_piece_gives(void **state)
{
	(void)state;
	for_each_kernel(check_pieces);
}

/* @size bytes, a multiple of the page size, with no access behind them. */
static uint8_t *map_before_a_hole(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *p = mmap(NULL, size + page, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(mprotect(p + size, page, PROT_NONE), 0);
	return p;
}

static void unmap_before_a_hole(uint8_t *p, size_t size)
{
	munmap(p, size + (size_t)sysconf(_SC_PAGESIZE));
}

static void check_ends(const struct crc32c_kernel *k)
{
	size_t size = 65536;
	uint8_t *src = map_before_a_hole(size);
	uint8_t *dst = map_before_a_hole(size);

	for (size_t i = 0; i <= SHORT + 64; i++) {
		size_t len = i <= SHORT ? i : random_below(size);
		uint8_t *from = src + size - len, *to = dst + size - len;

		memcpy(from, data, len);
		memset(to, 0, len);
		expect(k, len, k->update(~0u, from, len), expected[len]);
		expect(k, len, crc32c_copy_with(k, ~0u, to, from, len),
		       expected[len]);
		assert_memory_equal(to, data, len);
		memset(to, 0, len);
		expect(k, len, crc32c_stream_with(k, ~0u, to, from, len),
		       expected[len]);
		assert_memory_equal(to, data, len);
	}
	unmap_before_a_hole(src, size);
	unmap_before_a_hole(dst, size);
}

static void no_kernel_goes_past_the_end(void **state)
{
	(void)state;
	for_each_kernel(check_ends);
}

/* Whether all @len bytes at @p are @v. */
static bool filled(const uint8_t *p, uint8_t v, size_t len)
{
	while (len && p[len - 1] == v)
		len--;
	return len == 0;
}

typedef uint32_t copy_with_fn(const struct crc32c_kernel *k, uint32_t rem,
			      void *dst, const void *src, size_t len);

static void check_copy(const struct crc32c_kernel *k, copy_with_fn *copy,
		       uint8_t *dst, size_t len)
{
	size_t from = random_below(LONG - len + 1);
	size_t before = 64 + random_below(64);
	uint32_t rem;

	memset(dst, 0xa5, len + 256);
	rem = copy(k, expected[from], dst + before, data + from, len);
	expect(k, len, rem, expected[from + len]);
	assert_memory_equal(dst + before, data + from, len);
	assert_true(filled(dst, 0xa5, before));
	assert_true(filled(dst + before + len, 0xa5, 256 - before));
}

/* As a kernel's copy, without its CRC. */
static uint32_t stream_alone(const struct crc32c_kernel *k, uint32_t rem,
			     void *dst, const void *src, size_t len)
{
	copy_stream(dst, src, len);
	return k->update(rem, src, len);
}

static void check_copies(const struct crc32c_kernel *k)
{
	copy_with_fn *const copies[] = { crc32c_copy_with, crc32c_stream_with,
					 stream_alone };
	uint8_t *dst = malloc(LONG + 256);

	assert_non_null(dst);
	for (size_t c = 0; c < 3; c++) {
		for (size_t len = 0; len <= SHORT; len++)
			check_copy(k, copies[c], dst, len);
		for (int i = 0; i < 100; i++)
			check_copy(k, copies[c], dst, random_below(LONG + 1));
	}
	free(dst);
}

/* In the order that is the faster one here, and in the other. */
static void copies_are_exact_and_have_the_right_crc(void **state)
{
	(void)state;
	for_each_kernel(check_copies);
	atomic_store(&copy_other_order, true);
	for_each_kernel(check_copies);
	atomic_store(&copy_other_order, false);
}

static void public_functions_agree_with_the_kernels(void **state)
{
	uint8_t *dst = malloc(LONG);

	(void)state;
	assert_non_null(dst);
	assert_int_equal(crc32c(0, data, LONG), ~expected[LONG]);
	assert_int_equal(crc32c_copy(0, dst, data, LONG), ~expected[LONG]);
	assert_memory_equal(dst, data, LONG);
	assert_int_equal(crc32c(~expected[7], data + 7, 5000),
			 ~expected[5007]);
	free(dst);
}

static void combining_equals_concatenating(void **state)
{
	(void)state;
	for (int i = 0; i < 2000; i++) {
		size_t split = random_below(LONG + 1);
		size_t end = split + random_below(LONG - split + 1);
		uint32_t first = ~expected[split];
		uint32_t second = crc32c(0, data + split, end - split);

		assert_int_equal(crc32c_combine(first, second, end - split),
				 ~expected[end]);
	}
}

static void combining_counts_every_byte_of_short_lengths(void **state)
{
	uint8_t zeros[600] = { 0 };

	(void)state;
	for (size_t len = 0; len <= sizeof(zeros); len++) {
		uint32_t second = reference(0, zeros, len);
		uint32_t both = reference(0x1badcafe, zeros, len);

		assert_int_equal(crc32c_combine(0x1badcafe, second, len), both);
	}
}

static void combining_is_right_for_64_bit_lengths(void **state)
{
	(void)state;
	for (int i = 0; i < 20000; i++) {
		uint64_t len = random64() >> random_below(64);
		uint32_t crc = (uint32_t)random64();

		assert_int_equal(crc32c_combine(crc, 0, len),
				 reference_shift(crc, len));
	}
	assert_int_equal(crc32c_combine(1, 0, UINT64_MAX),
			 reference_shift(1, UINT64_MAX));
	for (uint64_t len = 0x7ffffffd; len < 0x80000003; len++)
		assert_int_equal(crc32c_combine(1, 0, len),
				 reference_shift(1, len));
}

/*
 * Run @program, which is this one, with @arg.  Its name is asked for rather
 * than /proc/self/exe executed, which under valgrind is valgrind.
 */
static void become_child(const char *program, const char *arg, const char *cpu)
{
	if (cpu)
		setenv("WEIR_CPU", cpu, 1);
	else
		unsetenv("WEIR_CPU");
	execl(program, program, arg, (char *)NULL);
	_exit(127);
}

/* What the child writes is returned in @out, at most 63 bytes. */
static void run_child(const char *arg, const char *cpu, char out[64])
{
	char program[4096] = "";
	size_t got = 0;
	ssize_t r;
	int fds[2];
	pid_t pid;
	int status;

	r = readlink("/proc/self/exe", program, sizeof(program) - 1);
	assert_true(r > 0);
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		become_child(program, arg, cpu);
	}
	close(fds[1]);
	do {
		r = read(fds[0], out + got, 63 - got);
		got += r > 0 ? (size_t)r : 0;
	} while (r > 0);
	out[got] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void the_environment_forces_the_portable_kernel(void **state)
{
	char out[64];

	(void)state;
	run_child("name", "baseline", out);
	assert_string_equal(out, "portable\n");
	run_child("example", "baseline", out);
	assert_string_equal(out, "right\n");
}

static void otherwise_the_first_usable_kernel_is_taken(void **state)
{
	char out[64];

	(void)state;
	run_child("best", NULL, out);
	assert_string_equal(out, "right\n");
	run_child("best", "something else", out);
	assert_string_equal(out, "right\n");
	run_child("example", NULL, out);
	assert_string_equal(out, "right\n");
}

static void threads_that_race_to_be_first_all_get_it_right(void **state)
{
	char out[64];

	(void)state;
	for (int i = 0; i < 20; i++) {
		run_child("race", NULL, out);
		assert_string_equal(out, "right\n");
	}
}

static pthread_barrier_t barrier;

static void *first_call(void *arg)
{
	uint32_t *crc = arg;

	pthread_barrier_wait(&barrier);
	*crc = crc32c(0, "123456789", 9);
	return NULL;
}

static bool race(void)
{
	pthread_t threads[THREADS];
	uint32_t crc[THREADS];
	bool right = true;

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		if (pthread_create(&threads[i], NULL, first_call, &crc[i]))
			abort();
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		right = right && crc[i] == 0xe3069283u;
	}
	pthread_barrier_destroy(&barrier);
	return right;
}

/* Found here and not by the parent: valgrind may show it another CPU. */
static bool best(void)
{
	size_t i = 0;

	while (!crc32c_kernels[i]->usable())
		i++;
	return !strcmp(crc32c_impl(), crc32c_kernels[i]->name);
}

static int child(const char *what)
{
	bool right = false;

	if (!strcmp(what, "name")) {
		puts(crc32c_impl());
		return 0;
	}
	if (!strcmp(what, "race"))
		right = race();
	if (!strcmp(what, "best"))
		right = best();
	if (!strcmp(what, "example"))
		right = crc32c(0, "123456789", 9) == 0xe3069283u;
	puts(right ? "right" : "wrong");
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_examples_come_out),
		cmocka_unit_test(nothing_has_crc_0_and_changes_no_other),
		cmocka_unit_test(
			every_kernel_is_right_at_each_length_and_alignment),
		cmocka_unit_test(every_kernel_is_right_on_long_input),
		cmocka_unit_test(random_pieces_give_what_one_piece_gives),
		cmocka_unit_test(no_kernel_goes_past_the_end),
		cmocka_unit_test(copies_are_exact_and_have_the_right_crc),
		cmocka_unit_test(public_functions_agree_with_the_kernels),
		cmocka_unit_test(combining_equals_concatenating),
		cmocka_unit_test(combining_counts_every_byte_of_short_lengths),
		cmocka_unit_test(combining_is_right_for_64_bit_lengths),
		cmocka_unit_test(the_environment_forces_the_portable_kernel),
		cmocka_unit_test(otherwise_the_first_usable_kernel_is_taken),
		cmocka_unit_test(
			threads_that_race_to_be_first_all_get_it_right),
	};

	if (argc > 1)
		return child(argv[1]);
	return cmocka_run_group_tests(tests, set_up, NULL);
}
