# The installed commands.  They use public headers only.
bin_PROGRAMS += %D%/weir
%C%_weir_SOURCES = \
	%D%/find.c \
	%D%/info-json.c \
	%D%/info-text.c \
	%D%/info-unused.c \
	%D%/info.c \
	%D%/info.h \
	%D%/json.c \
	%D%/json.h \
	%D%/route-place.c \
	%D%/route.c \
	%D%/route.h \
	%D%/system.c \
	%D%/tool.h \
	%D%/weir.c
%C%_weir_LDADD = libweir.la
