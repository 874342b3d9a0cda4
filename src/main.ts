// The command line: reads the settings, and hands them to a command.

import { hostname } from "node:os";
import packageJson from "../package.json" with { type: "json" };
import { createLog } from "./base/log.ts";
import { serve } from "./commands/serve.ts";
import { readConfig } from "./config.ts";

const result = readConfig({ env: process.env, hostName: hostname(), providers: [] });
if (!result.ok) {
  console.error(
    `The settings have ${result.mistakes.length === 1 ? "a mistake" : "mistakes"}:\n${result.mistakes.map((one) => `  ${one}`).join("\n")}`,
  );
  process.exit(2);
}
const { config } = result;
const readable = config.log.form === "text" || (config.log.form === "auto" && process.stdout.isTTY);
const log = createLog({
  level: config.log.level,
  readable,
  now: Date.now,
  write: (line) => process.stdout.write(`${line}\n`),
});
process.exit(
  await serve(config, {
    log,
    now: Date.now,
    version: packageJson.version,
    readable,
    print: (text) => process.stdout.write(`${text}\n`),
  }),
);
