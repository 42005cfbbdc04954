# shellcheck shell=bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# For scripts that use packages: expect_links FOLDER: it has a README.md, and each relative link of the Markdown
# files in it leads to a file in it.
expect_links() {
	local top page link count=0 dead=0
	top=$(readlink -f "$1")
	[[ -f $top/README.md ]] || { printf 'no README.md in %s\n' "$top" >&2; exit 1; }
	while IFS=: read -r page link; do
		count=$((count + 1))
		link=${link#](} link=${link%%[)# ]*}
		case $link in
		'' | *://* | mailto:*) continue ;;
		esac
		[[ $(readlink -e "$(dirname "$page")/$link") == "$top"/* ]] && continue
		printf 'dead link: %s in %s\n' "$link" "$page" >&2
		dead=$((dead + 1))
	done < <(grep -roE --include='*.md' '\]\([^)]+\)' "$top")
	((count > 0)) || { printf 'no links in %s\n' "$top" >&2; exit 1; }
	((dead == 0)) || exit 1
	printf 'ok %d links in %s\n' "$count" "$top"
}
