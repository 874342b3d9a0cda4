// When and how a client leaves a stream, once the provider has its request.

import type { SocketClient } from "./socket-client.ts";

/** Texts that the client receives with the first event, with a tool call and with the end of the reply. */
export interface StreamTexts {
  readonly first: string;
  readonly toolCall: string;
  readonly last: string;
}

export type Leave = (client: SocketClient, texts: StreamTexts) => Promise<void>;

export const WAYS_OF_LEAVING: Readonly<Record<string, Leave>> = {
  "before the first byte": async (client) => client.disconnect(),
  "after the first event": async (client, { first }) => {
    await client.waitForText(first);
    client.disconnect();
  },
  "at a tool call": async (client, { toolCall }) => {
    await client.waitForText(toolCall);
    client.disconnect();
  },
  "at the last byte": async (client, { last }) => {
    await client.waitForText(last);
    client.disconnect();
  },
  "half-closed": async (client, { first }) => {
    await client.waitForText(first);
    client.halfClose();
  },
  "with a pipelined request": async (client, { first }) => {
    await client.waitForText(first);
    client.send("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    client.disconnect();
  },
};
