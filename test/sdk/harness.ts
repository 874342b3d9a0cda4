// A gateway for the official clients: its own simulated models, and two providers whose address is the simulator's.

import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";
import { grantCredits, USD } from "../inference/support/harness.ts";

export interface SdkHarness {
  readonly gateway: Gateway;
  readonly account: TestAccount;
  readonly unfundedAccount: TestAccount;
  readonly stop: () => Promise<void>;
}

export async function startSdkHarness(): Promise<SdkHarness> {
  const gateway = await startGateway({ providers: ["sim", "openai", "anthropic"] });
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

/** The error that a promise ends with. */
export async function caughtError(promise: PromiseLike<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}
