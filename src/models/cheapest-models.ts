// The cheapest models that can be called now, for documents and new accounts.

import type { Pico } from "../base/money/money.ts";
import type { Model } from "./catalog.ts";
import { cardAt } from "./price-card.ts";

export interface CheapModel {
  readonly id: string;
  /** Pico-USD per token. */
  readonly input: Pico;
  readonly output: Pico;
}

/** A short question and its reply. */
const INPUT_TOKENS = 200n;
const OUTPUT_TOKENS = 100n;

/** Models that write text, the cheapest first; simulated ones only where there are no others. */
export function cheapestModels(
  models: readonly Model[],
  isAvailable: (providerId: string) => boolean,
  now: number,
): readonly CheapModel[] {
  const callable = models.filter(
    (model) =>
      isAvailable(model.provider) &&
      model.kind === "chat" &&
      model.outputModalities.includes("text"),
  );
  const real = callable.filter(({ simulated }) => !simulated);
  return (real.length > 0 ? real : callable)
    .flatMap((model) => cheapModel(model, now) ?? [])
    .toSorted((one, other) => Number(priceOf(one) - priceOf(other)));
}

function priceOf({ input, output }: CheapModel): Pico {
  return input * INPUT_TOKENS + output * OUTPUT_TOKENS;
}

/** A free model may have limits of its own, so it is no example of a price. */
function cheapModel({ id, prices }: Model, now: number): CheapModel | undefined {
  const { input, output } = cardAt(prices, now)?.base ?? {};
  if (input === undefined || output === undefined || input + output === 0n) return undefined;
  return { id, input, output };
}
