// The bounds of a request to a relayed endpoint, which has no conversation: its texts, its output, and the units of a model that
// is priced by unit, such as an image or a search.

import { API_TRAITS, FEE_METERS } from "@postern/wires";
import type { UsageBounds } from "../../models/price-bound.ts";
import type { PriceCard } from "../../models/price.ts";
import type { Provider } from "../providers/providers.ts";
import { commonForm } from "../request/common-form.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import { audioSecondsBound, type MediaLimits } from "./input-bound.ts";

type Bounded = Pick<ParsedRequest, "api" | "json" | "outputMax">;

export function textBounds({ api, json }: Bounded): Pick<MediaLimits, "texts" | "repeatedBytes"> {
  const { relayed } = API_TRAITS[api];
  return { texts: relayed?.countTexts(json), repeatedBytes: relayed?.repeatedBytes(json) };
}

/** A relayed endpoint computes the limit from the request, such as the number and size of images: its models state none. */
export function outputLimitOf({ api, outputMax = 0 }: Bounded, modelMax: number): number {
  return API_TRAITS[api].relayed === undefined ? modelMax : outputMax;
}

/** The request with the output limit that a translation sends. */
export function withSentOutput<T extends Bounded>(
  request: T,
  { relayedForm = "standard" }: Pick<Provider, "relayedForm">,
): T {
  const translation = API_TRAITS[request.api].relayed?.translations?.[relayedForm];
  return translation?.outputTokensMax !== undefined
    ? { ...request, outputMax: translation.outputTokensMax }
    : request;
}

/** The size and quality that the price of an image can depend on. */
export function imageClassOf({ api, json }: Bounded): string | undefined {
  return API_TRAITS[api].relayed?.imageClass?.(json);
}

/** The units that the model has a price for. Other models of the endpoint are priced by token. */
export function pricedUnits(
  { api, json }: Bounded,
  cards: readonly PriceCard[],
  { audioSecondsMin = 0 }: Pick<Provider, "audioSecondsMin">,
): UsageBounds["fees"] | undefined {
  const bounds: UsageBounds["fees"] = API_TRAITS[api].relayed?.unitsMax(json);
  if (bounds === undefined) return undefined;
  const units =
    bounds.audio_second === undefined
      ? bounds
      : { ...bounds, audio_second: Math.max(audioSecondsMin, bounds.audio_second) };
  const priced = FEE_METERS.filter(
    (fee) => units[fee] !== undefined && cards.some(({ base }) => base[fee] !== undefined),
  );
  if (priced.length === 0) return undefined;
  return Object.fromEntries(priced.map((fee) => [fee, units[fee]]));
}

/** The most seconds of audio, if they have a price. */
export function pricedSeconds(
  request: ParsedRequest,
  cards: readonly PriceCard[],
  max: number,
): number {
  const isPricedBySecond = cards.some(({ base }) => (base.audio_second ?? 0n) > 0n);
  return isPricedBySecond ? audioSecondsBound(commonForm(request), max) : 0;
}
