/* SPDX-License-Identifier: BSD-3-Clause */
/* The MAC of a descriptor: libsodium's keyed BLAKE2b, or none to be had. */

#include "mem/export/descriptor.h"

#include <errno.h>
#ifdef HAVE_LIBSODIUM
#include <dlfcn.h>
#include <pthread.h>
#include <sodium.h>
#endif

#include "base/fault.h"
#include "base/why.h"

static int check_key(size_t key_len, const char *call)
{
	if (key_len >= DESCRIPTOR_KEY_MIN && key_len <= DESCRIPTOR_KEY_MAX)
		return 0;
	return why(-EINVAL, "%s: the key has %zu bytes; it must have %d to %d",
		   call, key_len, DESCRIPTOR_KEY_MIN, DESCRIPTOR_KEY_MAX);
}

#ifdef HAVE_LIBSODIUM

/* So that a MAC for this is one for nothing else under the same key. */
static const unsigned char purpose[] = "weir export descriptor 1";

/* What is used of libsodium. */
static struct {
	__typeof__(sodium_init) *init;
	__typeof__(crypto_generichash_init) *hash_init;
	__typeof__(crypto_generichash_update) *hash_update;
	__typeof__(crypto_generichash_final) *hash_final;
	__typeof__(sodium_memzero) *zero;
} sodium;

/*
 * The shared library loads libsodium when a key is first used: few programs have
 * one, and each would start more slowly.  The static one has it linked in.
 */
#ifdef PIC
#define SYMBOL(member, name) (sodium.member = dlsym(lib, #name))

static void load(void)
{
	void *lib = dlopen(LIBSODIUM_SONAME, RTLD_NOW | RTLD_LOCAL);

	if (lib && SYMBOL(hash_init, crypto_generichash_init) &&
	    SYMBOL(hash_update, crypto_generichash_update) &&
	    SYMBOL(hash_final, crypto_generichash_final) &&
	    SYMBOL(zero, sodium_memzero))
		SYMBOL(init, sodium_init);
}
#else
static void load(void)
{
	sodium.init = sodium_init;
	sodium.hash_init = crypto_generichash_init;
	sodium.hash_update = crypto_generichash_update;
	sodium.hash_final = crypto_generichash_final;
	sodium.zero = sodium_memzero;
}
#endif

int descriptor_mac(uint8_t mac[DESCRIPTOR_MAC_LEN], const void *p, size_t len,
		   const void *key, size_t key_len, const char *call)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	crypto_generichash_state state;
	int err = check_key(key_len, call);

	if (err)
		return err;
	pthread_once(&once, load);
	if (fault("sodium_init") || !sodium.init || sodium.init() < 0)
		return why(-EOPNOTSUPP, "%s: libsodium cannot be used here; "
			   "install it (libsodium23) for keys", call);
	sodium.hash_init(&state, key, key_len, DESCRIPTOR_MAC_LEN);
	sodium.hash_update(&state, purpose, sizeof(purpose));
	sodium.hash_update(&state, p, len);
	sodium.hash_final(&state, mac, DESCRIPTOR_MAC_LEN);
	sodium.zero(&state, sizeof(state));
	return 0;
}

#else

int descriptor_mac(uint8_t mac[DESCRIPTOR_MAC_LEN], const void *p, size_t len,
		   const void *key, size_t key_len, const char *call)
{
	int err = check_key(key_len, call);

	(void)mac, (void)p, (void)len, (void)key;
	if (err)
		return err;
	return why(-EOPNOTSUPP, "%s: this build has no libsodium, so there are "
		   "no keys; configure it with libsodium-dev installed", call);
}

#endif
