// A provider sends a whole reply at once while the store cannot raise the hold: the client gets no more than is held for, and
// the rest once it is.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { TRANCHE_TOKENS } from "../../../src/inference/streaming/recent-outputs.ts";
import { eventually } from "../../support/eventually.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import { type GatedSimulator, startGatedSimulator } from "../support/gated-simulator.ts";
import {
  bodyOf,
  expectSettledLedger,
  grantCredits,
  isCompleteStream,
  type Json,
  postCall,
  STREAMED_APIS,
  usageRecordsOf,
  USD,
} from "../support/harness.ts";
import { withModels } from "../support/models-file.ts";

const MODEL = {
  id: "sim/large",
  wires: ["chat", "responses", "messages"],
  context_length: 1_000_000,
  max_output_tokens: 128_000,
  pricing: { tokens: { input: "5", output: "25" } },
};
const LIMIT_OF = { chat: "max_tokens", messages: "max_tokens", responses: "max_output_tokens" };
const TOKENS = 20_000;
/** Requests that the gateway serves meanwhile: what it could relay, it has relayed by then. */
const TURNS = 5;

for (const store of STORE_KINDS)
  describe(`output that is ahead of its hold on ${store}`, () => {
    let gate: GatedSimulator;
    let gateway: Gateway;
    beforeAll(async () => {
      gate = startGatedSimulator();
      const env = { ...withModels([MODEL]), SIM_BASE_URL: gate.url };
      gateway = await startGateway({ store, env });
    });
    afterAll(async () => {
      await expectSettledLedger(gateway.server.db);
      await gateway.stop();
      await gate.stop();
    });

    /** No hold of the account can be raised until `release` is called. */
    const lockWallet = async ({ id }: TestAccount): Promise<() => Promise<void>> => {
      const locked = Promise.withResolvers<void>();
      const released = Promise.withResolvers<void>();
      const written = gateway.server.db.write(async (tx) => {
        await tx.run("update wallet set held = held where account_id = ?", [id]);
        locked.resolve();
        await released.promise;
      });
      await locked.promise;
      return async () => {
        released.resolve();
        await written;
      };
    };

    for (const api of STREAMED_APIS)
      for (const events of [1, 50, 2_000])
        test(`is not relayed before it is held for (${api}, ${events} events)`, async () => {
          const account = await registerAccount(gateway);
          await grantCredits(gateway, account, 2n * USD);
          gate.close();
          const text = `[[sim: tokens=${TOKENS} chunks=${events}]] go`;
          const more: Json = { model: MODEL.id, stream: true, [LIMIT_OF[api]]: 128_000 };
          const pending = postCall(gateway, account, api, bodyOf(api, text, more));
          await eventually(() => gate.waiting() === 1);
          const release = await lockWallet(account);
          gate.open();
          const response = await pending;
          let received = "";
          const read = (async () => {
            const decoder = new TextDecoder();
            for await (const chunk of response.body ?? [])
              received += decoder.decode(chunk, { stream: true });
          })();
          try {
            for (let turn = 0; turn < TURNS; turn++)
              await (await fetch(`${gateway.url}/v1/models`, { headers: account.headers })).text();
            // A token is at least a byte, so the first part is at most so many bytes of text.
            expect(textBytes(received)).toBeLessThanOrEqual(TRANCHE_TOKENS);
          } finally {
            await release();
          }
          await read;
          expect(isCompleteStream(api, received)).toBe(true);
          expect(textBytes(received)).toBeGreaterThan(TOKENS * 3);
          const [record] = await usageRecordsOf(gateway.server.db, account.id);
          expect(Number(record?.["output_tokens"])).toBe(TOKENS);
        });
  });

/** Of the deltas: the last event of a response repeats its text. */
function textBytes(stream: string): number {
  const deltas = stream
    .split("\n")
    .filter((line) => line.includes('delta"') && !line.includes('"response":'))
    .flatMap((line) => /"(?:content|text|delta)":"((?:[^"\\]|\\.)*)"/.exec(line)?.[1] ?? []);
  return deltas.reduce((sum, text) => sum + text.length, 0);
}
