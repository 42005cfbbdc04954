/* SPDX-License-Identifier: LGPL-2.1-or-later
 * The time of a recording: how many threads were in which state, with a brush that chooses the
 * slice which all of the page then shows, and each thread along that slice. */

const STATE_ORDER = ['running', 'runnable', 'syscall', 'disk', 'stopped', 'traced', 'zombie', 'dead', 'unknown', 'frozen',
		     'sleeping', 'waiting', 'idle', 'parked'];
const ROW_HEIGHT = 14, MOST_ROWS = 150;
const colourOf = (state) => getComputedStyle(document.documentElement).getPropertyValue(`--state-${state}`).trim() || '#888';
const allTime = () => tickAt[tickCount];
const seconds = (us) => (us / 1e6).toFixed(3);

function prepare(canvas, width, height) {
	const scale = window.devicePixelRatio || 1;

	canvas.width = Math.max(1, Math.round(width * scale));
	canvas.height = Math.max(1, Math.round(height * scale));
	canvas.style.height = `${height}px`;
	const context = canvas.getContext('2d');

	context.scale(scale, scale);
	context.clearRect(0, 0, width, height);
	return context;
}

// In each of so many columns of the recording the samples of each state, in the order of states.
function columnsOf(count) {
	const columns = Array.from({ length: count }, () => new Float64Array(STATE_ORDER.length));
	const columnOf = new Int32Array(tickCount);

	for (let tick = 0; tick < tickCount; tick++)
		columnOf[tick] = Math.min(count - 1, Math.floor(count * tickAt[tick] / (allTime() || 1)));
	for (const track of tracks) {
		const states = new Map();

		for (let i = 0; i < track.runs.length; i += 3) {
			const cell = track.runs[i + 2];

			if (!states.has(cell))
				states.set(cell, STATE_ORDER.indexOf(cellOf(cell, track).state));
			const state = states.get(cell), end = Math.min(track.runs[i] + track.runs[i + 1], tickCount);

			for (let tick = track.runs[i]; tick < end; tick++)
				columns[columnOf[tick]][state]++;
		}
	}
	return { columns, columnOf };
}

function drawOverview(canvas) {
	const width = canvas.clientWidth, height = 64, context = prepare(canvas, width, height);
	const { columns, columnOf } = columnsOf(Math.max(1, Math.min(600, Math.floor(width / 2), tickCount)));
	const ticks = new Float64Array(columns.length);

	for (const column of columnOf)
		ticks[column]++;
	// A share of all threads; those that do nothing are the ground it stands on.
	const most = Math.max(1, ...columns.map((column, i) => column.reduce((a, b) => a + b, 0) / (ticks[i] || 1)));
	const step = width / columns.length, colours = STATE_ORDER.map(colourOf);

	columns.forEach((column, i) => {
		let at = height;

		column.forEach((samples, state) => {
			const size = height * samples / (ticks[i] || 1) / most;

			context.fillStyle = colours[state];
			context.fillRect(i * step, at - size, step + 0.5, size);
			at -= size;
		});
	});
}

/* ---- the brush ---- */

function brush(onSlice) {
	const canvas = make('canvas', { class: 'overview', role: 'img', 'aria-label': 'States of all threads over the time of the recording' });
	const mark = make('div', { class: 'brush' });
	const box = make('div', { class: 'brushed' }, canvas, mark);
	const entry = (word, value) => make('input', { type: 'number', min: '0', step: 'any', value, 'aria-label': word });
	const from = entry('Slice from, in seconds', '0'), to = entry('Slice to, in seconds', seconds(allTime()));
	let start = null;
	const show = () => {
		const begin = tickAt[view.from], end = tickAt[view.to], whole = allTime() || 1;

		mark.style.left = `${100 * begin / whole}%`;
		mark.style.width = `${100 * (end - begin) / whole}%`;
		mark.classList.toggle('whole', view.from === 0 && view.to === tickCount);
		from.value = seconds(begin);
		to.value = seconds(end);
	};
	const choose = (a, b) => {
		const begin = tickFrom(Math.min(a, b)), end = Math.max(begin + 1, tickFrom(Math.max(a, b)));

		setSlice(begin, end);
		show();
		onSlice();
	};
	const timeOf = (event) => {
		const at = canvas.getBoundingClientRect();

		return allTime() * Math.max(0, Math.min(1, (event.clientX - at.left) / (at.width || 1)));
	};

	box.addEventListener('pointerdown', (event) => { start = timeOf(event); box.setPointerCapture(event.pointerId); });
	box.addEventListener('pointermove', (event) => {
		if (start === null)
			return;
		const now = timeOf(event), whole = allTime() || 1;

		mark.classList.remove('whole');
		mark.style.left = `${100 * Math.min(start, now) / whole}%`;
		mark.style.width = `${100 * Math.abs(now - start) / whole}%`;
	});
	box.addEventListener('pointerup', (event) => {
		const begin = start, end = timeOf(event);

		start = null;
		// A click alone asks for all of it.
		if (begin !== null)
			choose(...Math.abs(end - begin) < allTime() / 200 ? [0, allTime()] : [begin, end]);
	});
	const typed = () => {
		const a = Number(from.value) * 1e6, b = Number(to.value) * 1e6;

		if (Number.isFinite(a) && Number.isFinite(b) && b > a)
			choose(a, b);
	};
	from.addEventListener('change', typed);
	to.addEventListener('change', typed);
	const element = make('section', { class: 'slice', 'aria-label': 'Slice of time' }, box,
		make('p', null, make('label', null, 'from ', from, ' s '), make('label', null, 'to ', to, ' s '),
		     make('button', { type: 'button', onclick: () => choose(0, allTime()) }, 'All of it'), ' ',
		     make('span', { class: 'note' }, 'Drag over the picture to choose a slice; a click shows all.')));

	return { element, draw: () => { drawOverview(canvas); show(); } };
}

