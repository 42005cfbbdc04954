/* SPDX-License-Identifier: LGPL-2.1-or-later
 * All stacks that are looked at as one tree of calls, from the roots or from the innermost
 * functions, and that tree as a list that unfolds. */

// A node: a function, the weight of all stacks that go through it, and of those that end there.
function callTree(shown, reverse) {
	const root = { fn: -1, weight: 0, own: 0, below: new Map(), states: new Map() };

	for (const { group, members, weight } of shown) {
		const frames = framesOf(group.stack), states = statesOf(members);
		let node = root;

		root.weight += weight;
		addStates(root.states, states);
		for (let i = 0; i < frames.length; i++) {
			const fn = functionOfFrame[frames[reverse ? i : frames.length - 1 - i]];
			let next = node.below.get(fn);

			if (!next) {
				next = { fn, weight: 0, own: 0, below: new Map(), states: new Map() };
				node.below.set(fn, next);
			}
			node = next;
			node.weight += weight;
			addStates(node.states, states);
		}
		node.own += weight;
	}
	return root;
}

const below = (node) => [...node.below.values()].sort((a, b) => b.weight - a.weight || a.fn - b.fn);

// The function of a node and those that alone follow it: one line each, without a level.
function runOf(node) {
	const run = [node];

	for (let next = node; next.below.size === 1 && !next.own;) {
		[next] = next.below.values();
		run.push(next);
	}
	return run;
}

function callLine(node, whole) {
	const what = functions[node.fn];
	const system = what.flags & (SYSTEM | KERNEL) ? ' system' : '';

	return [make('span', { class: 'count' }, percent(node.weight, whole)), ' ',
		make('span', { class: 'function' + system }, what.name), ' ',
		node.own ? make('span', { class: 'mark' }, `itself ${percent(node.own, whole)}`) : null, ' ',
		make('span', { class: 'place' }, baseName(what.module))];
}

function callPart(first, whole, level) {
	const run = runOf(first), last = run[run.length - 1];
	const lines = run.map((node) => make('div', { class: 'call' }, callLine(node, whole)));
	const [head, ...rest] = lines;

	if (!last.below.size && !rest.length)
		return make('div', { class: 'leaf' }, head);
	// What nearly all goes through is open; far down levels are no longer indented.
	const element = unfolding('calls', first.weight >= whole / 4 && level < 12, [...head.childNodes], () => [rest,
		make('div', { class: level < 40 ? 'inner' : '' }, listOften(below(last), 50, whole, (node) => callPart(node, whole, level + 1)))]);

	element.firstChild.title = weightText(first.weight);
	return element;
}

let isReversed = false;

function renderCalls(panel) {
	const shown = shownGroups(), tree = callTree(shown, isReversed);
	const turn = make('label', { class: 'choice' },
			  make('input', { type: 'checkbox', checked: isReversed,
					  onchange: (event) => { isReversed = event.target.checked; renderCalls(panel); } }),
			  ' from the innermost functions');

	replace(panel, make('p', null, turn, ' ', make('span', { class: 'note' }, weightText(tree.weight))),
		listOften(below(tree), 50, tree.weight, (node) => callPart(node, tree.weight, 0)),
		tree.own ? make('p', { class: 'note' }, `${weightText(tree.own)} without a stack`) : null);
}
