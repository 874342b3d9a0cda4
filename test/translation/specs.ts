// What is sent and answered, held against the descriptions that the providers publish.

import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { YAML } from "bun";
import { geminiChecker } from "../wires/gemini-discovery.ts";
import { sseEvents } from "../wires/streams.ts";
import type { Exchange, Json, Sent, Wire } from "./world.ts";

const FOLDER = resolve(
  import.meta.dir,
  "..",
  "..",
  process.env["POSTERN_SPECS"] ?? join("..", "shared", "specs"),
);
const OPENAI = join(FOLDER, "openai-openapi.2026-08-21.json");
const ANTHROPIC = join(FOLDER, "anthropic-openapi.lingua-2026-08.yml");
