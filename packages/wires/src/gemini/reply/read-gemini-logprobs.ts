import type { TokenLogprob } from "../../canonical/canonical-parts.ts";
import {
  arrayIn,
  isObject,
  type JsonObject,
  numberIn,
  objectIn,
  stringIn,
} from "../../json-fields.ts";

/** The chosen tokens, each with the most likely alternatives. */
export function readLogprobs(candidate: JsonObject): TokenLogprob[] | undefined {
  const result = objectIn(candidate["logprobsResult"]);
  if (result === undefined) return undefined;
  const top = arrayIn(result["topCandidates"]);
  const chosen = arrayIn(result["chosenCandidates"]).filter(isObject);
  if (chosen.length === 0) return undefined;
  return chosen.map((candidateToken, index) =>
    readToken(candidateToken, arrayIn(objectIn(top[index])?.["candidates"])),
  );
}

function readToken(candidateToken: JsonObject, top?: readonly unknown[]): TokenLogprob {
  const token = stringIn(candidateToken["token"]) ?? "";
  return {
    token,
    logprob: numberIn(candidateToken["logProbability"]) ?? 0,
    bytes: [...Buffer.from(token)],
    top: top?.filter(isObject).map((other) => readToken(other)),
  };
}
