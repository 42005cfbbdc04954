/* SPDX-License-Identifier: LGPL-2.1-or-later
 * What the page knows: the data's tables, groups of threads, and which of them are looked at. A
 * group is one stack of one process; its members are threads or tasks in one state, with a weight:
 * one each in a snapshot, samples in a recording. Knows nothing of how any of it is shown. */

const data = JSON.parse(document.getElementById('data').textContent);
const isRecording = data.kind === 'recording';
const text = (number) => data.texts[number || 0];

/* ---- functions and stacks ---- */

const INLINED = 1, SYSTEM = 2, KERNEL = 4, GUESSED = 8, GAP = 16;

function frameOf(number) {
	const at = number * 6, row = data.frames;

	return {
		number, name: text(row[at]), module: text(row[at + 1]), file: text(row[at + 2]),
		line: row[at + 3], language: text(row[at + 4]), flags: row[at + 5],
	};
}

// Innermost first. Whatever the rows say, each row leads to one before it.
const stackCache = new Map();
function framesOf(stack) {
	let frames = stackCache.get(stack);

	if (!frames) {
		frames = [];
		for (let row = stack, caller; row > 0; row = caller) {
			frames.push(data.stacks[2 * row + 1]);
			caller = data.stacks[2 * row];
			if (caller >= row)
				break;
		}
		stackCache.set(stack, frames);
	}
	return frames;
}

// Frames of one function are one, wherever in it they stand.
const functionOfFrame = [];
const functions = [];
{
	const known = new Map();

	for (let i = 0; i < data.frames.length / 6; i++) {
		const key = `${data.frames[6 * i]} ${data.frames[6 * i + 1]} ${data.frames[6 * i + 5] & GAP}`;

		if (!known.has(key)) {
			known.set(key, functions.length);
			functions.push(frameOf(i));
		}
		functionOfFrame.push(known.get(key));
	}
}

// Where the program itself stands: its innermost function that is no system code.
function ownFrame(frames) {
	const own = frames.find((number) => !(data.frames[6 * number + 5] & (SYSTEM | KERNEL | GAP)));

	return own === undefined ? frames[0] : own;
}

function place(frame) {
	if (frame.file)
		return frame.line ? `${frame.file}:${frame.line}` : frame.file;
	return frame.module;
}

/* ---- groups ---- */

const labelPairs = (numbers) => {
	const pairs = [];

	for (let i = 0; i + 1 < (numbers || []).length; i += 2)
		pairs.push([text(numbers[i]), text(numbers[i + 1])]);
	return pairs;
};

function groupOf(row, process) {
	return {
		process, urgency: row.urgency || 0, key: `${process}/${row.id}/${row.stack}`, id: row.id, stack: row.stack,
		title: text(row.title), end: row.end || 0, why: text(row.why),
		labels: labelPairs(row.labels), runtime: row.runtime || '', members: [],
	};
}

function addThreads(group, row) {
	const numbers = row.threads || [];

	for (let i = 0; i + 6 < numbers.length; i += 7)
		group.members.push({
			tid: numbers[i], id: String(numbers[i]), name: text(numbers[i + 1]),
			state: data.states[numbers[i + 2]], syscall: text(numbers[i + 3]),
			wchan: text(numbers[i + 4]), wait: text(numbers[i + 5]),
			stuck: (numbers[i + 6] & 2) !== 0, weight: 1,
		});
	for (const task of row.tasks || [])
		group.members.push({
			tid: task[4], id: text(task[0]), name: text(task[1]),
			state: data.task_states[task[2]], syscall: '', wchan: text(task[3]), wait: '',
			maker: text(task[5]), labels: labelPairs(task.slice(6)), weight: 1,
		});
}

function snapshotGroups() {
	const groups = [];
	const add = (row, process, logical) => {
		const group = groupOf(row, process);

		addThreads(group, row);
		group.logical = logical;
		if (logical)
			group.key += `/${logical.number}`;
		groups.push(group);
	};

	data.processes.forEach((process, number) => {
		for (const row of process.groups || [])
			add(row, number, null);
		(process.logical || []).forEach((logical, place) => {
			logical.number = place;
			for (const row of logical.groups || [])
				add(row, number, logical);
		});
	});
	return groups;
}

/* ---- the time of a recording ---- */

// When each tick begins, in microseconds since the first one; one more for the end.
const tickAt = [0];
for (const step of data.ticks || [])
	tickAt.push(tickAt[tickAt.length - 1] + step);
const tickCount = tickAt.length - 1;
const CELL = 6;

// First tick, ticks and cell of each run.
function decodeRuns(numbers) {
	const runs = [];

	for (let i = 0, tick = 0; i < numbers.length;) {
		const head = numbers[i++];

		if (head & 2)
			tick += numbers[i++];
		const ticks = head & 1 ? numbers[i++] : 1;
		runs.push(tick, ticks, Math.floor(head / 4));
		tick += ticks;
	}
	return Int32Array.from(runs);
}

const tracks = (data.tracks || []).map((row, number) => ({
	number, process: row.process, tid: row.tid, name: text(row.name),
	id: row.task === undefined ? String(row.tid) : text(row.task),
	runtime: row.runtime || '', isTask: row.task !== undefined,
	labels: labelPairs(row.labels), runs: decodeRuns(row.runs),
}));

