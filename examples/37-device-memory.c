/* SPDX-License-Identifier: CC0-1.0 */

/*
 * Memory of a device, which has no address in this process.  "soft-dm" is such a
 * device in software, with the limits of real ones; name a network card to use
 * that.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weir/device.h>
#include <weir/dm.h>
#include <weir/mmap.h>

static int failed;

static void expect(const char *what, int good)
{
	printf("%s: %s\n", what, good ? "yes" : "NO");
	failed |= !good;
}

/* Another handle of the memory, as another process can have it. */
static int read_elsewhere(struct weir_device *dev, struct weir_dm *dm)
{
	struct weir_dm_token token = { .size = sizeof(token) };
	struct weir_dm *other;
	char text[8] = "";
	int err = weir_dm_export(dm, &token);

	if (err)
		return err;
	err = weir_dm_import(&other, dev, &token);
	if (token.fd >= 0)
		close(token.fd);
	if (err)
		return err;
	err = weir_dm_copy_from(text, other, 64, sizeof(text));
	expect("an imported handle has the bytes", !strcmp(text, "in dm.."));
	return err ? err : weir_dm_free(other);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "soft-dm";
	struct weir_device *dev;
	struct weir_mmap *mmap;
	struct weir_dm *dm;
	int err;

	err = weir_device_open_name(&dev, name);
	if (!err)
		err = weir_dm_alloc(&dm, dev, 4096, 0);
	if (err)
		return fprintf(stderr, "37-device-memory: %s\n", weir_why()), 1;
	err = weir_dm_copy_to(dm, 64, "in dm..", 8);
	expect("8 bytes were copied to offset 64", !err);
	expect("3 bytes are refused: no multiple of 4",
	       weir_dm_copy_to(dm, 0, "abc", 3) == -EINVAL);
	err = read_elsewhere(dev, dm);
	if (err)
		return fprintf(stderr, "37-device-memory: %s\n", weir_why()), 1;

	/* As the range of an mmap, for jobs of the device. */
	err = weir_mmap_create(&mmap, NULL);
	if (!err)
		err = weir_mmap_set_dm(mmap, dm, 0, weir_dm_len(dm));
	expect("it is the range of an mmap", !err);
	expect("which keeps it", weir_dm_free(dm) == -EBUSY);
	err = weir_mmap_destroy(mmap) || weir_dm_free(dm) ||
	      weir_device_close(dev);
	return failed || err;
}
