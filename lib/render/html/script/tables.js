/* SPDX-License-Identifier: LGPL-2.1-or-later
 * Tables: functions by state, what is waited for, what is missing. */

// Rows of cells under heads, each head a button that sorts by its column; numbers come first.
function sortedTable(caption, heads, rows, most) {
	const body = make('tbody');
	let by = 1, down = true;
	const headCells = heads.map((head, column) => make('th', { scope: 'col' },
		make('button', { type: 'button', onclick: () => {
			down = by === column ? !down : column > 0;
			by = column;
			fill();
		} }, head)));
	const fill = () => {
		const sorted = [...rows].sort((a, b) => {
			const order = a.values[by] < b.values[by] ? -1 : a.values[by] > b.values[by] ? 1 : 0;

			return down ? -order : order;
		});

		headCells.forEach((cell, column) => cell.setAttribute('aria-sort',
			column !== by ? 'none' : down ? 'descending' : 'ascending'));
		replace(body, sorted.slice(0, most).map((row) => make('tr', null, row.cells.map((cell, column) =>
			make('td', { class: column ? 'number' : 'function' }, cell)))));
	};

	fill();
	return make('div', { class: 'scroll', tabIndex: 0, role: 'region', 'aria-label': caption },
		    make('table', null, make('caption', null, caption),
			 make('thead', null, make('tr', null, headCells)), body),
		    rows.length > most ? make('p', { class: 'note' }, `The first ${most} of ${grouped(rows.length)}; search for others.`) : null);
}

// Of each function the weight of stacks that have it, by state, and of those that end in it.
function functionRows() {
	const rows = new Map();

	for (const { group, members, weight } of shownGroups()) {
		const frames = framesOf(group.stack), seen = new Set(frames.map((frame) => functionOfFrame[frame]));
		const states = statesOf(members);

		for (const fn of seen) {
			if (!rows.has(fn))
				rows.set(fn, { fn, all: 0, own: 0, states: new Map() });
			const row = rows.get(fn);

			row.all += weight;
			row.own += functionOfFrame[frames[0]] === fn ? weight : 0;
			addStates(row.states, states);
		}
	}
	return [...rows.values()];
}

function renderFunctions(panel) {
	const states = allStates().map(([state]) => state).filter((state) => !view.states || view.states.has(state)).slice(0, 6);
	const rows = functionRows().map(({ fn, all, own, states: weights }) => {
		const what = functions[fn], values = [what.name, all, own, ...states.map((state) => weights.get(state) || 0)];

		return { values, cells: [[make('span', { class: what.flags & (SYSTEM | KERNEL) ? 'system' : '' }, what.name), ' ',
					  make('span', { class: 'place' }, baseName(what.module))],
					 ...values.slice(1).map((value) => value ? grouped(value) : '')] };
	});

	replace(panel, sortedTable(isRecording ? 'Samples by function and state' : 'Threads by function and state',
				   ['function', 'all', 'itself', ...states], rows, 300));
}

/* ---- waits ---- */

function deadlockPart(deadlock) {
	const rest = deadlock.size - deadlock.threads.length;

	return make('section', { class: deadlock.certain ? 'deadlock' : 'deadlock possible' },
		    make('h2', null, deadlock.certain ? 'Deadlock' : deadlock.until ? 'Circle of waits' : 'Possible deadlock',
			 ` of ${plural(deadlock.size, 'thread')}`,
			 deadlock.behind ? `, ${grouped(deadlock.behind)} more wait behind` : '',
			 deadlock.until ? `, ${deadlock.until}` : ''),
		    make('ul', null, deadlock.threads.map((link) => make('li', null,
			make('b', null, `${link.tid} ${link.name || ''}`), ' ', [link.waits, link.held].filter((part) => part).join(', '),
			link.function ? make('span', { class: 'function' }, `  in ${link.function}`) : null, ' ',
			link.file ? make('span', { class: 'place' }, `${baseName(link.file)}${link.line ? `:${link.line}` : ''}`) : null))),
		    rest > 0 ? make('p', { class: 'note' }, `and ${grouped(rest)} more`) : null);
}

// What the text of a snapshot begins with, above all views; of a recording, what most time was waited for.
function standsOut() {
	const of = (process) => process && data.processes.length > 1 ? `${processName(process)}[${process.pid}] ` : '';
	const prefix = (pid) => of(data.processes.find((process) => process.pid === pid));
	const list = (title, items) => lister(make('div'), items, 5, (item) => make('p', null, make('b', null, title), ' ', item));
	const urgent = groups.filter((group) => !isRecording && group.urgency < 2).map((group) => ({ group, members: group.members, weight: group.members.length }));

	return make('section', { class: 'first', 'aria-label': 'What stands out' }, lister(make('div'), data.deadlocks || [], 3, deadlockPart),
		data.deadlocks_more ? make('p', { class: 'note' }, `and ${plural(data.deadlocks_more, 'more deadlock')}`) : null,
		list('Blocked', (data.blocked || []).map(({ pid, line }) => prefix(pid) + line)),
		list('Contended', (data.contended || []).map(({ pid, waiters, object }) => `${grouped(waiters)} \u00d7 ${prefix(pid)}${object}`)),
		list('Waited', (data.owed || []).slice(0, 3).map(({ process, us, threads, text, holders: [holder] }) =>
			`${length(us)} in ${plural(threads, 'thread')} for ${of(data.processes[process])}${text}` +
			(holder && holder.tid ? `, held by ${holder.tid} ${holder.name || ''}` : ''))),
		list('Runs', rowsOf(urgent).map(({ items: [{ group }], members, weight }) => [
			`${grouped(weight)} \u00d7 ${of(data.processes[group.process])}${memberNames(members)} `, stateChips(members), ' ',
			make('span', { class: 'own' }, ownName(group))])));
}

