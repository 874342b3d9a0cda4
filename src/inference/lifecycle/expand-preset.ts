// `"model": "@preset/<name>"`: the call gets the settings of a preset of its workspace where it has none of its own. It is read
// before anything else, so keys, prices and limits see the call as if the caller had sent all of it.

import { API_TRAITS } from "@postern/wires";
import { Fault, invalid } from "../../base/fault.ts";
import { isObject, type JsonObject, objectIn } from "../../base/json.ts";
import { parseJsonBody } from "../../http/request/body.ts";
import { withChanges } from "../request/json-edit.ts";
import type { CallInput } from "./call.ts";

export interface PresetVersion {
  readonly version: number;
  readonly settings: JsonObject;
}

export type FindPreset = (
  accountId: string,
  name: string,
  version: number | undefined,
) => Promise<PresetVersion | undefined>;

export const PRESET_HEADER = "x-postern-preset";
const MARK = "@preset/";
/** `@preset/<name>`, with a version, or after the id of a model that replaces the preset's. */
const REFERENCE = /^(.*)@preset\/([a-z0-9][a-z0-9_-]{0,63})(?:@(\d{1,9}))?$/;

export function namesPreset({ text }: Pick<CallInput, "text">): boolean {
  return text.includes(MARK);
}

/** Not async: few calls name a preset, and a promise costs CPU. */
export function expandPreset(find: FindPreset, input: CallInput): CallInput | Promise<CallInput> {
  if (!namesPreset(input)) return input;
  const json = parseJsonBody(input.text);
  const model = objectIn(json)?.["model"];
  if (!isObject(json) || typeof model !== "string" || !model.includes(MARK)) return input;
  return expand(find, input, json, model);
}

async function expand(
  find: FindPreset,
  input: CallInput,
  json: JsonObject,
  reference: string,
): Promise<CallInput> {
  const [, ownModel = "", name, version] = REFERENCE.exec(reference) ?? [];
  if (name === undefined)
    throw invalid("model", "`model` must be `@preset/<name>` or `@preset/<name>@<version>`.");
  const { withPreset, memberName } = API_TRAITS[input.api];
  if (withPreset === undefined)
    throw invalid(
      "model",
      "Presets are for conversations, and this endpoint has none. Name a model here.",
    );
  const number = version === undefined ? undefined : Number(version);
  const preset = await find(input.caller.accountId, name, number);
  if (preset === undefined) throw presetNotFound(name, version);
  const { model, models, provider, fields, ...common } = preset.settings;
  const { model: _, ...sent } = json;
  const stated = ownModel === "" ? model : ownModel;
  const body = { ...objectIn(objectIn(fields)?.[input.api]), ...sent };
  const expanded = { model: stated, models, provider, ...withPreset(body, common) };
  const text = withChanges(input.text, json, expanded, memberName);
  return {
    ...input,
    text,
    received: input.received ?? input.text,
    preset: `${name}@${preset.version}`,
  };
}

function presetNotFound(name: string, version: string | undefined): Fault {
  const named = version === undefined ? name : `${name}@${version}`;
  return new Fault("model_not_found", "no such preset", {
    message: `This workspace has no preset \`${named}\`. List the presets with GET /v1/presets.`,
    param: "model",
    next: [{ method: "GET", url: "/v1/presets", why: "List the presets." }],
  });
}
