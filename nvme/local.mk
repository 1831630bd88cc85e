# libweir-nvme: NVMe namespaces by passthrough.
libweir_nvme_la_SOURCES = \
	%D%/device.c \
	%D%/engine.c \
	%D%/nvme.h \
	%D%/queue.c \
	%D%/status.c
libweir_nvme_la_CFLAGS = $(AM_CFLAGS) $(LIBURING_CFLAGS)
libweir_nvme_la_LIBADD = libweir.la $(LIBURING_LIBS)
libweir_nvme_la_LDFLAGS = $(lib_ldflags) \
	-Wl,--version-script=$(srcdir)/weir-nvme.map
EXTRA_libweir_nvme_la_DEPENDENCIES = weir-nvme.map
EXTRA_DIST += %D%/README.md
