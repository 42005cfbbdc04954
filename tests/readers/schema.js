// SPDX-License-Identifier: LGPL-2.1-or-later
// schema.js SCHEMA FILE...: holds JSON files to a schema; prints what is wrong, and ends with 1 then.
'use strict';
const fs = require('fs');
const Ajv = require('ajv');
const { main } = require('./browser.js');

main(async (schemaPath, ...files) => {
    const schema = JSON.parse(fs.readFileSync(schemaPath, 'utf8'));
    // An older draft, which says nothing that the newer ones read in another way.
    delete schema.$schema;
    const validate = new Ajv({ strict: false, allErrors: false }).compile(schema);
    for (const file of files) {
        if (validate(JSON.parse(fs.readFileSync(file, 'utf8'))))
            continue;
        process.stdout.write(`${file}: ${JSON.stringify(validate.errors)}\n`);
        process.exitCode = 1;
    }
});
