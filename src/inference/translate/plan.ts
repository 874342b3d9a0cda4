// Plans how a call reaches the provider's API and how its reply comes back: passed through on the caller's own wire,
// translated between two wires.

import {
  type Abilities,
  InvalidRequest,
  API_TRAITS,
  searchesOnlyOnResponses,
  WIRE_TRAITS,
} from "@postern/wires";
import { invalid } from "../../base/fault.ts";
import { isObject, isSet, type JsonObject, valueAt } from "../../base/json.ts";
import { abilitiesOf } from "../../models/model-abilities.ts";
import type { Candidate } from "../routing/candidates.ts";
import { rejectDropped } from "./losses.ts";
import { passthroughPlan } from "./passthrough-plan.ts";
import { rejectStoringFields } from "./provider-store.ts";
import { relayedPlan } from "./relayed-plan.ts";
import { isStreamingApi, type StreamingApi } from "./stream-transform.ts";
import { runsGatewayTools, translationPlan } from "./translation-plan.ts";
import type { PlanInput, TransportPlan } from "./transport-plan.ts";

export function planFor(input: PlanInput): TransportPlan {
  try {
    return choosePlan(input);
  } catch (error) {
    if (error instanceof InvalidRequest) throw invalid(error.path, error.message);
    throw error;
  }
}

function choosePlan(input: PlanInput): TransportPlan {
  const { api, json } = input.request;
  const { credential, model, wires } = input.candidate;
  rejectStoringFields(json, credential);
  const { relayed } = API_TRAITS[api];
  const isPassthrough =
    !isStreamingApi(api) ||
    (wires[0] === api && !runsGatewayTools(input) && !needsTranslation(api, json, model));
  const plan =
    relayed !== undefined
      ? relayedPlan(input, relayed)
      : isPassthrough
        ? passthroughPlan(input)
        : translationPlan(input, api);
  if (input.isStrict) rejectDropped(plan.dropped, model.id);
  return plan;
}

// A model without a JSON schema field, or without custom tools or search options, would reject them even on its own API.
function needsTranslation(api: StreamingApi, json: JsonObject, model: Candidate["model"]): boolean {
  const abilities = abilitiesOf(model);
  const { takesCustomTools, sibling } = WIRE_TRAITS[api];
  const { hasOptionalCustomTools, searchField, schemaPath } = API_TRAITS[api];
  if (hasOptionalCustomTools && hasTool(json, "custom") && !takesCustomTools(abilities))
    return true;
  const offersSibling = sibling !== undefined && model.wires.includes(sibling);
  if (offersSibling && hasToolsOfSibling(api, json, abilities)) return true;
  // The gateway ends the reply at the stop sequence.
  if (abilities.stop === false && isSet(json["stop"])) return true;
  const search = searchField === undefined ? undefined : json[searchField];
  // OpenAI's models search the web on their other API.
  if (isObject(search) && sibling !== undefined && searchesOnlyOnResponses(abilities))
    return model.wires.includes(sibling);
  const value = valueAt(json, schemaPath);
  return isObject(value) && value["type"] === "json_schema" && abilities.jsonSchema === false;
}

/** Tools that the model takes only on the other API of its provider. */
function hasToolsOfSibling(api: StreamingApi, json: JsonObject, abilities: Abilities): boolean {
  const { siblingTool } = API_TRAITS[api];
  return (
    (siblingTool !== undefined && hasTool(json, siblingTool)) ||
    (hasFunctions(json) && !WIRE_TRAITS[api].takesFunctions(abilities, effortIn(json)))
  );
}

function hasTool({ tools }: JsonObject, type: string): boolean {
  return (
    Array.isArray(tools) && tools.some((tool: unknown) => isObject(tool) && tool["type"] === type)
  );
}

function hasFunctions({ tools, functions }: JsonObject): boolean {
  return [tools, functions].some((list) => Array.isArray(list) && list.length > 0);
}

function effortIn({ reasoning_effort: effort, reasoning }: JsonObject): unknown {
  return effort ?? (isObject(reasoning) ? reasoning["effort"] : undefined);
}
