// SPDX-License-Identifier: LGPL-2.1-or-later
// catapult.js VIEWER FILE [PICTURE]: imports a trace with Catapult's trace viewer in the folder
// VIEWER, and prints the model that came out of it: warnings, and what each thread has.
'use strict';
const fs = require('fs');
const http = require('http');
const path = require('path');
const { browse, until, main } = require('./browser.js');

const PAGE = `<!DOCTYPE html><html><head><meta charset="utf-8">
<script src="webcomponents.min.js"></script>
<link rel="import" href="trace_viewer_full.html">
<style>html, body, tr-ui-timeline-view { margin: 0; height: 100%; width: 100%; display: flex; }</style>
</head><body></body></html>`;

function serve(viewer, file) {
    const files = {
        '/trace': file,
        '/trace_viewer_full.html': path.join(viewer, 'trace_viewer_full.html'),
        '/webcomponents.min.js': path.join(viewer, 'webcomponents.min.js'),
    };
    const server = http.createServer((request, response) => {
        const found = files[request.url];
        const type = request.url.endsWith('.js') ? 'text/javascript' : 'text/html; charset=utf-8';
        if (request.url === '/favicon.ico')
            return response.writeHead(204).end();
        if (!found && request.url !== '/')
            return response.writeHead(404).end();
        response.writeHead(200, { 'Content-Type': type });
        return response.end(found ? fs.readFileSync(found) : PAGE);
    });
    return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));
}

// Runs in the page.
async function importTrace() {
    const text = await (await fetch('/trace')).text();
    const model = new tr.Model();
    const importer = new tr.importer.Import(model, new tr.importer.ImportOptions());
    importer.importTraces([text]);
    window.model = model;
    const threads = [];
    for (const process of model.getAllProcesses())
        for (const thread of Object.values(process.threads))
            threads.push({
                pid: process.pid, tid: thread.tid, name: thread.name, process: process.name,
                labels: process.labels,
                slices: thread.sliceGroup.slices.map((slice) => ({
                    name: slice.title, start: slice.start, duration: slice.duration,
                    depth: slice.parentSlice ? undefined : 0,
                    parent: slice.parentSlice ? slice.parentSlice.title : null,
                })),
            });
    const counters = [];
    for (const process of model.getAllProcesses())
        for (const counter of Object.values(process.counters))
            counters.push({ pid: process.pid, name: counter.name, category: counter.category,
                            series: counter.series.map((series) => ({
                                name: series.name,
                                values: series.samples.map((sample) => sample.value) })) });
    return { warnings: model.importWarnings.map((warning) => warning.message), threads, counters };
}

// Runs in the page.
function draw() {
    const view = document.createElement('tr-ui-timeline-view');
    const tracks = document.createElement('track-view-container');
    tracks.id = 'track_view_container';
    view.track_view_container = tracks;
    Polymer.dom(view).appendChild(tracks);
    view.id = 'trace-viewer';
    view.globalMode = true;
    Polymer.dom(document.body).appendChild(view);
    view.model = window.model;
    view.viewTitle = 'stacksnap';
}

main(async (viewer, file, picture) => {
    const server = await serve(viewer, file);
    try {
        await browse(async (page, seen) => {
            await page.goto(`http://127.0.0.1:${server.address().port}/`);
            await until(() => page.evaluate(() => Boolean(window.tr && window.tr.importer &&
                                                           window.tr.importer.Import)),
                        'the trace viewer');
            const result = await page.evaluate(importTrace);
            if (picture) {
                await page.evaluate(draw);
                await page.waitForTimeout(3000);
                await page.screenshot({ path: picture });
            }
            return result;
        });
    } finally {
        server.close();
    }
});
