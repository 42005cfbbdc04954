/* SPDX-License-Identifier: LGPL-2.1-or-later
 * The page: its facts, what chooses among the groups, and the views, one at a time. */

const app = make('div', { id: 'app' });
const views = data.kind === 'diff'
	? [['changes', 'Changes', renderChanges],
	   ['flame', 'Flame graph', (panel) => renderFlame(panel, flameOfChanges)], ['stuck', `Stuck (${data.stuck.length})`, renderStuck],
	   ['processes', `Processes (${data.processes.length})`, renderProcesses],
	   ...data.recordings ? [['moved', 'Functions', renderMoved]] : [],
	   ['missing', 'Notes', renderMissing]]
	: [['tree', 'Tree', renderTree], ['calls', 'Calls', renderCalls], ['flame', 'Flame graph', (panel) => renderFlame(panel)],
	   ...isRecording ? [['time', 'Threads', (panel) => renderTimeline(panel, chooseThread)]] : [],
	   ['functions', 'Functions', renderFunctions], ['waits', 'Waits', renderWaits],
	   ['missing', 'Missing', renderMissing]];
let current = isRecording ? 'flame' : views[0][0];

const panel = make('div', { id: 'panel', role: 'tabpanel', tabIndex: 0 });
const tabs = views.map(([name, title]) => make('button', {
	type: 'button', role: 'tab', id: `tab-${name}`, 'aria-controls': 'panel', onclick: () => choose(name) }, title));

function render() {
	panel.setAttribute('aria-labelledby', `tab-${current}`);
	views.find(([name]) => name === current)[2](panel);
	panel.dataset.view = current;
}

function choose(name) {
	current = name;
	views.forEach(([other], i) => {
		tabs[i].setAttribute('aria-selected', String(other === name));
		tabs[i].tabIndex = other === name ? 0 : -1;
	});
	render();
}

function tabList() {
	const list = make('div', { class: 'tabs', role: 'tablist', 'aria-label': 'Views' }, tabs);

	list.addEventListener('keydown', (event) => {
		const at = tabs.indexOf(document.activeElement);
		const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tabs.length - 1 }[event.key];

		if (at < 0 || next === undefined)
			return;
		event.preventDefault();
		const number = (next + tabs.length) % tabs.length;

		choose(views[number][0]);
		tabs[number].focus();
	});
	return list;
}

/* ---- what is looked at ---- */

const search = make('input', { type: 'search', id: 'search', autocomplete: 'off', spellcheck: 'false', placeholder: 'function, thread, label, wait, tid:N, pid:N' });
search.addEventListener('input', settled(120, () => { view.search = search.value; render(); }));

function chooseThread(track) {
	search.value = view.search = `tid:${track.tid}`;
	choose('tree');
}

function stateBoxes() {
	const boxes = allStates().map(([state, weight]) => {
		const box = make('input', { type: 'checkbox', checked: true, value: state });

		return { box, element: make('label', { class: 'choice' }, box, make('span', { class: 'swatch', 'data-state': state, 'aria-hidden': 'true' }),
					    ` ${state} `, make('span', { class: 'note' }, isRecording ? '' : grouped(weight))) };
	});
	const element = make('fieldset', null, make('legend', null, 'States'), boxes.map((item) => item.element));

	element.addEventListener('change', () => {
		const chosen = boxes.filter(({ box }) => box.checked).map(({ box }) => box.value);

		view.states = chosen.length === boxes.length ? null : new Set(chosen);
		render();
	});
	return boxes.length > 1 ? element : null;
}

function processChoice() {
	const withGroups = [...new Set(groups.map((group) => group.process))].sort((a, b) => a - b);

	if (withGroups.length < 2)
		return null;
	const select = make('select', { id: 'process' }, make('option', { value: '-1' }, 'all processes'),
		withGroups.slice(0, 2000).map((number) => make('option', { value: String(number) },
			`${processName(data.processes[number])}[${data.processes[number].pid}]`)));

	select.addEventListener('change', () => { view.process = Number(select.value); render(); });
	return make('label', null, 'Process ', select);
}

function themeButton() {
	const root = document.documentElement;
	const button = make('button', { type: 'button', id: 'theme' });
	const isDark = () => (root.dataset.theme || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';
	const show = () => { button.textContent = isDark() ? 'Light' : 'Dark'; };

	button.addEventListener('click', () => {
		root.dataset.theme = isDark() ? 'light' : 'dark';
		show();
		redraw();
	});
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { show(); redraw(); });
	show();
	return button;
}

function facts() {
	const list = make('dl', null, data.facts.map(([word, value]) => make('div', null, make('dt', null, word), make('dd', null, value))));

	return data.facts.length > 8 ? make('details', { class: 'head' }, make('summary', null, 'About this recording'), list) : list;
}

const slice = isRecording && tickCount > 1 ? brush(settled(30, render)) : null;

function redraw() {
	if (slice)
		slice.draw();
	if (current === 'time')
		render();
}

document.addEventListener('keydown', (event) => {
	if (event.key !== '/' || event.ctrlKey || event.altKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName))
		return;
	event.preventDefault();
	search.focus();
});

{
	const missing = data.kind === 'diff' ? 0 : missingItems().length;

	if (missing)
		tabs[tabs.length - 1].append(` (${grouped(missing)})`);
	document.getElementById('top').append(themeButton());
	append(app, [facts(), data.kind === 'diff' ? null : standsOut(), make('div', { class: 'choices', role: 'search' },
		make('label', { for: 'search' }, 'Search ', search), ...data.kind === 'diff' ? [] : [processChoice(), stateBoxes()]),
		slice ? slice.element : null, tabList(), panel]);
	document.getElementById('text').open = false;
	document.getElementById('main').prepend(app);
	choose(current);
	redraw();
	addEventListener('resize', settled(100, redraw));
	// On paper there is no button that unfolds.
	addEventListener('beforeprint', () => { document.getElementById('text').open = true; });
	// How long it took since the page was asked for, for who measures.
	document.documentElement.dataset.ready = String(Math.round(performance.now()));
}
