// Counts the tokens of a text with OpenAI's tokenizers, on a thread of its own: to load one takes about half a second, and the
// event loop must not wait for it. Only a call that ends without the provider's usage needs the thread, so the first of these
// calls starts it.

import { Worker } from "node:worker_threads";
import type { CountRequest, CountResult, Encoding } from "./count-worker.ts";

/** The tokenizers of model families, by the name of the model. */
const ENCODINGS: readonly (readonly [model: RegExp, encoding: Encoding])[] = [
  [/(^|\/)(gpt-4o|gpt-4\.[1-9]|gpt-[5-9]|chatgpt-|gpt-audio|gpt-oss|o[134](-|$))/, "o200k_base"],
  [/(^|\/)(gpt-4(-|$)|gpt-3\.5|gpt-35)/, "cl100k_base"],
  // The bundled simulator, whose calls cost nothing.
  [/^sim\//, "o200k_base"],
];

/** Undefined for a family whose tokenizer has no package: then only the provider's usage tells the count. */
export function encodingOf(model: string): Encoding | undefined {
  return ENCODINGS.find(([pattern]) => pattern.test(model))?.[1];
}

/** The bundles of `npm run build` and of the npm package have the worker as an entry of its own, and this file in their root. */
const WORKER_URL = new URL(
  import.meta.url.endsWith("/metering/tokens/tokenizer.ts")
    ? "count-worker.ts"
    : "inference/metering/tokens/count-worker.js",
  import.meta.url,
);

interface Counter {
  readonly worker: Worker;
  readonly pending: Map<number, PromiseWithResolvers<number>>;
}

let counter: Counter | undefined;
let lastId = 0;

/**
 * Rejects if the thread has failed; the next count starts a new one. `isFree`: nothing is paid for the count, so counts that a
 * charge waits for go first.
 */
export function countTextTokens(text: string, encoding: Encoding, isFree = false): Promise<number> {
  counter ??= startCounter();
  const { worker, pending } = counter;
  const id = ++lastId;
  const result = Promise.withResolvers<number>();
  pending.set(id, result);
  // Only a count that is awaited keeps the process alive.
  worker.ref();
  worker.postMessage({ id, text, encoding, isFree } satisfies CountRequest);
  return result.promise;
}

function startCounter(): Counter {
  const worker = new Worker(WORKER_URL);
  const started: Counter = { worker, pending: new Map() };
  const { pending } = started;
  worker.on("message", ({ id, tokens }: CountResult) => {
    pending.get(id)?.resolve(tokens);
    pending.delete(id);
    if (pending.size === 0) worker.unref();
  });
  const onFailure = (cause: unknown): void => {
    if (counter === started) counter = undefined;
    for (const result of pending.values())
      result.reject(new Error("the tokenizer failed", { cause }));
    pending.clear();
  };
  worker.on("error", onFailure);
  worker.on("exit", onFailure);
  return started;
}