function waitedTable(caption, rows) {
	if (!rows || !rows.length)
		return null;
	return make('div', { class: 'scroll', tabIndex: 0, role: 'region', 'aria-label': caption }, make('table', null, make('caption', null, caption),
		make('thead', null, make('tr', null, ['waited for', 'time', 'longest', 'threads', 'who had it'].map((head) =>
			make('th', { scope: 'col' }, head)))),
		make('tbody', null, rows.map((row) => make('tr', null,
			make('td', { class: 'function' }, row.text, ' ', make('span', { class: 'place' },
				`${processName(data.processes[row.process])}[${data.processes[row.process].pid}]`)),
			make('td', { class: 'number' }, length(row.us)), make('td', { class: 'number' }, length(row.longest_us)),
			make('td', { class: 'number' }, grouped(row.threads)),
			make('td', null, row.holders.map((holder) => make('div', null,
				`${length(holder.us)} `, holder.function || holder.lack || '?', holder.tid ? ` (${holder.tid} ${holder.name || ''})` : '')),
			     row.unknown_us ? make('div', { class: 'note' }, `${length(row.unknown_us)} no known holder`) : null))))));
}

// What the threads that are looked at wait for, as their lines say.
function waitsByLine() {
	const rows = new Map();

	for (const { members } of shownGroups())
		for (const { wait, weight } of members)
			if (wait)
				rows.set(wait, (rows.get(wait) || 0) + weight);
	return [...rows].map(([wait, weight]) => ({ values: [wait, weight], cells: [wait, grouped(weight)] }));
}

function renderWaits(panel) {
	const lines = waitsByLine();
	const list = (title, items) => items.length ? [make('h2', null, title), make('ul', null, items.map((item) => make('li', null, item)))] : null;
	const parts = [
		waitedTable('Time by wait, for what another thread must provide (all of the recording)', data.owed),
		waitedTable('Time by wait, of threads without work (all of the recording)', data.idle),
		lines.length ? sortedTable('What threads wait for', ['wait', isRecording ? 'samples' : 'threads'], lines, 200) : null,
		list('Not known in full', data.waits_lack || []),
	];

	replace(panel, parts);
	if (!panel.children.length)
		replace(panel, make('p', { class: 'note' }, 'Nothing is known of waits.'));
}

/* ---- what is missing ---- */

function missingItems() {
	const items = [...data.missing];

	for (const process of data.kind === 'diff' ? [] : data.processes) {
		if (process.trouble)
			items.push(`${processName(process)}[${process.pid}]: ${process.because || process.trouble}`);
		if (process.missed)
			items.push(`${processName(process)}[${process.pid}]: ${plural(process.missed, 'thread')} missed`);
		for (const [name, version, tasks, shown, cut] of process.runtimes || [])
			if (cut)
				items.push(`${processName(process)}[${process.pid}]: of ${plural(tasks, 'task')} of ${name} ${version} ` +
					   `${grouped(shown)} are shown, the rest was cut (${cut})`);
	}
	for (const [message, pid, tid] of data.warnings)
		items.push(message + (tid ? ` (tid ${tid})` : pid ? ` (pid ${pid})` : ''));
	for (const lack of data.waits_lack || [])
		items.push(`waits are not known in full: ${lack}`);
	return items;
}

// Stacks that ended early, by how they did.
function endItems() {
	const ends = new Map();

	for (const group of groups) {
		const words = endText(group);

		if (words)
			ends.set(words, (ends.get(words) || 0) + weightOf(group.members));
	}
	return [...ends].sort((a, b) => b[1] - a[1]).map(([words, weight]) => `${weightText(weight)}: ${words}`);
}

function renderMissing(panel) {
	const missing = missingItems(), ends = endItems();

	replace(panel, make('h2', null, 'Missing'),
		missing.length ? lister(make('ul'), missing, 200, (item) => make('li', null, item))
			       : make('p', { class: 'note' }, 'Nothing that was looked for is missing.'),
		ends.length ? [make('h2', null, 'Stacks that are not whole, or in doubt'),
			       lister(make('ul'), ends, 200, (item) => make('li', null, item))] : null);
}
