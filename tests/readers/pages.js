// SPDX-License-Identifier: LGPL-2.1-or-later
// pages.js FOLDER URL...: opens pages one after the other, and prints the status of each and what
// text it shows. FOLDER takes pictures, "" none.
'use strict';
const path = require('path');
const { browse, main } = require('./browser.js');

main(async (folder, ...urls) => {
    await browse(async (page) => {
        const pages = [];
        for (const [number, url] of urls.entries()) {
            const response = await page.goto(url, { waitUntil: 'load' });
            pages.push({ url, status: response.status(),
                         text: await page.evaluate(() => document.body.innerText) });
            if (folder)
                await page.screenshot({ path: path.join(folder, `page-${number}.png`) });
        }
        return { pages };
    });
});
