// SPDX-License-Identifier: LGPL-2.1-or-later
// html_page.js FILE AXE STEPS [PICTURE]: opens a page that stacksnap wrote, and prints what it is in
// a browser: in both themes, at several widths and in each of its views what axe-core finds, what is
// wider than the window, which requests there were; what STEPS (a list of [WHAT, ARGUMENT...], JSON)
// led to; and how the page looks without a script. PICTURE is a prefix of paths.
'use strict';
const fs = require('fs');
const { browse, until, main } = require('./browser.js');

const WIDTHS = [400, 1600];
const SERIOUS = ['serious', 'critical'];

// Runs in the page.
function elements() {
    const counts = {};
    for (const element of document.querySelectorAll('*')) {
        const handlers = element.getAttributeNames().filter((name) => name.startsWith('on') || name === 'style' && !element.style);
        counts[element.localName] = (counts[element.localName] || 0) + 1;
        for (const name of handlers)
            counts[`@${name}`] = (counts[`@${name}`] || 0) + 1;
    }
    return counts;
}

function sideways() {
    return document.documentElement.scrollWidth - document.documentElement.clientWidth;
}

// Only colours differ in another theme.
async function audit(page, where, rules) {
    const options = { resultTypes: ['violations'], ...rules && { runOnly: { type: 'rule', values: rules } } };
    const found = await page.evaluate((chosen) => window.axe.run(document, chosen), options);
    return found.violations.map((one) => ({
        where, id: one.id, impact: one.impact, nodes: one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)),
    }));
}

// Until it shows what it was asked for, and that has been drawn.
async function settle(page) {
    await until(() => page.evaluate(() => !document.documentElement.hasAttribute('data-busy')), 'the page to be at rest');
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
}

// What a person does: the text of what was asked for.
const steps = {
    view: (page, name) => page.click(`#tab-${name}`),
    search: (page, word) => page.fill('#search', word),
    click: (page, selector) => page.locator(selector).first().click(),
    key: (page, selector, key) => page.locator(selector).first().press(key),
    fill: async (page, selector, value) => {
        await page.locator(selector).first().fill(value);
        await page.locator(selector).first().press('Tab');
    },
    drag: async (page, selector, from, to) => {
        const box = await page.locator(selector).first().boundingBox();
        const y = box.y + box.height / 2;
        await page.mouse.move(box.x + from * box.width, y);
        await page.mouse.down();
        await page.mouse.move(box.x + to * box.width, y, { steps: 5 });
        await page.mouse.up();
    },
    text: (page, selector) => page.locator(selector).allInnerTexts(),
    value: (page, selector) => page.locator(selector).first().inputValue(),
    style: (page, selector, name) => page.locator(selector).first().evaluate(
        (element, property) => getComputedStyle(element).getPropertyValue(property), name),
    focus: (page) => page.evaluate(() => document.activeElement.id || document.activeElement.className),
};

async function walk(page, axe, picture) {
    const found = [], wide = [];
    await page.evaluate(axe);
    for (const theme of ['light', 'dark']) {
        await page.emulateMedia({ colorScheme: theme });
        for (const id of await page.locator('[role=tab]').evaluateAll((tabs) => tabs.map((tab) => tab.id))) {
            await page.click(`#${id}`);
            for (const summary of await page.locator('#panel details:not([open]) > summary').all().then((all) => all.slice(0, 1)))
                await summary.click();
            for (const width of theme === 'light' || picture ? WIDTHS : WIDTHS.slice(-1)) {
                await page.setViewportSize({ width, height: 900 });
                await settle(page);
                if (await page.evaluate(sideways) > 0)
                    wide.push([theme, id, width]);
                if (picture)
                    await page.screenshot({ path: `${picture}-${id}-${theme}-${width}.png` });
            }
            found.push(...await audit(page, `${id} ${theme}`, theme === 'dark' && ['color-contrast']));
        }
    }
    await page.setViewportSize({ width: 1280, height: 800 });
    return { wide, axe: found.filter((one) => SERIOUS.includes(one.impact)), axe_all: found };
}

async function withoutScript(page, url) {
    const context = await page.context().browser().newContext({ javaScriptEnabled: false });
    const other = await context.newPage();
    await other.goto(url);
    const shown = { visible: await other.locator('#text pre').isVisible(), text: await other.locator('#text pre').innerText() };
    await context.close();
    return shown;
}

main(async (file, axe, list, picture) => {
    await browse(async (page) => {
        const url = `file://${file}`, requests = [];
        page.on('request', (request) => request.url() === url || requests.push(request.url()));
        await page.goto(url);
        await until(() => page.evaluate(() => document.documentElement.dataset.ready !== undefined), 'the page to be ready');
        const ready = await page.evaluate(() => Number(document.documentElement.dataset.ready));
        const results = [];
        for (const [what, ...args] of JSON.parse(list)) {
            results.push(await steps[what](page, ...args) ?? null);
            await settle(page);
        }
        await page.reload();
        const seen = axe ? await walk(page, fs.readFileSync(axe, 'utf8'), picture) : {};
        return { ready, results, requests, title: await page.title(), elements: await page.evaluate(elements), ...seen,
                 plain: await withoutScript(page, url) };
    });
});
