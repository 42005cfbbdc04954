/* SPDX-License-Identifier: LGPL-2.1-or-later
 * One group in full: its stack, what its threads wait for, who they are. */

const ENDS = {
	limit: 'the stack was cut here', no_cfi: 'no unwind information', unreadable: 'memory that was not there',
	cycle: 'the stack leads back to itself', not_stopped: 'the thread could not be stopped',
	failed: 'it could not be unwound', scanned: 'some frames were found by scanning the stack',
	guessed: 'some frames were found by frame pointers',
};

function endText(group) {
	const word = data.ends[group.end];

	if (!ENDS[word])
		return '';
	return ENDS[word] + (group.why ? `: ${group.why}` : '');
}

function frameLine(number) {
	const frame = frameOf(number), where = place(frame), classes = ['frame'];
	const marks = [];

	if (frame.flags & (SYSTEM | KERNEL))
		classes.push('system');
	if (frame.flags & INLINED)
		marks.push(make('abbr', { class: 'mark', title: 'inlined into the next one' }, 'inlined'));
	if (frame.flags & GUESSED)
		marks.push(make('abbr', { class: 'mark', title: 'found without unwind information, or from such a frame' }, 'guessed'));
	if (frame.flags & KERNEL)
		marks.push(make('span', { class: 'mark' }, 'kernel'));
	if (frame.language)
		marks.push(make('span', { class: 'mark' }, frame.language));
	return make('li', { class: classes.join(' ') },
		    make('span', { class: 'function' }, frame.name, ' '), marks,
		    make('span', { class: 'place' }, where === frame.module ? baseName(where) : where));
}

function stackAsText(group) {
	return framesOf(group.stack).map((number) => {
		const frame = frameOf(number), where = place(frame);

		return frame.name + (where ? `  ${where}` : '');
	}).join('\n') + '\n';
}

function stackList(group) {
	const frames = framesOf(group.stack);

	if (!frames.length)
		return make('p', { class: 'note' }, 'No stack.');
	return lister(make('ol', { class: 'stack' }), frames, 600, frameLine);
}

// What the members wait for, most of them first.
function waitList(members) {
	const counts = new Map();

	for (const member of members)
		if (member.wait)
			counts.set(member.wait, (counts.get(member.wait) || 0) + member.weight);
	const waits = [...counts].sort((a, b) => b[1] - a[1]);

	if (!waits.length)
		return null;
	return make('section', null, make('h3', null, 'Waits'),
		    lister(make('ul', { class: 'waits' }), waits, 20,
			   ([wait, weight]) => make('li', null, `${grouped(weight)} \u00d7 `, wait)));
}

function memberRow(member) {
	const labels = (member.labels || []).map(([key, value]) => `${key}=${value}`).join('  ');
	const cells = [member.id, member.name, member.state, member.syscall || member.wchan,
		       [member.stuck ? 'stuck ' : '', labels, member.maker ? ` made by ${member.maker}` : '']];

	if (isRecording)
		cells.push(grouped(member.weight));
	return make('tr', null, cells.map((cell) => make('td', null, cell)));
}

function memberTable(group, members) {
	const heads = [group.runtime ? 'id' : 'tid', 'name', 'state', 'in', ''];
	const body = make('tbody');
	const box = make('div', { class: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'Threads of this group' });
	const table = make('table', null,
			   make('thead', null, make('tr', null, heads.concat(isRecording ? ['samples'] : [])
				.map((head) => head ? make('th', { scope: 'col' }, head) : make('td')))), body);
	const most = 200;
	let at = 0;
	const more = make('button', { class: 'more', type: 'button', onclick: next });

	function next() {
		const end = Math.min(members.length, at + most);

		for (; at < end; at++)
			body.append(memberRow(members[at]));
		more.textContent = `Show more (${grouped(members.length - at)} left)`;
		if (at >= members.length)
			more.remove();
	}
	box.append(table, more);
	next();
	return box;
}

function labelList(pairs) {
	if (!pairs.length)
		return null;
	return make('p', { class: 'labels' }, pairs.map(([key, value]) =>
		make('span', { class: 'label' }, `${key}=${value}`)));
}

function groupBody(shown) {
	const { group, members } = shown;
	const button = make('button', { type: 'button' }, 'Copy the stack');
	const end = endText(group);
	const who = unfolding('who', false, plural(members.length, group.runtime ? 'task' : 'thread'), () => memberTable(group, members));

	button.addEventListener('click', () => copy(stackAsText(group), button));
	return make('div', { class: 'body' }, labelList(group.labels), waitList(members), stackList(group),
		    end ? make('p', { class: 'note' }, `The stack ends here: ${end}.`) : null,
		    who, make('p', null, button));
}
