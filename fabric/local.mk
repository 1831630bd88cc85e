# libweir-fabric: peers that libfabric reaches.  It loads libfabric when it is needed;
# building takes the headers.
libweir_fabric_la_SOURCES = \
	%D%/device.c \
	%D%/engine.c \
	%D%/fabric.h \
	%D%/grant.c \
	%D%/library.c \
	%D%/library.h \
	%D%/link.c \
	%D%/port.c
libweir_fabric_la_CFLAGS = $(AM_CFLAGS) $(LIBFABRIC_CFLAGS)
libweir_fabric_la_LIBADD = libweir.la -ldl
libweir_fabric_la_LDFLAGS = $(lib_ldflags) \
	-Wl,--version-script=$(srcdir)/weir-fabric.map
EXTRA_libweir_fabric_la_DEPENDENCIES = weir-fabric.map
EXTRA_DIST += %D%/README.md
