# `make fuzz`: each parser of hostile input under clang's libFuzzer, for
# FUZZ_SECONDS, from a corpus that a small program begins.  What make check does
# with the same parsers is in their tests, short and always the same.
FUZZ_SECONDS = 60
fuzz_cflags = -std=gnu11 -g -O1 -DHAVE_CONFIG_H -include config.h -I. \
	-I$(top_srcdir)/include -I$(top_srcdir) $(LIBSODIUM_CFLAGS) \
	-pthread -fno-omit-frame-pointer -fsanitize=address,undefined \
	-fno-sanitize-recover=undefined

# All of base/, which the shell finds.
fuzz_descriptor_sources = \
	$(top_srcdir)/base/*.c \
	$(top_srcdir)/mem/descriptor-mac.c \
	$(top_srcdir)/mem/descriptor.c

fuzz: config.h
	@test -n '$(CLANG)' || { echo 'fuzzing wants clang' >&2; exit 1; }
	@$(MKDIR_P) %D%/corpus-descriptor
	$(CLANG) $(fuzz_cflags) -fsanitize=fuzzer -o %D%/fuzz-descriptor \
		$(srcdir)/%D%/fuzz-descriptor.c $(fuzz_descriptor_sources) \
		$(LIBSODIUM_LIBS)
	$(CLANG) $(fuzz_cflags) -o %D%/seed-descriptor \
		$(srcdir)/%D%/seed-descriptor.c $(fuzz_descriptor_sources) \
		$(LIBSODIUM_LIBS)
	%D%/seed-descriptor %D%/corpus-descriptor
	%D%/fuzz-descriptor -max_len=2048 -max_total_time=$(FUZZ_SECONDS) \
		-artifact_prefix=%D%/ -print_final_stats=1 \
		%D%/corpus-descriptor

.PHONY: fuzz

CLEANFILES += %D%/fuzz-descriptor %D%/seed-descriptor
EXTRA_DIST += \
	%D%/descriptor-kit.h \
	%D%/fuzz-descriptor.c \
	%D%/seed-descriptor.c
