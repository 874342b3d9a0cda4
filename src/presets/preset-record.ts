// A preset as the API has it.

import { z } from "zod";
import { timestamp } from "../http/schemas.ts";
import type { Preset } from "./presets.ts";

const ModelId = z.string().min(1).max(256);
const Members = z.record(z.string(), z.unknown());
/** What only the call can say: the form of its reply, and its conversation. */
const FIELDS_OF_CALLS: ReadonlySet<string> = new Set([
  "model",
  "stream",
  "background",
  "messages",
  "input",
  "contents",
  "postern",
]);
const fieldsOf = (path: string) =>
  Members.refine(
    (fields) => Object.keys(fields).every((name) => !FIELDS_OF_CALLS.has(name)),
    `must not have ${[...FIELDS_OF_CALLS].join(", ")}: the call has them`,
  ).meta({ description: `Fields for ${path}.` });

export const PresetSettings = z
  .strictObject({
    model: ModelId.meta({ description: "The model, if the call names none." }),
    models: z.array(ModelId).min(1).max(10).meta({ description: "Fallback models." }),
    provider: Members.meta({ description: "Preferences of routing, as in a call." }),
    system: z
      .string()
      .min(1)
      .max(32_768)
      .meta({ description: "Text before the system text of the call." }),
    temperature: z.number().min(0).max(2).meta({ description: "As in a call." }),
    top_p: z.number().min(0).max(1).meta({ description: "As in a call." }),
    max_output_tokens: z.int().min(1),
    reasoning_effort: z
      .string()
      .min(1)
      .max(40)
      .meta({ description: "The effort, in the field of each API." }),
    fields: z
      .strictObject({
        chat: fieldsOf("/v1/chat/completions"),
        responses: fieldsOf("/v1/responses"),
        messages: fieldsOf("/v1/messages"),
        gemini: fieldsOf("/v1beta/models/{model}:generateContent"),
      })
      .partial()
      .meta({ description: "Further fields of the body by API, such as `tools`." }),
  })
  .partial();

export const PresetRecord = z
  .object({
    object: z.literal("preset"),
    name: z.string(),
    version: z.int(),
    created_at: z.string(),
    settings: PresetSettings.meta({ description: "What calls get that do not state it." }),
  })
  .meta({ id: "Preset" });

export const SETTINGS_EXAMPLE = {
  model: "sim/echo",
  system: "You are a careful reviewer.",
  temperature: 0.2,
  max_output_tokens: 1_000,
};
export const PRESET_EXAMPLE = {
  object: "preset",
  name: "reviewer",
  version: 1,
  created_at: "2026-11-28T09:30:00.000Z",
  settings: SETTINGS_EXAMPLE,
};
export function toPresetRecord({ name, version, createdAt, settings }: Preset) {
  return { object: "preset", name, version, created_at: timestamp(createdAt), settings };
}
