// Calls where it is told to, a line each, in a process that trusts what its environment says.

import { createInterface } from "node:readline";
import { type Send, sendByFetch, createHttpClient } from "../../src/http-client/client.ts";
import { nextChunk } from "../../src/http-client/body-stream.ts";

const clients: Readonly<Record<string, Send>> = {
  own: createHttpClient().send,
  runtime: sendByFetch,
};

async function call(way: string, url: string, bodyBytes: number): Promise<string> {
  const { body, status } = await (clients[way] ?? sendByFetch)({
    url,
    headers: { authorization: "Bearer top-secret" },
    body: "x".repeat(bodyBytes),
    signal: AbortSignal.timeout(5_000),
  });
  const pieces: Uint8Array[] = [];
  for (let piece = await nextChunk(body); piece !== undefined; piece = await nextChunk(body))
    pieces.push(piece);
  return `${status} ${Buffer.concat(pieces).toString()}`;
}

for await (const line of createInterface({ input: process.stdin })) {
  const [way = "", url = "", bodyBytes = "0"] = line.split(" ");
  const told = await call(way, url, Number(bodyBytes)).catch(
    (error: unknown) => `error ${String(error)}`,
  );
  console.log(`told ${told.replaceAll("\n", " ")}`);
}
process.exit(0);
