/* SPDX-License-Identifier: BSD-3-Clause */

/* Where one of programs/ is: see bench.h. */

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"

/* WEIR_NBD for weir-nbd: who sets it has another one in mind. */
static void variable_of(const char *name, char *to, size_t size)
{
	size_t i;

	for (i = 0; name[i] && i + 1 < size; i++)
		to[i] = name[i] == '-' ? '_' :
			(char)toupper((unsigned char)name[i]);
	to[i] = '\0';
}

/* The program itself, not libtool's script around it, which costs time. */
static bool is_built_shared(const char *name, char *path, size_t size)
{
	static char library[4096];

	snprintf(path, size, "programs/%s/.libs/%s", name, name);
	if (access(path, X_OK) || !getcwd(library, sizeof(library) - 8))
		return false;
	strcat(library, "/.libs");
	return !setenv("LD_LIBRARY_PATH", library, 1);
}

/* Beside the weir that runs us, as they are installed. */
static bool is_beside(const char *name, char *path, size_t size)
{
	const char *dir = getenv("WEIR_BIN_DIR");

	return dir && snprintf(path, size, "%s/%s", dir, name) < (int)size &&
	       !access(path, X_OK);
}

bool bench_find_example(const char *name)
{
	char variable[32], path[4096];
	const char *given;

	variable_of(name, variable, sizeof(variable));
	given = getenv(variable);
	if (given)
		return !access(given, X_OK);
	if (is_beside(name, path, sizeof(path)))
		return !setenv(variable, path, 1);
	if (!is_built_shared(name, path, sizeof(path)))
		snprintf(path, sizeof(path), "programs/%s/%s", name, name);
	if (!access(path, X_OK))
		return !setenv(variable, path, 1);
	return bench_has_program(name) && !setenv(variable, name, 1);
}

void bench_need_example(const char *name)
{
	char variable[32];

	if (bench_find_example(name))
		return;
	variable_of(name, variable, sizeof(variable));
	fprintf(stderr, "%s is neither beside weir nor in PATH nor in programs/"
		" here; %s can say where it is\n", name, variable);
	exit(1);
}

bool bench_has_program(const char *name)
{
	char command[96];

	snprintf(command, sizeof(command), "command -v %s >/dev/null 2>&1",
		 name);
	return !system(command);
}
