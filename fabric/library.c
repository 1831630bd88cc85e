/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric is loaded when devices are first listed, not with the program: a
 * library of one of its providers installs handlers for SIGSEGV, SIGTERM and others
 * when it is loaded.  What the program has set is restored.
 */

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "fabric/library.h"

static struct fabric_library library;
static char missing[256];	/* "": it is there. */
static bool simulated;

static int find(void *handle)
{
	static const struct {
		const char *symbol;
		void **at;
	} functions[] = {
		{ "fi_version", (void **)&library.version },
		{ "fi_getinfo", (void **)&library.getinfo },
		{ "fi_freeinfo", (void **)&library.freeinfo },
		{ "fi_dupinfo", (void **)&library.dupinfo },
		{ "fi_fabric", (void **)&library.fabric },
		{ "fi_strerror", (void **)&library.error },
	};
	size_t i;

	for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		*functions[i].at = dlsym(handle, functions[i].symbol);
		if (!*functions[i].at) {
			snprintf(missing, sizeof(missing), "libfabric has no %s",
				 functions[i].symbol);
			return -1;
		}
	}
	simulated = dlsym(handle, "weir_sim_fabric");
	if (FI_VERSION_GE(library.version(), FABRIC_API))
		return 0;
	snprintf(missing, sizeof(missing), "libfabric is %u.%u: install 1.17 or "
		 "newer", FI_MAJOR(library.version()),
		 FI_MINOR(library.version()));
	return -1;
}

static void open_library(void)
{
	const char *name = getenv("WEIR_FABRIC_LIBRARY");
	struct fi_info *info = NULL;
	void *handle;

	if (!name || !*name)
		name = "libfabric.so.1";
	handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		snprintf(missing, sizeof(missing), "%.100s cannot be loaded: "
			 "install libfabric (Debian: libfabric1)", name);
		return;
	}
	if (find(handle))
		dlclose(handle);
	/* Its providers begin, and load what they need, in the first call. */
	else if (!library.getinfo(FABRIC_API, NULL, NULL, 0, NULL, &info))
		library.freeinfo(info);
}

static void load(void)
{
	static const int signals[] = { SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP,
				       SIGABRT, SIGBUS, SIGFPE, SIGUSR1,
				       SIGSEGV, SIGUSR2, SIGPIPE, SIGALRM,
				       SIGTERM, SIGCHLD };
	enum { SIGNALS = sizeof(signals) / sizeof(signals[0]) };
	struct sigaction before[SIGNALS];
	int i;

	for (i = 0; i < SIGNALS; i++)
		sigaction(signals[i], NULL, &before[i]);
	open_library();
	for (i = 0; i < SIGNALS; i++)
		sigaction(signals[i], &before[i], NULL);
}

const struct fabric_library *fabric_library(const char **why)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	if (!*missing)
		return &library;
	*why = missing;
	return NULL;
}

bool fabric_library_is_simulated(void)
{
	const char *name = getenv("WEIR_FABRIC_LIBRARY"), *why;

	/* Loading takes long, and the usual one is not. */
	return name && *name && fabric_library(&why) && simulated;
}

int fabric_errno(long err)
{
	if (err < 0)
		err = -err;
	switch (err) {
	case FI_SUCCESS:
		return 0;
	case FI_ENOAV:
	case FI_EADDRNOTAVAIL:
		return -EADDRNOTAVAIL;
	case FI_ETOOSMALL:
		return -EMSGSIZE;
	case FI_ENOKEY:
	case FI_EACCES:
		return -EACCES;
	case FI_EAVAIL:
	case FI_EOTHER:
	case FI_EOVERRUN:
		return -EIO;
	default:
		return err < FI_ERRNO_OFFSET ? (int)-err : -EIO;
	}
}

const char *fabric_error(long err)
{
	return library.error((int)(err < 0 ? -err : err));
}
