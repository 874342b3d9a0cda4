// `npm run clients -- --record`: writes the shapes of what the installed coding agents send to test/clients/requests, which
// recorded-requests.test.ts replays without them.

import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { findClient } from "./client-programs.ts";
import { RUNS } from "./clients.ts";
import { reduceRequests } from "./reduce-requests.ts";
import { runClient } from "./run-client.ts";

const FOLDER = path.join(import.meta.dir, "requests");
mkdirSync(FOLDER, { recursive: true });
for (const { name, fileName, client, model } of RUNS) {
  const program = findClient(name);
  if (fileName === undefined || program === undefined) continue;
  const { exchanges } = await runClient(program, client, model);
  const requests = reduceRequests(exchanges);
  const file = path.join(FOLDER, `${fileName}.json`);
  writeFileSync(file, `${JSON.stringify({ version: program.version, requests }, null, 2)}\n`);
  console.log(`${file}: ${requests.length} requests of ${name} ${program.version}`);
}
