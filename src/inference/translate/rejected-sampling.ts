// Sampling parameters that a model rejects even on its own API, so that a call which changes only `model` is answered.

import { EFFORTS, type Abilities, canSample, API_TRAITS } from "@postern/wires";
import { isSet, type JsonObject, valueAt } from "../../base/json.ts";
import type { Model } from "../../models/catalog.ts";
import { abilitiesOf } from "./abilities.ts";
import type { StreamingApi } from "./stream-transform.ts";

const NOTHING: readonly string[] = [];

/** The names of the fields to leave out. The value 1 is every model's default and accepted. */
export function rejectedSampling(
  api: StreamingApi,
  json: JsonObject,
  model: Model,
): readonly string[] {
  const { temperature, top_p: topP, top_k: topK } = json;
  if (!isSet(temperature) && !isSet(topP) && !isSet(topK)) return NOTHING;
  const abilities = abilitiesOf(model);
  if (takesSampling(api, json, abilities))
    return abilities.singleSampling === true && isSet(temperature) && isSet(topP)
      ? ["top_p"]
      : NOTHING;
  return [
    ...(isSet(temperature) && temperature !== 1 ? ["temperature"] : []),
    ...(isSet(topP) && topP !== 1 ? ["top_p"] : []),
    ...(isSet(topK) ? ["top_k"] : []),
  ];
}

function takesSampling(api: StreamingApi, json: JsonObject, abilities: Abilities): boolean {
  const { effortPath } = API_TRAITS[api];
  if (effortPath === undefined) return abilities.sampling !== false;
  const effort = valueAt(json, effortPath);
  return canSample(
    abilities,
    EFFORTS.find((one) => one === effort),
  );
}
