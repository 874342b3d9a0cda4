// Replays the shapes of what coding agents sent (record-requests.ts) to a model of each wire. On the agent's own wire the
// provider gets every field.

import { afterAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { openSocket } from "../responses/websocket-client.ts";
import {
  type Json,
  modelOn,
  startHarness,
  type Wire,
  WIRES,
} from "../translation/support/harness.ts";
import type { RecordedRequest } from "./reduce-requests.ts";

const FOLDER = path.join(import.meta.dir, "requests");
const harness = await startHarness();
afterAll(() => harness.stop());

interface Recording {
  readonly version: string;
  readonly requests: readonly RecordedRequest[];
}

const RECORDINGS = readdirSync(FOLDER)
  .toSorted()
  .map((file) => ({
    client: path.basename(file, ".json"),
    // The recorder wrote it.
    ...(JSON.parse(readFileSync(path.join(FOLDER, file), "utf8")) as Recording),
  }));
const CALLS = RECORDINGS.flatMap(({ client, version, requests }) =>
  requests.flatMap((request, index) =>
    WIRES.map((wire) => ({ name: `${client} ${version}, request ${index + 1}`, wire, request })),
  ),
);

/** Google's API names the model in the path. */
const MODEL_IN_PATH = /(?<=^\/v1beta\/models\/).+(?=:)/;

function ownWire(pathname: string): Wire {
  if (MODEL_IN_PATH.test(pathname)) return "gemini";
  if (pathname.startsWith("/v1/messages")) return "messages";
  return pathname.startsWith("/v1/chat") ? "chat" : "responses";
}

/** The error, if there is one, and what the provider got. */
async function replay(
  { method, path: pathname, headers, body: recorded }: RecordedRequest,
  wire: Wire,
): Promise<{ readonly error: unknown; readonly sent: Json }> {
  const before = harness.upstreamRequests.length;
  const isInPath = MODEL_IN_PATH.test(pathname);
  const body = isInPath ? recorded : { ...recorded, model: modelOn(wire) };
  let error: unknown;
  if (method === "WS") {
    const socket = await openSocket(harness.gateway, { ...headers, ...harness.account.headers });
    const last = await socket.create(body);
    error = last["type"] === "error" ? last["error"] : undefined;
    socket.close();
  } else {
    const response = await fetch(
      harness.gateway.url + pathname.replace(MODEL_IN_PATH, modelOn(wire)),
      {
        method,
        headers: { ...headers, ...harness.account.headers },
        body: JSON.stringify(body),
      },
    );
    const text = await response.text();
    const isFailed = /event: error|data: \{"error"/.test(text);
    error = response.status === 200 && !isFailed ? undefined : text;
  }
  return { error, sent: harness.upstreamRequests[before]?.body ?? {} };
}

/** What the gateway writes itself: the model's name at the provider, the end user's pseudonym, and the mode of a stream. */
const REWRITTEN = new Set(["model", "metadata", "stream_options", "type", "generate"]);

describe("what coding agents send", () => {
  test("was recorded of each", () => {
    expect(RECORDINGS.map(({ client }) => client)).toEqual([
      "claude-code",
      "codex-as-openai",
      "codex-other-model",
      "codex-web-socket",
      "codex",
      "gemini-cli",
      "opencode",
    ]);
  });

  test.each(CALLS)("$name is accepted for a model of $wire", async ({ request, wire }) => {
    const { error, sent } = await replay(request, wire);
    expect(error).toBeUndefined();
    if (ownWire(request.path) !== wire || request.method === "WS") return;
    const fields = Object.entries(request.body).filter(([name]) => !REWRITTEN.has(name));
    expect(sent).toMatchObject(Object.fromEntries(fields));
  });
});
