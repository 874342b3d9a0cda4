// Writes an operator's models file for a test.

import { writeFileSync } from "node:fs";
import path from "node:path";
import { scratchFolder } from "../../support/scratch-folder.ts";
import type { Json } from "./harness.ts";

const folder = scratchFolder("models");
let files = 0;

/** The settings with which a gateway reads these models and providers. */
export function withModels(
  models: readonly Json[],
  providers: readonly Json[] = [],
): Readonly<Record<string, string>> {
  const file = path.join(folder, `${(files += 1)}.json`);
  writeFileSync(file, JSON.stringify({ models, providers }));
  return { POSTERN_MODELS_FILE: file };
}

/** Many models that differ only in name: each has a circuit of its own. */
export function identicalModels(count: number): Json[] {
  const pricing = {
    tokens: {
      input: "1",
      cache_read: "0.1",
      cache_write_5m: "1.25",
      cache_write_1h: "2",
      output: "2",
    },
  };
  const indexes = Array.from({ length: count }, (_, index) => index);
  return [
    ...indexes.map((index) => ({
      id: `sim/twin-${index}`,
      wires: ["chat", "responses", "messages"],
      context_length: 128_000,
      max_output_tokens: 16_384,
      pricing,
    })),
    ...indexes.map((index) => ({
      id: `sim/embed-${index}`,
      kind: "embedding",
      wires: ["embeddings"],
      context_length: 8_192,
      pricing,
    })),
  ];
}
