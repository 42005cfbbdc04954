// SPDX-License-Identifier: LGPL-2.1-or-later
// speedscope_app.js RELEASE FILE SCRIPT [PICTURE]: loads FILE, of any format that the app reads,
// into the app in the folder RELEASE, by way of SCRIPT, which is written. Prints what the app
// understood, which is what it saves on Ctrl+S.
'use strict';
const fs = require('fs');
const path = require('path');
const { pathToFileURL } = require('url');
const { browse, until, main } = require('./browser.js');

main(async (release, file, script, picture) => {
    const bytes = fs.readFileSync(file).toString('base64');
    const name = JSON.stringify(path.basename(file));
    fs.writeFileSync(script, `speedscope.loadFileFromBase64(${name}, "${bytes}")`);
    const url = pathToFileURL(path.join(release, 'index.html'));
    url.hash = `localProfilePath=${script}`;
    await browse(async (page, seen) => {
        await page.goto(url.href);
        // The app logs its own failures as it logs anything else.
        const failed = () => seen.errors.length || seen.console.some(
            ([type, text]) => type === 'error' || text.startsWith('Failed to load'));
        await until(() => failed() ||
                    seen.console.some(([type, text]) => type === 'timeEnd' && text.startsWith('import')),
                    'the app to import the file');
        if (failed()) {
            seen.errors.push(...seen.console.map(([, text]) => text));
            return {};
        }
        if (picture) {
            // The first frames are drawn before fonts are there.
            await page.waitForTimeout(1000);
            await page.screenshot({ path: picture });
        }
        const saved = page.waitForEvent('download');
        await page.keyboard.press('Control+s');
        const stream = await (await saved).createReadStream();
        const chunks = [];
        for await (const chunk of stream)
            chunks.push(chunk);
        return { understood: JSON.parse(Buffer.concat(chunks).toString('utf8')) };
    });
});
