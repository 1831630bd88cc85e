#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The programs feel alike: --help has the options that the program takes, and no
# others, in groups, with examples and exit statuses; --version says the version; an
# option that there is not is refused in the same words; and the shells complete
# what --help has.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/check.sh"

programs='weir-cp weir-nbd weir-proxy weir-rdma weir-rping weir-ublk weir-vhost'
tmp=$(mktemp -d ./help.XXXXXX) || exit 1
trap 'rm -rf "$tmp"' EXIT

# Where the program $1 is.
path_of()
{
	case $1 in
	weir | weir-sim) echo "tools/$1" ;;
	*) echo "programs/$1/$1" ;;
	esac
}

# The long options in the help text of standard input.
in_help()
{
	sed -n 's/^  *\(-[A-Za-z], \)*\(--[a-z-]*\).*/\2/p' | sort -u
}

# The long options in the table of the source $1.
in_table()
{
	sed -n 's/^[[:space:]]*{ "\([a-z-]*\)", [a-z0-1_]*, NULL, .*/--\1/p' \
		"$dir/$1" | sort -u
}

# What is wrong with the text of --help in $tmp/help.
lacks()
{
	grep -q '^Usage: ' "$tmp/help" || echo 'no usage'
	grep -q '^Examples*:$' "$tmp/help" || echo 'no examples'
	grep -q '^Exit status: 0' "$tmp/help" || echo 'no exit status'
	[ "$(grep -c '^[A-Z].*:$' "$tmp/help")" -ge 2 ] || echo 'no groups'
	awk 'length > 79 { print "too long: " $0 }' "$tmp/help"
}

# The words that completion in bash offers for the rest of the arguments.
offers()
{
	# shellcheck disable=SC2016 # bash's.
	bash -c '. "$1" && shift && COMP_WORDS=("$@") &&
		COMP_CWORD=$(($# - 1)) && compopt() { :; } &&
		"_$(echo "$1" | tr - _)" && printf "%s\n" "${COMPREPLY[@]}"' \
		bash "programs/completion/bash/$1" "$@" | sed 's/=$//' | sort
}

# differ A B: lines that only one of the texts has.
differ()
{
	echo "$1" >"$tmp/a"
	echo "$2" >"$tmp/b"
	diff "$tmp/a" "$tmp/b"
}

for p in $programs; do
	[ -x "$(path_of "$p")" ] || continue
	"$(path_of "$p")" --help >"$tmp/help" 2>&1
	holds "$p --help is complete" "$(lacks)"
	holds "$p --help has the options that it takes" "$(
		differ "$(in_help <"$tmp/help")" \
			"$(in_table "programs/$p/options.c")")"
	said=$("$(path_of "$p")" --nothing 2>&1)
	holds "$p refuses other options as all do" "$(
		[ $? = 2 ] || echo 'not with 2'
		echo "$said" | grep -vxF "$p: --nothing: there is no such option; try '$p --help'")"
	holds "$p --version says the version" \
		"$("$(path_of "$p")" --version | grep -v "^$p [0-9.]*\$")"
	holds "bash completes $p" "$(
		differ "$(in_help <"$tmp/help")" "$(offers "$p" --)")"
done
for command in bench info route top trace; do
	tools/weir $command --help >"$tmp/help" 2>&1
	holds "weir $command --help is complete" \
		"$(lacks | grep -v 'no groups')"
	holds "weir $command --help has the options that it takes" "$(
		differ "$(in_help <"$tmp/help")" "$(in_table tools/$command.c)")"
	holds "bash completes weir $command" "$(
		differ "$(in_help <"$tmp/help")" "$(offers weir $command --)")"
done
tools/weir-sim --help >"$tmp/help" 2>&1
holds 'weir-sim --help is complete' "$(lacks)"
holds 'weir-sim --help has the options that it takes' "$(
	differ "$(in_help <"$tmp/help")" "$(in_table sim/runner.c)")"
holds 'bash completes weir-sim' "$(
	differ "$(in_help <"$tmp/help")" "$(offers weir-sim --)")"
holds 'bash completes the commands of weir' \
	"$(differ "$(printf '%s\n' info)" "$(offers weir i)")"
for shell in zsh fish; do
	if command -v $shell >/dev/null; then
		holds "$shell reads its completions" "$(
			for file in programs/completion/$shell/*; do
				$shell -n "$file" 2>&1
			done)"
	else
		skips "$shell reads its completions" "there is no $shell"
	fi
done
report
