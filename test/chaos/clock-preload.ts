// Loaded before a gateway: adds the offset in a file to its clock, which it reads again on SIGUSR2.

import { existsSync, readFileSync } from "node:fs";

const file = process.env["CHAOS_CLOCK_FILE"] ?? "";
const { now } = Date;
let offsetMs = readOffset();

function readOffset(): number {
  return existsSync(file) ? Number(readFileSync(file, "utf8")) : 0;
}

Date.now = () => now() + offsetMs;
process.on("SIGUSR2", () => {
  offsetMs = readOffset();
});
