import {
  type JsonObject,
  arrayIn,
  isObject,
  numberIn,
  objectIn,
  stringIn,
} from "../../../../base/json.ts";
import type { TokenLogprob } from "../../../canonical/parts.ts";

/** The tokens that were chosen and, beside each, those that were likeliest at its place. */
export function readLogprobs(candidate: JsonObject): TokenLogprob[] | undefined {
  const result = objectIn(candidate["logprobsResult"]);
  if (result === undefined) return undefined;
  const top = arrayIn(result["topCandidates"]);
  const chosen = arrayIn(result["chosenCandidates"]).filter(isObject);
  if (chosen.length === 0) return undefined;
  return chosen.map((one, at) => readToken(one, arrayIn(objectIn(top[at])?.["candidates"])));
}

function readToken(one: JsonObject, top?: readonly unknown[]): TokenLogprob {
  const token = stringIn(one["token"]) ?? "";
  return {
    token,
    logprob: numberIn(one["logProbability"]) ?? 0,
    bytes: [...Buffer.from(token)],
    top: top?.filter(isObject).map((other) => readToken(other)),
  };
}
