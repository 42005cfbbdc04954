/* SPDX-License-Identifier: LGPL-2.1-or-later
 * The difference of two reports: groups that changed, threads that are stuck, processes that came
 * and went, functions. */

const SIGNS = { appeared: '+', grew: '\u2191', shrank: '\u2193', went: '\u2212' };
const threadsOf = (thousandths) => String(Math.round(thousandths) / 1000);

function diffGroup(row) {
	const group = groupOf(row, -1);

	group.runtime = row.runtime || '';
	return group;
}

function changeLine(row) {
	const group = diffGroup(row), frames = framesOf(group.stack);
	const own = frames.length ? frameOf(ownFrame(frames)).name : '(no stack)';
	const pids = row.pids.join(', ') + (row.process_count > row.pids.length ? ', \u2026' : '');
	const end = endText(group);

	return make('details', { class: 'group' }, make('summary', null,
		make('span', { class: 'change', 'data-change': row.change }, `${SIGNS[row.change]} ${row.change}`), ' ',
		make('span', { class: 'count' }, `${threadsOf(row.before)} \u2192 ${threadsOf(row.after)}`), ' ',
		make('b', null, row.process || '?'), ` [${pids}] `, make('span', { class: 'own' }, own), ' ',
		group.title && group.title !== own ? make('span', { class: 'title' }, `from ${group.title}`) : null),
		make('div', { class: 'body' }, labelList(group.labels), stackList(group),
		     end ? make('p', { class: 'note' }, `The stack ends here: ${end}.`) : null));
}

function changeMatches(row, word) {
	return !word || [row.process || '', text(row.title), ...labelPairs(row.labels).map((pair) => pair.join('=')),
		...framesOf(row.stack).flatMap((number) => { const frame = frameOf(number); return [frame.name, frame.file, baseName(frame.module)]; })]
		.some((value) => value.toLowerCase().includes(word));
}

function renderChanges(panel) {
	const word = view.search.trim().toLowerCase();
	const rows = data.changes.filter((row) => changeMatches(row, word));

	replace(panel, make('p', null, data.differs ? '' : 'Nothing changed. ', `${plural(data.unchanged, 'group')} did not change.`),
		lister(make('div'), rows, 200, changeLine));
}

// The groups that changed as a tree of calls, in which the states are the two times.
const flameOfChanges = {
	tree: () => {
		const word = view.search.trim().toLowerCase();

		return callTree(data.changes.filter((row) => changeMatches(row, word)).map((row) => ({
			group: diffGroup(row), weight: row.before + row.after,
			members: [{ state: 'before', weight: row.before }, { state: 'after', weight: row.after }],
		})), false);
	},
	words: ({ node }) => {
		const what = functions[node.fn];

		return `${what ? what.name : 'all that changed'}: ${threadsOf(node.states.get('before') || 0)} \u2192 ` +
			threadsOf(node.states.get('after') || 0) + (what && what.module ? `, in ${baseName(what.module)}` : '');
	},
	kind: ({ node }) => {
		const before = node.states.get('before') || 0, after = node.states.get('after') || 0;

		return after > before ? 'grew' : after < before ? 'shrank' : 'all';
	},
};

function renderStuck(panel) {
	replace(panel, data.stuck.length ? lister(make('ul'), data.stuck, 200, (row) => make('li', null,
		make('b', null, `${row.tid} ${row.name || ''}`), ` of ${row.process || '?'}[${row.pid}] `, text(row.wait), stackList(diffGroup(row))))
		: make('p', { class: 'note' }, 'No thread is stuck.'));
}

function renderProcesses(panel) {
	replace(panel, data.processes.length ? lister(make('ul'), data.processes, 500, (process) => make('li', null,
		make('span', { class: 'change', 'data-change': process.came ? 'appeared' : 'went' }, process.came ? '+ came' : '\u2212 went'), ' ',
		make('b', null, processName(process)), `[${process.pid}] `, process.title || '', ` ${plural(process.threads || 0, 'thread')}`))
		: make('p', { class: 'note' }, 'No process came or went.'));
}

function renderMoved(panel) {
	const share = (value) => `${(value / 1000).toFixed(1)} %`;
	const word = view.search.trim().toLowerCase();
	const rows = data.functions.map(([name, module, running, ...values]) => ({ name: text(name), module: text(module), running, values }))
		.filter(({ name }) => name.toLowerCase().includes(word))
		.map(({ name, module, running, values }) => {
			const [before, after] = values, by = after - before;

			return { values: [name, Math.abs(by), running, ...values],
				 cells: [[name, ' ', make('span', { class: 'place' }, baseName(module))], `${by > 0 ? '+' : ''}${share(by)}`,
					 running ? 'running' : 'waiting', ...values.map(share)] };
		});

	replace(panel, rows.length ? sortedTable('Shares of samples', ['function', 'moved by', 'of', 'before', 'after', 'itself before', 'itself after'], rows, 300)
		: make('p', { class: 'note' }, 'No function moved.'));
}
