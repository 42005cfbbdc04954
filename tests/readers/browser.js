// SPDX-License-Identifier: LGPL-2.1-or-later
// A page in headless Chromium that reaches nothing but this machine. What it says on its console,
// the scripts' errors and the requests that were refused are kept for the test to judge.
'use strict';
const { chromium } = require('playwright-core');

const PATIENCE = 120000; // milliseconds; the caller knows when it is too long

function isLocal(url) {
    const { protocol, hostname } = new URL(url);
    return ['file:', 'data:', 'blob:', 'about:'].includes(protocol) ||
           (protocol === 'http:' && ['127.0.0.1', 'localhost'].includes(hostname));
}

// Runs `use(page, seen)` and prints, as one JSON document, what it returns and what was seen.
async function browse(use) {
    const seen = { console: [], errors: [], refused: [] };
    const browser = await chromium.launch({
        executablePath: process.env.CHROMIUM,
        args: JSON.parse(process.env.CHROMIUM_SWITCHES),
    });
    let result;
    try {
        const context = await browser.newContext({
            acceptDownloads: true, viewport: { width: 1280, height: 800 },
        });
        context.setDefaultTimeout(PATIENCE);
        const page = await context.newPage();
        await context.route('**/*', (route) => {
            const url = route.request().url();
            if (isLocal(url))
                return route.continue();
            seen.refused.push(url);
            return route.abort();
        });
        page.on('console', (message) => seen.console.push([message.type(), message.text()]));
        page.on('pageerror', (error) => seen.errors.push(String(error)));
        page.on('dialog', (dialog) => {
            seen.errors.push(dialog.message());
            return dialog.dismiss();
        });
        result = await use(page, seen);
    } finally {
        await browser.close();
    }
    process.stdout.write(JSON.stringify({ ...result, ...seen }) + '\n');
}

// Polls, as nothing tells when a page is ready.
async function until(condition, what) {
    const end = Date.now() + PATIENCE;
    while (!await condition()) {
        if (Date.now() > end)
            throw new Error(`waited for ${what}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
}

function main(run) {
    run(...process.argv.slice(2)).catch((error) => {
        process.stderr.write(`${error.stack || error}\n`);
        process.exitCode = 1;
    });
}

module.exports = { browse, until, main };
