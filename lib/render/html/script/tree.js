/* SPDX-License-Identifier: LGPL-2.1-or-later
 * The tree of processes, each with its groups, which fold. */

const opened = new Set(); // keys of groups that are open
const shut = new Set();   // processes that are folded
const DEEPEST = 24;       // levels that are indented

// "worker-*" of worker-1 and worker-2; the first names and how many more there are.
function memberNames(members) {
	const patterns = new Map();

	for (const member of members) {
		const pattern = member.name.replace(/\d+/g, '*');

		if (!patterns.has(pattern))
			patterns.set(pattern, new Set());
		patterns.get(pattern).add(member.name);
	}
	const names = [...patterns].map(([pattern, all]) => all.size > 1 ? pattern : [...all][0]).filter((n) => n);

	return names.slice(0, 3).join(', ') + (names.length > 3 ? ` and ${names.length - 3} more` : '');
}

function stateChips(members) {
	const sorted = [...statesOf(members)].sort((a, b) => b[1] - a[1]);
	const whole = weightOf(members);

	return sorted.slice(0, 4).map(([state, weight]) =>
		make('span', { class: 'state', 'data-state': state },
		     sorted.length > 1 ? `${state} ${isRecording ? percent(weight, whole) : weight}` : state));
}

function tidText(group, members) {
	if (group.runtime)
		return '';
	const tids = [...new Set(members.map((member) => member.tid))].sort((a, b) => a - b);

	return tids.length === 1 ? `tid ${tids[0]}` : `tids ${ranges(tids, 3)}`;
}

const ownName = (group) => group.stack ? frameOf(ownFrame(framesOf(group.stack))).name : '(no stack)';

// What all of them wait for.
function commonWait(members) {
	return members.length && members.every(({ wait }) => wait === members[0].wait) ? members[0].wait : '';
}

// Groups that read alike are one row: their stacks differ in what it does not show.
function rowsOf(shown) {
	const rows = new Map();

	for (const { group, members, weight } of shown) {
		const names = members.map((member) => member.name.replace(/\d+/g, '*'));
		const key = [ownName(group), group.title, group.runtime, commonWait(members), ...new Set(names), ...statesOf(members).keys()].join('\n');
		const row = rows.get(key) || { items: [], members: [], weight: 0 };

		row.items.push({ group, members, weight });
		members.forEach((member) => row.members.push(member));
		row.weight += weight;
		rows.set(key, row);
	}
	return [...rows.values()];
}

function groupLine({ items, members, weight }, whole) {
	const { group } = items[0], own = ownName(group), several = items.length > 1;
	const key = several ? `${group.key} and others` : group.key;
	const count = isRecording ? percent(weight, whole) : `${grouped(weight)} \u00d7`;
	const element = unfolding('group', opened.has(key), [
		make('span', { class: 'count' }, count), ' ',
		make('b', null, memberNames(members) || group.runtime || '?'), ' ', stateChips(members), ' ',
		make('span', { class: 'own' }, own), ' ',
		group.title && group.title !== own ? make('span', { class: 'title' }, `from ${group.title}`) : null, ' ',
		make('span', { class: 'waits' }, commonWait(members)), ' ',
		make('span', { class: 'tids' }, several ? `in ${plural(items.length, 'stack')}` : tidText(group, members))],
		() => several ? lister(make('div', { class: 'inner' }), items, 100, (item) => groupLine({ ...item, items: [item] }, whole))
			: groupBody(items[0]));

	element.firstChild.title = weightText(weight, group.runtime ? 'task' : 'thread');
	element.addEventListener('toggle', () => opened[element.open ? 'add' : 'delete'](key));
	return element;
}

