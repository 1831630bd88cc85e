/* SPDX-License-Identifier: BSD-3-Clause */

/* The first line of a result: the machine, the version and the options; and what
 * a page and its pictures say of them. */

#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <weir/base.h>
#include <weir/group.h>

#include "bench.h"
#include "tools/commit.h"

/* Remove characters that JSON would escape. */
static void plain(char *text)
{
	for (; *text; text++)
		if (*text == '"' || *text == '\\' || *text < ' ')
			*text = ' ';
}

static void cpu_name(char *to, size_t size)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256], *colon;

	snprintf(to, size, "unknown");
	while (f && fgets(line, sizeof(line), f)) {
		colon = strchr(line, ':');
		if (strncmp(line, "model name", 10) || !colon)
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(to, size, "%s", colon + 2);
		break;
	}
	if (f)
		fclose(f);
	plain(to);
}

/* The library's count of usable CPUs, and the quota. */
static void allowed(char *to, size_t size)
{
	struct weir_group *group;

	snprintf(to, size, "unknown");
	if (weir_group_create(&group, NULL))
		return;
	if (!weir_group_start(group)) {
		snprintf(to, size, "%s", weir_group_describe(group));
		weir_group_stop(group);
		weir_group_run(group);
	}
	weir_group_destroy(group);
	plain(to);
}

const char *version_text(void)
{
	static char text[80];

	snprintf(text, sizeof(text), "%s%s", weir_version(), WEIR_COMMIT);
	return text;
}

void options_text(char *to, size_t size, const char *const *options)
{
	size_t at = 0;

	snprintf(to, size, "none");
	for (size_t i = 0; options[i] && at < size; i++)
		at += (size_t)snprintf(to + at, size - at, "%s%s",
				       i ? " " : "", options[i]);
	plain(to);
}

void write_machine(FILE *out, const char *const *options)
{
	time_t now = time(NULL);
	struct sysinfo info = { 0 };
	struct utsname name;
	char cpu[128], date[32], use[160], asked[OPTIONS_TEXT];

	uname(&name);
	sysinfo(&info);
	cpu_name(cpu, sizeof(cpu));
	allowed(use, sizeof(use));
	options_text(asked, sizeof(asked), options);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
	fprintf(out, "{\"machine\":\"%s\",\"cpu\":\"%s\",\"cpus\":\"%ld\","
		"\"of which\":\"%s\","
		"\"memory\":\"%llu MiB\",\"kernel\":\"%s %s\","
		"\"compiler\":\"%s\",\"date\":\"%s\",\"weir\":\"%s\","
		"\"options\":\"%s\"}\n", name.machine, cpu,
		sysconf(_SC_NPROCESSORS_ONLN), use,
		(unsigned long long)info.totalram * info.mem_unit >> 20,
		name.sysname, name.release, __VERSION__, date,
		version_text(), asked);
}

void machine_text(char to[MACHINE_TEXT], const struct result *r)
{
	snprintf(to, MACHINE_TEXT, "%s, %s CPUs, %s; weir %s, %.10s",
		 fact_of(r, "cpu"), fact_of(r, "cpus"), fact_of(r, "kernel"),
		 fact_of(r, "weir"), fact_of(r, "date"));
}
