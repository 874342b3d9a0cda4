#!/usr/bin/env bun
// The command `postern-simulator`: serves the simulator until it is interrupted.

import { parseArgs } from "node:util";
import { createSimulator } from "./create-simulator.ts";

const PORT_DEFAULT = "8788";

const { values } = parseArgs({
  options: {
    port: { type: "string", default: PORT_DEFAULT },
    host: { type: "string", default: "127.0.0.1" },
    "require-key": { type: "string" },
    "any-model": { type: "boolean", default: false },
  },
});
const key = values["require-key"];
const server = Bun.serve({
  port: values.port,
  hostname: values.host,
  // A directive can ask for a pause of any length.
  idleTimeout: 0,
  development: false,
  fetch: createSimulator({
    now: Date.now,
    acceptsAnyModel: values["any-model"],
    ...(key === undefined ? {} : { requireKey: key }),
  }).fetch,
});
console.log(`The simulated provider is at ${server.url.origin}`);
