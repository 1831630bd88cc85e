/* SPDX-License-Identifier: BSD-3-Clause */
/* The MAC of a descriptor: libsodium's keyed BLAKE2b, or none to be had. */

#include "mem/export/descriptor.h"

#include <errno.h>
#ifdef HAVE_LIBSODIUM
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

int descriptor_mac(uint8_t mac[DESCRIPTOR_MAC_LEN], const void *p, size_t len,
		   const void *key, size_t key_len, const char *call)
{
	crypto_generichash_state state;
	int err = check_key(key_len, call);

	if (err)
		return err;
	if (fault("sodium_init") || sodium_init() < 0)
		return why(-EOPNOTSUPP, "%s: libsodium cannot be used here",
			   call);
	crypto_generichash_init(&state, key, key_len, DESCRIPTOR_MAC_LEN);
	crypto_generichash_update(&state, purpose, sizeof(purpose));
	crypto_generichash_update(&state, p, len);
	crypto_generichash_final(&state, mac, DESCRIPTOR_MAC_LEN);
	sodium_memzero(&state, sizeof(state));
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