function cellOf(cell, track) {
	const row = data.cells, at = cell * CELL;

	return {
		stack: row[at],
		state: track.isTask ? data.task_states[row[at + 5]] : data.states[row[at + 1]],
		syscall: text(row[at + 2]), wchan: text(row[at + 3]), wait: text(row[at + 4]),
	};
}

// The first tick that begins at or after a time.
function tickFrom(us) {
	let low = 0, high = tickCount;

	while (low < high) {
		const middle = low + high >> 1;

		if (tickAt[middle] < us)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

// Samples of a track in ticks [from, to), by cell.
function samplesOf(track, from, to) {
	const samples = new Map(), runs = track.runs;

	for (let i = 0; i < runs.length; i += 3) {
		const begin = Math.max(runs[i], from), end = Math.min(runs[i] + runs[i + 1], to);

		if (begin < end)
			samples.set(runs[i + 2], (samples.get(runs[i + 2]) || 0) + end - begin);
	}
	return samples;
}

function recordedGroups(from, to) {
	const groups = new Map();

	for (const track of tracks) {
		for (const [cell, weight] of samplesOf(track, from, to)) {
			const what = cellOf(cell, track);
			// Threads and tasks of one stack are not one group.
			const key = 2 * what.stack + (track.isTask ? 1 : 0);
			let group = groups.get(key);

			if (!group) {
				group = groupOf(data.recorded[what.stack], track.process);
				group.runtime = track.runtime;
				groups.set(key, group);
			}
			group.members.push({
				tid: track.tid, id: track.id, name: track.name, state: what.state,
				syscall: what.syscall, wchan: what.wchan, wait: what.wait,
				labels: track.labels, weight,
			});
		}
	}
	return [...groups.values()];
}

/* ---- what is looked at ---- */

const view = { from: 0, to: tickCount, search: '', states: null, process: -1 };
let groups = data.kind === 'diff' ? [] : isRecording ? recordedGroups(0, tickCount) : snapshotGroups();

function setSlice(from, to) {
	view.from = Math.max(0, Math.min(from, tickCount));
	view.to = Math.max(view.from, Math.min(to, tickCount));
	groups = recordedGroups(view.from, view.to);
}

// All states there are, most threads first.
function allStates() {
	const counts = new Map();

	for (const group of groups)
		addStates(counts, statesOf(group.members));
	return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}

const processName = (process) => process.name || (process.type === 'dead' ? '(dead process)' : '?');

// Functions, modules, files and labels of a group, and its process; not the arguments, in which much stands.
function groupWords(group) {
	if (group.words === undefined) {
		const process = data.processes[group.process], words = [];

		for (const number of framesOf(group.stack)) {
			const frame = frameOf(number);

			words.push(frame.name, baseName(frame.module), frame.file);
		}
		for (const [key, value] of group.labels.concat(labelPairs(process.labels)))
			words.push(`${key}=${value}`);
		if (group.logical)
			words.push(text(group.logical.name),
				   ...labelPairs(group.logical.labels).map((pair) => pair.join('=')));
		words.push(processName(process), process.unit || '', process.container || '');
		group.words = words.join('\n').toLowerCase();
	}
	return group.words;
}

function memberMatches(member, word) {
	if (word.startsWith('tid:'))
		return `tid:${member.tid}` === word;
	return [member.name, member.id, member.state, member.wait, member.syscall, member.wchan]
		.concat((member.labels || []).map((pair) => pair.join('=')))
		.some((value) => value.toLowerCase().includes(word));
}

// The members of a group that are looked at.
function shownMembers(group, word) {
	let members = group.members;

	if (view.states)
		members = members.filter((member) => view.states.has(member.state));
	if (word.startsWith('pid:'))
		return word === `pid:${data.processes[group.process].pid}` ? members : [];
	if (word && !groupWords(group).includes(word))
		members = members.filter((member) => memberMatches(member, word));
	return members;
}

// Of members the weight in each state.
function statesOf(members) {
	const states = new Map();

	for (const member of members)
		states.set(member.state, (states.get(member.state) || 0) + member.weight);
	return states;
}

function addStates(states, more) {
	for (const [state, weight] of more)
		states.set(state, (states.get(state) || 0) + weight);
}

const weightOf = (members) => members.reduce((sum, member) => sum + member.weight, 0);

// Groups with the members that are looked at, the urgent ones of a snapshot first, then the heaviest.
function shownGroups() {
	const word = view.search.trim().toLowerCase(), shown = [];

	for (const group of groups) {
		if (view.process >= 0 && group.process !== view.process)
			continue;
		const members = shownMembers(group, word);
		const weight = weightOf(members);

		if (weight)
			shown.push({ group, members, weight });
	}
	return shown.sort((a, b) => a.group.urgency - b.group.urgency || b.weight - a.weight || (a.group.key < b.group.key ? -1 : 1));
}

// A weight in words: threads, or samples and the time that they stand for.
function weightText(weight, one) {
	if (!isRecording)
		return plural(weight, one || 'thread');
	return `${plural(weight, 'sample')}, ${length(weight * data.period_us)}`;
}