/* ---- threads along the time ---- */

function drawRows(canvas, rows) {
	const width = canvas.clientWidth, context = prepare(canvas, width, rows.length * ROW_HEIGHT);
	const begin = tickAt[view.from], scale = width / (tickAt[view.to] - begin || 1);

	rows.forEach((track, row) => {
		const colours = new Map();

		for (let i = 0; i < track.runs.length; i += 3) {
			const first = Math.max(track.runs[i], view.from), end = Math.min(track.runs[i] + track.runs[i + 1], view.to);

			if (first >= end)
				continue;
			const cell = track.runs[i + 2];

			if (!colours.has(cell))
				colours.set(cell, colourOf(cellOf(cell, track).state));
			context.fillStyle = colours.get(cell);
			context.fillRect((tickAt[first] - begin) * scale, row * ROW_HEIGHT + 1,
					 Math.max(0.75, (tickAt[end] - tickAt[first]) * scale), ROW_HEIGHT - 2);
		}
	});
}

// What a thread did at a moment, in words.
function momentText(track, us) {
	const tick = Math.max(0, tickFrom(us + 1) - 1);

	for (let i = 0; i < track.runs.length; i += 3) {
		if (tick < track.runs[i] || tick >= track.runs[i] + track.runs[i + 1])
			continue;
		const cell = cellOf(track.runs[i + 2], track);
		const frames = framesOf(data.recorded[cell.stack].stack);
		const what = frames.length ? frameOf(ownFrame(frames)).name : '(no stack)';

		return `${seconds(us)} s  ${track.name} ${track.id}: ${cell.state} in ${what}` +
			(cell.wait ? `, ${cell.wait}` : cell.syscall ? `, in ${cell.syscall}` : '');
	}
	return `${seconds(us)} s  ${track.name} ${track.id}: not seen`;
}

function busy(track) {
	let samples = 0;

	for (let i = 0; i < track.runs.length; i += 3)
		if (['running', 'syscall', 'disk'].includes(cellOf(track.runs[i + 2], track).state))
			samples += track.runs[i + 1];
	return samples;
}

function rowsPart(rows, onThread) {
	const canvas = make('canvas', { class: 'rows', role: 'img', 'aria-label': 'States of threads along the slice' });
	const status = make('p', { class: 'status' }, 'Point at a row to see what its thread did.');
	const names = make('ul', { class: 'names' }, rows.map((track) => make('li', null,
		make('button', { type: 'button', title: `${processName(data.processes[track.process])}[${data.processes[track.process].pid}]`,
				 onclick: () => onThread(track) }, `${track.name || track.runtime} ${track.id}`))));

	canvas.addEventListener('mousemove', (event) => {
		const at = canvas.getBoundingClientRect();
		const track = rows[Math.floor((event.clientY - at.top) / ROW_HEIGHT)];
		const begin = tickAt[view.from], us = begin + (tickAt[view.to] - begin) * (event.clientX - at.left) / (at.width || 1);

		if (track)
			status.textContent = momentText(track, us);
	});
	return { element: make('div', null, status, make('div', { class: 'threads' }, names, canvas)),
		 draw: () => drawRows(canvas, rows) };
}

let rowsShown = MOST_ROWS;

function renderTimeline(panel, onThread) {
	const ids = new Set(shownGroups().flatMap(({ group, members }) =>
		members.map((member) => `${group.process}/${member.tid}`)));
	const all = tracks.filter((track) => ids.has(`${track.process}/${track.tid}`));
	// Of very many, the busiest ones, in their order.
	const chosen = all.length <= rowsShown ? all : [...all].sort((a, b) => busy(b) - busy(a)).slice(0, rowsShown)
		.sort((a, b) => a.number - b.number);
	const part = rowsPart(chosen, onThread);
	const states = new Set(allStates().map(([state]) => state));
	const key = make('p', { class: 'key' }, STATE_ORDER.filter((state) => states.has(state)).map((state) =>
		[make('span', { class: 'swatch', 'data-state': state, 'aria-hidden': 'true' }), ` ${state}  `]));

	replace(panel, key, part.element, all.length > chosen.length
		? make('p', null, make('button', { class: 'more', type: 'button', onclick: () => {
			rowsShown = Math.min(2000, rowsShown * 2); renderTimeline(panel, onThread); } },
			`${plural(all.length - chosen.length, 'thread')} that did less`)) : null);
	part.draw();
}
