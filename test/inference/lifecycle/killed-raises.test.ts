// A gateway that is killed after holds were raised and before they are raised again: nothing of them is lost, and calls that
// had no end are not charged.

import { afterAll, expect, test } from "bun:test";
import {
  createTempFolder,
  type RunningProcess,
  runPostern,
  startPostern,
  stopAll,
} from "../../commands/run-postern.ts";
import { call } from "../../responses/harness.ts";
import { eventually } from "../../support/eventually.ts";
import { registerAccount, startSimulator, type TestAccount } from "../../support/gateway.ts";
import { migratedPostgres } from "../../support/stores/postgres.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  bodyOf,
  isCompleteStream,
  type Json,
  postCall,
  STREAMED_APIS,
} from "../support/harness.ts";
import { withModels } from "../support/models-file.ts";

afterAll(stopAll);

/** A credit is a millionth of a dollar. Registration grants 50,000. */
const CREDITS = 50_000;
const MODEL = {
  id: "sim/long",
  wires: ["chat", "responses", "messages"],
  context_length: 1_000_000,
  max_output_tokens: 128_000,
  pricing: { tokens: { input: "0", output: "1" } },
};
const LIMIT_OF = { chat: "max_tokens", messages: "max_tokens", responses: "max_output_tokens" };
const FIRST_CREDITS = 4_096;
const SLOW = "[[sim: tokens=7000 chunks=700 pace=4]] go";
/** Three streams, and a whole reply that is collected from one. */
const CALLS = [...STREAMED_APIS.map((api) => [api, true] as const), ["chat", false] as const];
const KILLS = { sqlite: 2, postgres: 1 } as const;

for (const store of STORE_KINDS)
  test(`raised holds survive ${KILLS[store]} kills between two raises on ${store}`, async () => {
    const folder = createTempFolder();
    const simulator = startSimulator({});
    const settings = {
      ...folder.settings,
      SIM_BASE_URL: simulator.url,
      SIM_API_KEY: "upstream-test-key",
      // A start releases the holds of the process that it follows.
      POSTERN_PROCESS_NAME: "only",
      ...withModels([MODEL]),
      ...(store === "sqlite" ? {} : { DATABASE_URL: await migratedPostgres() }),
    };
    let running = await startPostern(["serve"], settings);
    const account = await registerAccount(running);
    let spent = 0;

    for (let kill = 1; kill <= KILLS[store]; kill++) {
      const ended = CALLS.map(([api, stream]) =>
        send(running, account, api, { stream, text: SLOW }),
      );
      // The last raise of the first kill is the first of a call; later ones are killed further on.
      await eventually(
        async () =>
          (await balanceOf(running, account)).held_credits > FIRST_CREDITS * (CALLS.length + kill),
      );
      process.kill(-Number(running.process.pid), "SIGKILL");
      await running.exited;
      expect((await Promise.all(ended)).map(({ isWhole }) => isWhole)).not.toContain(true);
      running = await startPostern(["serve"], settings);
      const { credits } = await eventually(async () => {
        const balance = await balanceOf(running, account);
        return balance.held_credits === 0 && balance;
      });
      expect(credits).toBe(CREDITS - spent);
      // The same key goes on, and pays what it gets, once.
      const { isWhole } = await send(running, account, "messages", {
        stream: true,
        text: "[[sim: tokens=6000 chunks=600]] go",
      });
      expect(isWhole).toBe(true);
      spent += 6_000;
    }

    expect(await balanceOf(running, account)).toEqual({
      credits: CREDITS - spent,
      held_credits: 0,
    });
    const usage = await call(running, account, "GET /v1/usage?limit=100");
    const records = usage.json["data"] as readonly Json[];
    expect(records.map(({ cost_usd: cost }) => Number(cost))).toEqual(
      Array.from({ length: KILLS[store] }, () => 0.006),
    );
    process.kill(-Number(running.process.pid), "SIGKILL");
    await running.exited;
    const verified = await runPostern(["admin", "verify-ledger"], settings);
    expect(verified.stdout).toContain("No differences.");
    await simulator.stop();
    folder.remove();
  });

interface Balance {
  readonly credits: number;
  readonly held_credits: number;
}

async function balanceOf(gateway: RunningProcess, account: TestAccount): Promise<Balance> {
  const { json } = await call(gateway, account, "GET /v1/account");
  const { credits, held_credits } = json["balance"] as Json;
  return { credits: Number(credits), held_credits: Number(held_credits) };
}

/** Whether the whole reply arrived. */
async function send(
  gateway: RunningProcess,
  account: TestAccount,
  api: (typeof STREAMED_APIS)[number],
  { stream, text }: { readonly stream: boolean; readonly text: string },
): Promise<{ readonly isWhole: boolean }> {
  const body = bodyOf(api, text, { model: MODEL.id, stream, [LIMIT_OF[api]]: 128_000 });
  let received = "";
  try {
    const response = await postCall(gateway, account, api, body);
    for await (const chunk of response.body ?? []) received += new TextDecoder().decode(chunk);
  } catch {
    return { isWhole: false };
  }
  return { isWhole: stream ? isCompleteStream(api, received) : received.endsWith("}") };
}
