// `npm run clients`: installs the newest coding agents into a folder outside the tree. The tests in this folder run them.
// `npm run clients -- --record` also records what they send.

import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { CLIENTS, CLIENTS_FOLDER, type ClientName, findClient } from "./client-programs.ts";

mkdirSync(CLIENTS_FOLDER, { recursive: true });
writeFileSync(path.join(CLIENTS_FOLDER, "package.json"), '{ "private": true }\n');
// With the tag, npm does not choose an older version for an older Node.js.
const packages = Object.values(CLIENTS).map(({ package: name }) => `${name}@latest`);
const { status } = spawnSync("npm", ["install", "--no-audit", "--no-fund", ...packages], {
  cwd: CLIENTS_FOLDER,
  stdio: "inherit",
});
// The keys of CLIENTS are the names.
for (const name of Object.keys(CLIENTS) as ClientName[])
  console.log(`${name} ${findClient(name)?.version ?? "is missing"}`);
if (status === 0 && process.argv.includes("--record")) await import("./record-requests.ts");
process.exit(status ?? 1);
