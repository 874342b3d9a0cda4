// A gateway for the official clients: its own simulated models, and two providers whose address is the simulator's.

import { type Account, type Gateway, register, startGateway } from "../support/gateway.ts";
import { fund, USD } from "../inference/world.ts";

export interface Place {
  readonly gateway: Gateway;
  readonly account: Account;
  readonly poor: Account;
  readonly stop: () => Promise<void>;
}

export async function startPlace(): Promise<Place> {
  const gateway = await startGateway({ providers: ["sim", "openai", "anthropic"] });
  const account = await register(gateway);
  await fund(gateway, account, 100n * USD);
  return { gateway, account, poor: await register(gateway), stop: gateway.stop };
}

export const WEATHER = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer", minimum: 1, maximum: 7 } },
  required: ["city", "days"],
  additionalProperties: false,
} as const;

/** The error that a promise ends with. */
export async function errorOf(promise: PromiseLike<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}
