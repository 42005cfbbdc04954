/* SPDX-License-Identifier: LGPL-2.1-or-later
 * What every part of the page uses: elements, numbers as text, and one way to tell of changes.
 * All text becomes text nodes: no string is ever read as markup. Knows nothing of reports. */

// An element with properties, "data" and "aria" attributes, listeners, and what is in it.
function make(tag, properties, ...children) {
	const element = document.createElement(tag);

	for (const [key, value] of Object.entries(properties || {})) {
		if (value === undefined || value === null || value === false)
			continue;
		if (key.startsWith('on'))
			element.addEventListener(key.slice(2), value);
		else if (key === 'class')
			element.className = value;
		else if (/^(aria-|data-)|^(role|for|scope|colspan|spellcheck)$/.test(key))
			element.setAttribute(key, value);
		else
			element[key] = value;
	}
	append(element, children);
	return element;
}

function append(element, children) {
	for (const child of children) {
		if (Array.isArray(child))
			append(element, child);
		else if (child !== undefined && child !== null && child !== '')
			element.append(child);
	}
}

function replace(element, ...children) {
	element.replaceChildren();
	append(element, children);
}

const plural = (count, one, many) => `${grouped(count)} ${count === 1 ? one : many || one + 's'}`;

// 12345 as "12,345".
function grouped(number) {
	return String(number).replace(/\B(?=(\d{3})+$)/g, ',');
}

function percent(part, whole) {
	return whole > 0 ? (100 * part / whole).toFixed(1) + ' %' : '0.0 %';
}

// Microseconds: "850 us", "7.4 ms", "1.25 s", "3 m 07 s".
function length(us) {
	if (us < 1000)
		return `${Math.round(us)} us`;
	if (us < 1e6)
		return `${(us / 1e3).toPrecision(3)} ms`;
	if (us < 120e6)
		return `${(us / 1e6).toFixed(2)} s`;
	return `${Math.floor(us / 60e6)} m ${String(Math.floor(us / 1e6) % 60).padStart(2, '0')} s`;
}

const baseName = (path) => path.slice(path.lastIndexOf('/') + 1) || path;

// Sorted numbers as "12-15, 20"; at most so many parts.
function ranges(numbers, most) {
	const parts = [];

	for (let i = 0, end; i < numbers.length && parts.length <= most; i = end + 1) {
		for (end = i; numbers[end + 1] === numbers[end] + 1;)
			end++;
		parts.push(end > i ? `${numbers[i]}-${numbers[end]}` : `${numbers[i]}`);
	}
	if (parts.length > most)
		parts[most] = '\u2026';
	return parts.join(', ');
}

// Calls that are on their way; while there are some the page says that it does not show yet what was asked for.
let expected = 0;

function expect(more) {
	expected += more;
	document.documentElement.toggleAttribute('data-busy', expected > 0);
}

// Calls back when nothing has come for so long.
function settled(milliseconds, call) {
	let timer = 0;

	return () => {
		clearTimeout(timer);
		expect(timer ? 0 : 1);
		timer = setTimeout(() => {
			timer = 0;
			call();
			expect(-1);
		}, milliseconds);
	};
}

// What unfolds, and is filled when it is opened: there may be much of it.
function unfolding(className, isOpen, head, body) {
	const element = make('details', { class: className, open: isOpen }, make('summary', null, head));
	const fill = () => {
		if (element.open && element.children.length === 1)
			append(element, [body()]);
	};

	element.addEventListener('toggle', fill);
	fill();
	return element;
}

async function copy(text, button) {
	const was = button.textContent;

	try {
		await navigator.clipboard.writeText(text);
		button.textContent = 'Copied';
	} catch (error) {
		button.textContent = 'Not allowed here';
	}
	setTimeout(() => { button.textContent = was; }, 1500);
}

// A list of which the first ones are shown, and more by a button.
function lister(element, items, most, show) {
	let at = 0;
	const more = make('button', { class: 'more', type: 'button', onclick: next });

	function next() {
		const focus = document.activeElement === more;
		const from = at;

		more.remove();
		for (; at < items.length && at < from + most; at++)
			element.append(show(items[at]));
		if (at < items.length) {
			more.textContent = `Show more (${grouped(items.length - at)} left)`;
			element.append(element.matches('ul, ol') ? make('li', null, more) : more);
			if (focus)
				more.focus();
		}
	}
	next();
	return element;
}

// The same of what has weights; those that read as 0.0 % of the whole are one row at the end.
function listOften(items, most, whole, show) {
	const isSeldom = ({ weight }) => whole > 0 && percent(weight, whole) === '0.0 %';
	const seldom = items.filter(isSeldom), list = lister(make('div'), seldom.length > 1 ? items.filter((item) => !isSeldom(item)) : items, most, show);

	return seldom.length < 2 ? list : make('div', null, list, unfolding('seldom', false,
		[make('span', { class: 'count' }, percent(weightOf(seldom), whole)), ` ${plural(seldom.length, 'other')}`],
		() => lister(make('div', { class: 'inner' }), seldom, most, show)));
}
