/* SPDX-License-Identifier: LGPL-2.1-or-later
 * The tree of calls as a flame graph, its root at the top: a click, or Enter, zooms. Boxes that
 * would be too narrow to see are left out, so there are never many. */

const BOX_HEIGHT = 20, MOST_BOXES = 4000, NARROWEST = 0.0015;
let flamePath = []; // functions that were zoomed into, from the root

// As far as the functions are there, in what is looked at now.
function shortenPath(tree) {
	let node = tree, levels = 0;

	while (levels < flamePath.length && node.below.has(flamePath[levels]))
		node = node.below.get(flamePath[levels++]);
	flamePath = flamePath.slice(0, levels);
}

// The functions that lead to a box.
function pathOf(box) {
	const path = [];

	for (let at = box; at.above; at = at.above)
		path.unshift(at.node.fn);
	return path;
}

// Boxes with their place: left and width as parts of the whole.
function flameBoxes(tree) {
	const boxes = [{ node: tree, left: 0, width: 1, level: 0, above: null }];

	for (const fn of flamePath) {
		const above = boxes[boxes.length - 1];

		boxes.push({ node: above.node.below.get(fn), left: 0, width: 1, level: boxes.length, above });
	}
	// Level by level, so that what is left out is what is deepest.
	for (let i = boxes.length - 1; i < boxes.length && boxes.length < MOST_BOXES; i++) {
		const box = boxes[i];
		let left = box.left;

		for (const next of below(box.node)) {
			const width = box.width * next.weight / box.node.weight;

			if (width >= NARROWEST)
				boxes.push({ node: next, left, width, level: box.level + 1, above: box });
			left += width;
		}
	}
	return boxes;
}

function boxWords(box, whole) {
	const { node } = box, what = functions[node.fn];
	const states = [...node.states].sort((a, b) => b[1] - a[1]).slice(0, 4)
		.map(([state, weight]) => `${state} ${percent(weight, node.weight)}`).join(', ');

	if (!what)
		return `all: ${weightText(node.weight)} (${states})`;
	return `${what.name}: ${percent(node.weight, whole)}, ${weightText(node.weight)}` +
		(node.own ? `, itself ${percent(node.own, whole)}` : '') +
		(what.module ? `, in ${baseName(what.module)}` : '') + ` (${states})`;
}

// What is drawn: the tree of what is looked at, the words of a box, and its kind of colour.
const flameOfGroups = {
	tree: () => callTree(shownGroups(), false),
	words: boxWords,
	kind: ({ node }) => {
		const what = functions[node.fn];

		return !what ? 'all' : what.flags & KERNEL ? 'kernel' : what.flags & SYSTEM ? 'system' : what.language || 'own';
	},
};

function hue(name) {
	let hash = 0;

	for (let i = 0; i < name.length && i < 200; i++)
		hash = hash * 31 + name.charCodeAt(i) | 0;
	return 10 + Math.abs(hash) % 50;
}

function boxElement(box, number, whole, zoomed, source) {
	const what = functions[box.node.fn];
	const element = make('div', { class: 'box', id: `box-${number}`, role: 'treeitem', 'data-kind': source.kind(box),
				      'aria-level': String(box.level + 1), 'aria-selected': 'false',
				      'aria-label': source.words(box, whole) }, what ? what.name : 'all');

	element.style.left = `${100 * box.left}%`;
	element.style.width = `${100 * box.width}%`;
	element.style.top = `${box.level * BOX_HEIGHT}px`;
	element.style.setProperty('--hue', what ? String(hue(what.name)) : '40');
	if (box.level < zoomed)
		element.classList.add('above');
	return element;
}

// The box that an arrow leads to.
function nextBox(boxes, at, key) {
	const box = boxes[at];

	if (key === 'ArrowUp')
		return box.above ? boxes.indexOf(box.above) : at;
	if (key === 'ArrowDown')
		return Math.max(at, boxes.findIndex((other) => other.above === box));
	const beside = boxes.map((other, number) => [other, number])
		.filter(([other]) => other.level === box.level).sort((a, b) => a[0].left - b[0].left);
	const place = beside.findIndex(([other]) => other === box) + (key === 'ArrowLeft' ? -1 : 1);

	return beside[place] ? beside[place][1] : at;
}

function renderFlame(panel, source = flameOfGroups, keepsFocus = false) {
	const tree = source.tree();

	if (!tree.weight) {
		replace(panel, make('p', { class: 'note' }, 'Nothing is like that.'));
		return;
	}
	shortenPath(tree);
	const boxes = flameBoxes(tree), zoomed = flamePath.length;
	const status = make('p', { class: 'status', 'aria-live': 'polite' });
	const graph = make('div', { class: 'flame', role: 'tree', tabIndex: 0,
				    'aria-label': 'Flame graph: arrows move, Enter zooms, Escape zooms out' });
	let at = Math.min(zoomed, boxes.length - 1);
	const elements = boxes.map((box, number) => boxElement(box, number, tree.weight, zoomed, source));
	const zoom = (path) => { flamePath = path; renderFlame(panel, source, true); };
	const select = (number) => {
		elements[at].setAttribute('aria-selected', 'false');
		at = number;
		elements[at].setAttribute('aria-selected', 'true');
		graph.setAttribute('aria-activedescendant', elements[at].id);
		status.textContent = source.words(boxes[at], tree.weight);
	};

	graph.style.height = `${(1 + boxes.reduce((most, box) => Math.max(most, box.level), 0)) * BOX_HEIGHT}px`;
	append(graph, elements);
	const numberOf = (event) => elements.indexOf(event.target.closest('.box'));
	graph.addEventListener('click', (event) => numberOf(event) >= 0 && zoom(pathOf(boxes[numberOf(event)])));
	graph.addEventListener('mouseover', (event) => numberOf(event) >= 0 && select(numberOf(event)));
	graph.addEventListener('keydown', (event) => {
		if (event.key.startsWith('Arrow'))
			select(nextBox(boxes, at, event.key));
		else if (event.key === 'Enter' || event.key === ' ')
			zoom(pathOf(boxes[at]));
		else if (event.key === 'Escape')
			zoom(flamePath.slice(0, -1));
		else
			return;
		event.preventDefault();
	});
	select(at);
	replace(panel, make('p', null, make('button', { type: 'button', disabled: !zoomed, onclick: () => zoom([]) }, 'Show all'), ' ',
			    make('span', { class: 'note' }, 'A click or Enter zooms, arrows move, Escape zooms out.')),
		status, graph);
	if (keepsFocus)
		graph.focus();
}
