import { createSimulator } from "../src/create-simulator.ts";
import type { SimulatorOptions } from "../src/respond.ts";

const NOW = Date.parse("2026-03-04T05:06:07Z");

export interface SimulatorServer {
  readonly url: string;
  readonly stop: () => Promise<void>;
}

/** Starts a simulator on a free port. */
export function serveSimulator(options: Partial<SimulatorOptions> = {}): SimulatorServer {
  const simulator = createSimulator({ now: () => NOW, ...options });
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    development: false,
    fetch: simulator.fetch,
  });
  return { url: `http://127.0.0.1:${server.port}`, stop: () => server.stop(true) };
}

/** A function that sends requests to a simulator in this process. */
export function createClient(options: Partial<SimulatorOptions> = {}) {
  const simulator = createSimulator({ now: () => NOW, ...options });
  return (path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
    simulator.fetch(
      new Request(`http://sim.test${path}`, {
        method: body === undefined ? "GET" : "POST",
        headers: {
          "content-type": "application/json",
          "anthropic-version": "2023-06-01",
          ...headers,
        },
        ...(body === undefined
          ? {}
          : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      }),
    );
}

/** JSON whose form the test knows. */
export type Json = ReturnType<typeof JSON.parse>;

export async function json(response: Promise<Response> | Response): Promise<Json> {
  return (await response).json();
}

/** The parsed `data:` values of an SSE stream. */
export function eventData(text: string): Json[] {
  return text
    .split(/\r\n|\n|\r/)
    .filter((line) => line.startsWith("data: ") && line !== "data: [DONE]")
    .map((line) => JSON.parse(line.slice(6)));
}

/** Reads a body until it ends or fails (`isTruncated`). */
export async function readAll(response: Response): Promise<{
  readonly chunks: Uint8Array[];
  readonly text: string;
  readonly isTruncated: boolean;
}> {
  const chunks: Uint8Array[] = [];
  let isTruncated = false;
  try {
    for await (const chunk of response.body ?? []) chunks.push(chunk);
  } catch {
    isTruncated = true;
  }
  return { chunks, text: await new Blob(chunks as Uint8Array<ArrayBuffer>[]).text(), isTruncated };
}

export function chatBody(
  text: string,
  more: Record<string, unknown> = {},
): Record<string, unknown> {
  return { model: "sim/echo", messages: [{ role: "user", content: text }], ...more };
}

export function chatTool(
  name: string,
  parameters: unknown = {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
  },
) {
  return {
    type: "function" as const,
    function: { name, parameters: parameters as Record<string, unknown> },
  };
}

/** The promise's rejection reason. `expect(…).rejects` does not wait for the SDKs' lazy promises. */
export async function rejectionReason(promise: PromiseLike<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  return undefined;
}
