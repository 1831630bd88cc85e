/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BASE_PROVIDER_H
#define WEIR_BASE_PROVIDER_H

/*
 * What the libraries above the core (accel/, sim/) call of it, beside the public
 * headers: a declaration with this mark is exported, and tests/private.txt lists
 * it with its reason.  Its symbol has "weir__" in
 * front, so that no name of a program's can take its place, and the version
 * WEIR_PRIVATE: it may change with each release, and all libraries of a release
 * are installed together.
 */
#define PROVIDER_API(name) \
	__asm__("weir__" #name) __attribute__((visibility("default")))

#endif /* WEIR_BASE_PROVIDER_H */
