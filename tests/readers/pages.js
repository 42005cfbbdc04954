// SPDX-License-Identifier: LGPL-2.1-or-later
// pages.js FOLDER WORD URL...: opens pages one after the other, and prints the status of each, and
// whether it comes to show the WORD: as text, or as the title of something drawn. FOLDER takes
// pictures, "" none.
'use strict';
const path = require('path');
const { browse, until, main } = require('./browser.js');

// Runs in the page; scripts and what they were given are not shown.
function shows(word) {
    const body = document.body.cloneNode(true);
    for (const script of body.querySelectorAll('script, style'))
        script.remove();
    return body.textContent.includes(word);
}

main(async (folder, word, ...urls) => {
    await browse(async (page) => {
        const pages = [];
        for (const [number, url] of urls.entries()) {
            const response = await page.goto(url, { waitUntil: 'load' });
            // A page may draw after it has loaded.
            const shown = await until(() => page.evaluate(shows, word), word)
                .then(() => true, () => false);
            pages.push({ url, status: response.status(), shown });
            if (folder)
                await page.screenshot({ path: path.join(folder, `page-${number}.png`) });
        }
        return { pages };
    });
});
