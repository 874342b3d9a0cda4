// A guardrail as the API has it.

import { z } from "zod";
import { isSafeText, UNSAFE_TEXT_MESSAGE } from "../base/text/safe-text.ts";
import { timestamp } from "../http/schemas.ts";
import type { Guardrail } from "./guardrails.ts";
import { ENTITIES } from "./patterns.ts";

const Phases = z
  .array(z.enum(["input", "output"]))
  .min(1)
  .max(2)
  .default(["input", "output"])
  .meta({ description: "What is checked: requests, replies, or both." });

const HookSettings = z.strictObject({
  type: z.literal("hook"),
  url: z.string().min(1).max(2_048).meta({ description: "An HTTPS URL that gets the texts." }),
  phases: Phases,
  on_failure: z.enum(["deny", "allow"]).default("deny").meta({
    description: "What happens to a call whose hook fails or is late.",
  }),
  timeout_ms: z.int().min(100).max(10_000).default(2_000),
});

const PatternSettings = z.strictObject({
  type: z.literal("patterns"),
  entities: z
    .array(z.enum(ENTITIES))
    .min(1)
    .max(ENTITIES.length)
    .meta({ description: "What is looked for." }),
  action: z.enum(["mask", "deny"]).default("mask").meta({
    description: "`mask` replaces a match, such as with `[EMAIL]`; `deny` refuses the call.",
  }),
  phases: Phases,
});

const TopicSettings = z.strictObject({
  type: z.literal("topics"),
  topics: z
    .array(z.string().trim().min(1).max(200).refine(isSafeText, UNSAFE_TEXT_MESSAGE))
    .min(1)
    .max(10)
    .meta({ description: "Topics that texts must not be about, such as `legal advice`." }),
  model: z.string().max(200).optional().meta({
    description: "The model that decides. Left out, the first that answers decisions.",
  }),
  threshold: z.number().min(0.01).max(1).default(0.5).meta({
    description: "The probability from which a text is denied.",
  }),
  on_failure: z.enum(["deny", "allow"]).default("deny").meta({
    description: "What happens to a call whose check fails.",
  }),
  phases: Phases.default(["input"]).meta({
    description: "What is checked: requests, replies, or both. Each check is charged.",
  }),
});

export const GuardrailSettings = z.discriminatedUnion("type", [
  PatternSettings,
  HookSettings,
  TopicSettings,
]);

export const GuardrailRecord = z
  .object({
    object: z.literal("guardrail"),
    name: z.string(),
    created_at: z.string(),
    updated_at: z.string(),
    settings: GuardrailSettings.meta({ description: "What it checks, and how." }),
  })
  .meta({ id: "Guardrail" });

export const SETTINGS_EXAMPLE = {
  type: "patterns",
  entities: ["api_key", "email"],
  action: "mask",
  phases: ["input", "output"],
};
export const GUARDRAIL_EXAMPLE = {
  object: "guardrail",
  name: "no-secrets",
  created_at: "2026-11-28T09:30:00.000Z",
  updated_at: "2026-11-28T09:30:00.000Z",
  settings: SETTINGS_EXAMPLE,
};

export function toGuardrailRecord({ name, createdAt, updatedAt, settings }: Guardrail) {
  return {
    object: "guardrail",
    name,
    created_at: timestamp(createdAt),
    updated_at: timestamp(updatedAt),
    settings,
  };
}
