/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/crc32c.h"
#include "base/own.h"

#ifdef OWN_ANNOTATE

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef WEIR_VALGRIND
#include <valgrind/drd.h>
#include <valgrind/memcheck.h>
#include <valgrind/valgrind.h>
/* Both tools have annotations of the same names. */
#undef ANNOTATE_HAPPENS_BEFORE
#undef ANNOTATE_HAPPENS_AFTER
#undef ANNOTATE_NEW_MEMORY
#undef ANNOTATE_RWLOCK_CREATE
#undef ANNOTATE_RWLOCK_DESTROY
#undef ANNOTATE_RWLOCK_ACQUIRED
#undef ANNOTATE_RWLOCK_RELEASED
#include <valgrind/helgrind.h>
#endif

#ifdef OWN_ASAN
#include <sanitizer/asan_interface.h>

#define ASAN_GRAIN 8
#define ASAN_USER_POISON 0xf7

/* A shadow byte covers 8 bytes of memory; see the header for the ends. */
__attribute__((no_sanitize_address)) static uint8_t shadow_of(uintptr_t addr)
{
	size_t scale, offset;

	__asan_get_shadow_mapping(&scale, &offset);
	return *(volatile uint8_t *)((addr >> scale) + offset);
}

__attribute__((no_sanitize_address)) static void asan_acquire(const void *p,
							      size_t len)
{
	uintptr_t from = ((uintptr_t)p + ASAN_GRAIN - 1) & -ASAN_GRAIN;
	uintptr_t to = ((uintptr_t)p + len) & -ASAN_GRAIN;

	/* The ends and the middle of the whole grains are enough to see. */
	if (from < to) {
		uintptr_t mid = (from + (to - from) / 2) & -ASAN_GRAIN;
		uintptr_t last = to - ASAN_GRAIN;

		if (shadow_of(from) != ASAN_USER_POISON ||
		    shadow_of(mid) != ASAN_USER_POISON ||
		    shadow_of(last) != ASAN_USER_POISON) {
			fprintf(stderr, "weir: buffer %p of %zu bytes was "
				"freed or reused while an operation was "
				"writing to it\n", p, len);
			abort();
		}
	}
	__asan_unpoison_memory_region(p, len);
}

/* Reports through ASan itself, with the stack of the allocation. */
static void asan_must_be_whole(const void *p, size_t len)
{
	void *bad = __asan_region_is_poisoned((void *)p, len);

	if (bad) {
		fprintf(stderr, "weir: buffer %p of %zu bytes, given to an "
			"operation, is not all the caller's: %p\n", p, len,
			bad);
		__asan_report_error(__builtin_return_address(0),
				    __builtin_frame_address(0), bad, bad, 0, 1);
		abort();
	}
}
#endif /* OWN_ASAN */

#ifdef OWN_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
void __tsan_write_range(void *addr, long size);
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned int flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned int flags);

#define TSAN_NO_SYNC 1

static pthread_key_t tsan_kernel;
static pthread_once_t tsan_once = PTHREAD_ONCE_INIT;

static void tsan_make_key(void)
{
	if (pthread_key_create(&tsan_kernel, __tsan_destroy_fiber))
		abort();
}

/*
 * The kernel, as TSan is to see it: a thread of its own that writes to @p after
 * the start and before own_acquire_in().  A thread that touches @p in between
 * races.
 */
static void tsan_kernel_writes(void *p, size_t len)
{
	void *self = __tsan_get_current_fiber(), *kernel;

	pthread_once(&tsan_once, tsan_make_key);
	kernel = pthread_getspecific(tsan_kernel);
	if (!kernel) {
		kernel = __tsan_create_fiber(0);
		pthread_setspecific(tsan_kernel, kernel);
	}
	__tsan_release(p);
	__tsan_switch_to_fiber(kernel, TSAN_NO_SYNC);
	__tsan_acquire(p);
	__tsan_write_range(p, len);
	__tsan_release(p);
	__tsan_switch_to_fiber(self, TSAN_NO_SYNC);
}
#endif

#ifdef WEIR_VALGRIND
/* All but the last byte, by which valgrind_inspect() sees that it was freed. */
static void valgrind_release(const void *p, size_t len)
{
	(void)VALGRIND_MAKE_MEM_NOACCESS(p, len - 1);
	(void)VALGRIND_MAKE_MEM_UNDEFINED((const char *)p + len - 1, 1);
}

static void valgrind_inspect(const void *p, size_t len)
{
	(void)VALGRIND_CHECK_MEM_IS_ADDRESSABLE((const char *)p + len - 1, 1);
}
#endif

