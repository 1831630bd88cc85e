# Examples use public headers only, and are nobody's property: CC0.
noinst_PROGRAMS += \
	%D%/hello

%C%_hello_LDADD = libweir.la

EXTRA_DIST += %D%/LICENSE
