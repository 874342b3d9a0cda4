// Sends a request per input line, in a process that trusts the CA certificates of its environment. Prints each chunk's size
// and the result.

import { createInterface } from "node:readline";
import { nextChunk } from "../src/body-stream.ts";
import { type Send, sendByFetch, createHttpClient } from "../src/create-http-client.ts";

const clients: Readonly<Record<string, Send>> = {
  own: createHttpClient().send,
  runtime: sendByFetch,
};

async function call(client: string, url: string, bodyBytes: number): Promise<string> {
  const { body, status } = await (clients[client] ?? sendByFetch)({
    url,
    headers: { authorization: "Bearer top-secret" },
    body: "x".repeat(bodyBytes),
    signal: AbortSignal.timeout(60_000),
  });
  const chunks: Uint8Array[] = [];
  for (let chunk = await nextChunk(body); chunk !== undefined; chunk = await nextChunk(body)) {
    chunks.push(chunk);
    console.log(`chunk ${chunk.length}`);
  }
  return `${status} ${Buffer.concat(chunks).toString()}`;
}

for await (const line of createInterface({ input: process.stdin })) {
  const [client = "", url = "", bodyBytes = "0"] = line.split(" ");
  const result = await call(client, url, Number(bodyBytes)).catch(
    (error: unknown) => `error ${String(error)}`,
  );
  console.log(`result ${result.replaceAll("\n", " ")}`);
}
process.exit(0);