void own_release_in(const void *p, size_t len)
{
	if (!len)
		return;
#ifdef OWN_ASAN
	asan_must_be_whole(p, len);
	__asan_poison_memory_region(p, len);
#endif
#ifdef OWN_TSAN
	tsan_kernel_writes((void *)p, len);
#endif
#ifdef WEIR_VALGRIND
	if (RUNNING_ON_VALGRIND) {
		(void)VALGRIND_CHECK_MEM_IS_ADDRESSABLE(p, len);
		valgrind_release(p, len);
	}
#endif
	(void)p;
}

/*
 * TSan would take a change for a race also where it is none: a server that
 * sends from memory which others write, in an order that its client makes.
 */
static uint32_t sum_of(const void *p, size_t len, uint32_t sum)
{
#ifdef OWN_TSAN
	(void)p, (void)len;
	return sum;
#else
	return crc32c(sum, p, len);
#endif
}

uint32_t own_release_out(const void *p, size_t len, uint32_t sum)
{
#ifdef WEIR_VALGRIND
	if (len && RUNNING_ON_VALGRIND)
		(void)VALGRIND_CHECK_MEM_IS_DEFINED(p, len);
#endif
	return own_acquire_out(p, len, sum);
}

uint32_t own_acquire_out(const void *p, size_t len, uint32_t sum)
{
	if (!len)
		return sum;
#ifdef OWN_ASAN
	asan_must_be_whole(p, len);
#endif
	return sum_of(p, len, sum);
}

void own_was_changed(void)
{
	fprintf(stderr, "weir: a buffer was changed or freed while an operation "
		"was sending it\n");
	abort();
}

void own_acquire_in(const void *p, size_t len, size_t filled)
{
	(void)filled;
	if (!len)
		return;
#ifdef OWN_ASAN
	asan_acquire(p, len);
#endif
#ifdef OWN_TSAN
	__tsan_acquire((void *)p);
#endif
#ifdef WEIR_VALGRIND
	/* All of it: what was defined before a short read still is. */
	if (RUNNING_ON_VALGRIND) {
		valgrind_inspect(p, len);
		(void)VALGRIND_MAKE_MEM_DEFINED(p, len);
	}
#endif
	(void)p;
}

void own_use(const void *p, size_t len)
{
#ifdef WEIR_VALGRIND
	if (len && RUNNING_ON_VALGRIND) {
		valgrind_inspect(p, len);
		(void)VALGRIND_MAKE_MEM_UNDEFINED(p, len);
	}
#endif
	(void)p, (void)len;
}

void own_unuse(const void *p, size_t len)
{
#ifdef WEIR_VALGRIND
	if (len && RUNNING_ON_VALGRIND)
		valgrind_release(p, len);
#endif
	(void)p, (void)len;
}

void own_release(void *token)
{
#ifdef OWN_TSAN
	__tsan_release(token);
#endif
	(void)token;
}

void own_acquire(void *token)
{
#ifdef OWN_TSAN
	__tsan_acquire(token);
#endif
	(void)token;
}

#if !defined(OWN_ASAN) && !defined(OWN_TSAN)
atomic_int own_valgrind;

#ifdef WEIR_VALGRIND
/* Each tool ignores what is meant for another. */
static void ask(unsigned long request, const volatile void *p, size_t len)
{
	VALGRIND_DO_CLIENT_REQUEST_STMT(request, p, len, 0, 0, 0);
}

void own_tell_words(const volatile void *p, size_t len)
{
	ask(_VG_USERREQ__HG_ARANGE_MAKE_UNTRACKED, p, len);
	ask(VG_USERREQ__DRD_START_SUPPRESSION, p, len);
}

void own_tell_before(const volatile void *word)
{
	ask(_VG_USERREQ__HG_USERSO_SEND_PRE, word, 0);
	ask(VG_USERREQ__DRD_ANNOTATE_HAPPENS_BEFORE, word, 0);
}

void own_tell_after(const volatile void *word)
{
	ask(_VG_USERREQ__HG_USERSO_RECV_POST, word, 0);
	ask(VG_USERREQ__DRD_ANNOTATE_HAPPENS_AFTER, word, 0);
}
#endif
#endif

int own_on_valgrind(void)
{
#if defined(WEIR_VALGRIND) && !defined(OWN_ASAN) && !defined(OWN_TSAN)
	int known = RUNNING_ON_VALGRIND ? 2 : 1;

	if (known == 2)
		own_tell_words(&own_valgrind, sizeof(own_valgrind));
	atomic_store_explicit(&own_valgrind, known, memory_order_relaxed);
	return known == 2;
#else
	return 0;
#endif
}

#else
typedef int own_is_empty; /* ISO C requires a declaration in each file. */
#endif /* OWN_ANNOTATE */