const processFacts = (process) => [
	process.title && process.title !== process.name ? process.title : '',
	process.user ? `user ${process.user}` : '', process.up ? `up ${process.up}` : '',
	process.unit || '', process.container ? `container ${process.container.slice(0, 12)}` : '',
	process.stopped ? `stopped ${process.stopped}` : '',
	process.ended ? 'ended meanwhile' : '', process.execed ? 'went on as another program' : '',
	...(process.runtimes || []).map(([name, version, tasks]) =>
		`${name} ${version}${tasks ? `, ${plural(tasks, 'task')}` : ''}`),
].filter((fact) => fact);

function processHead(process, below) {
	const counted = below.weight ? weightText(below.weight) : plural(process.threads || 0, 'thread');

	return make('summary', null, make('b', { class: 'process' }, processName(process)), `[${process.pid}] `,
		    process.type !== 'normal' ? make('span', { class: 'mark' }, process.type) : null, ' ',
		    make('span', { class: 'count' }, counted), ' ',
		    process.trouble ? make('span', { class: 'trouble' }, process.because || process.trouble) : null);
}

// Titles of the tree that labels of tasks describe, with their groups.
function logicalPart(process, number, byLogical) {
	return (process.logical || []).map((logical) => {
		const own = byLogical.get(`${number}/${logical.number}`);

		if (!own)
			return null;
		const part = make('section', { class: 'logical' },
				  make('h3', null, text(logical.name) || text(logical.id) || '(unassociated)', ' ',
				       make('span', { class: 'mark' }, logical.type)),
				  labelList(labelPairs(logical.labels)));

		part.style.marginInlineStart = `${Math.min(logical.depth || 0, DEEPEST)}em`;
		return lister(part, rowsOf(own), 100, (row) => groupLine(row, 0));
	});
}

// Of each process: its own groups, those of its logical ones, and what is below it.
function arrange(shown) {
	const own = new Map(), byLogical = new Map();
	const below = data.processes.map(() => ({ weight: 0, matches: false }));

	for (const item of shown) {
		const { process, logical } = item.group;
		const key = logical ? `${process}/${logical.number}` : process;
		const list = logical ? byLogical : own;

		if (!list.has(key))
			list.set(key, []);
		list.get(key).push(item);
		below[process].weight += item.weight;
		below[process].matches = true;
	}
	// Who is above comes first, so from the last one up.
	for (let i = data.processes.length - 1; i >= 0; i--) {
		const above = data.processes[i].above;

		if (above !== undefined && above < i && below[i].matches)
			below[above].matches = true;
	}
	return { own, byLogical, below };
}

function renderTree(panel) {
	const shown = shownGroups(), { own, byLogical, below } = arrange(shown);
	const whole = shown.reduce((sum, item) => sum + item.weight, 0);
	const filtered = view.search.trim() || view.states || view.process >= 0;
	const places = [], depths = [];
	const root = make('div', { class: 'tree' });
	let count = 0;

	data.processes.forEach((process, number) => {
		const above = process.above !== undefined && process.above < number ? process.above : -1;

		depths[number] = above >= 0 ? depths[above] + 1 : 0;
		if (filtered && !below[number].matches)
			return;
		const element = make('details', { class: 'node', open: !shut.has(number) },
				     processHead(process, below[number]));
		const facts = processFacts(process);

		if (facts.length)
			element.append(make('p', { class: 'facts' }, facts.join(' \u00b7 ')));
		append(element, [labelList(labelPairs(process.labels))]);
		if (process.exe)
			element.title = process.exe;
		element.append(listOften(rowsOf(own.get(number) || []), 100, isRecording ? whole : 0, (row) => groupLine(row, whole)));
		append(element, logicalPart(process, number, byLogical));
		element.addEventListener('toggle', (event) => {
			if (event.target === element)
				shut[element.open ? 'delete' : 'add'](number);
		});
		(depths[number] <= DEEPEST && places[above] || places[above]?.parentElement || root).append(element);
		places[number] = element;
		count++;
	});
	replace(panel, count ? root : make('p', { class: 'note' }, 'Nothing is like that.'));
}
