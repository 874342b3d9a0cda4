// A gateway for the official clients, with simulated models and two providers served by the simulator.

import { grantCredits, simStats, USD } from "../inference/support/harness.ts";
import { eventually } from "../support/eventually.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";

export interface SdkHarness {
  readonly gateway: Gateway;
  readonly account: TestAccount;
  readonly unfundedAccount: TestAccount;
  readonly stop: () => Promise<void>;
}

export async function startSdkHarness(
  providers: readonly string[] = ["sim", "openai", "anthropic"],
): Promise<SdkHarness> {
  const gateway = await startGateway({ providers });
  const account = await registerAccount(gateway);
  await grantCredits(gateway, account, 100n * USD);
  return { gateway, account, unfundedAccount: await registerAccount(gateway), stop: gateway.stop };
}

export const WEATHER_SCHEMA = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer", minimum: 1, maximum: 7 } },
  required: ["city", "days"],
  additionalProperties: false,
} as const;

/** Waits until the simulator has no open streams. */
export async function expectNoOpenStreams(gateway: Gateway): Promise<void> {
  await eventually(async () => (await simStats(gateway)).open_streams === 0);
}

/** The error of a rejected promise; throws if it is fulfilled. */
export async function caughtError(promise: PromiseLike<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("the promise was fulfilled");
}
