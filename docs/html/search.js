/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows the rows of index.js, [name, address, text], that have all words asked for;
 * those whose names have them come first. */
(function () {
	const input = document.getElementById("search");
	const found = document.getElementById("found");
	const most = 60;

	function matches(row, words) {
		const text = (row[0] + " " + row[2]).toLowerCase();
		return words.every(w => text.includes(w));
	}

	function show() {
		const words = input.value.toLowerCase().split(/\s+/).filter(w => w);
		const rows = words.length ? pages.filter(r => matches(r, words)) : [];
		const named = r => words.every(w => r[0].toLowerCase().includes(w));

		rows.sort((a, b) => named(b) - named(a));
		found.replaceChildren(...rows.slice(0, most).map(row => {
			const item = document.createElement("li");
			const link = document.createElement("a");

			link.href = row[1];
			link.textContent = row[0];
			item.append(link, " " + row[2]);
			return item;
		}));
	}

	/* index.html#doca_mmap searches at once. */
	input.value = decodeURIComponent(location.hash.slice(1)) || input.value;
	input.addEventListener("input", show);
	show();
})();
