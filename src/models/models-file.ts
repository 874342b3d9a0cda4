// The operator's models file: models, prices and providers as JSON, documented in `docs/site/models.md`. Unknown keys are
// rejected, so that a misspelled one is not ignored.

import { FEE_METERS, MODEL_KINDS, RELAYED_APIS, TOKEN_METERS } from "@postern/wires";
import { z } from "zod";
import { jsonErrorLine } from "../base/json-error-line.ts";
import { picoPerUnit, ratioOf } from "./price-card.ts";

const Decimal = z
  .union([z.string(), z.number()])
  .refine(
    (value) => isParsable(() => picoPerUnit(value)),
    'must be a decimal of at least 0, such as "0.15"',
  );
const Factor = z
  .union([z.string(), z.number()])
  .refine((value) => isParsable(() => ratioOf(value)), 'must be a factor such as "0.5" or "5/3"');

const Tokens = z.partialRecord(z.enum(TOKEN_METERS), Decimal);
const Fees = z.partialRecord(z.enum(FEE_METERS), Decimal);
const Factors = z.record(z.string(), Factor);
const TimeOfDay = z
  .string()
  .regex(/^([01]\d|2[0-3]):[0-5]\d$/, 'must be a time of day in UTC, such as "01:30"');

export const PricingEntry = z.strictObject({
  tokens: Tokens.refine((tokens) => tokens.input !== undefined, "must have a price for `input`"),
  fees: Fees.optional(),
  tiers: z
    .array(z.strictObject({ above_input_tokens: z.int().positive(), tokens: Tokens }))
    .optional(),
  service_tiers: Factors.optional(),
  speeds: Factors.optional(),
  regions: Factors.optional(),
  once_per_call: z.array(z.enum(FEE_METERS)).optional(),
  request_fees: z.record(z.string(), Decimal).optional(),
  image_fees: z
    .strictObject({
      usd: z.record(z.string(), z.record(z.string(), Decimal)),
      default_size: z.string(),
      default_quality: z.string(),
    })
    .optional(),
  from: z
    .string()
    .refine(
      (text) => /^\d{4}-\d{2}-\d{2}/.test(text) && !Number.isNaN(Date.parse(text)),
      'must be a date, such as "2026-12-01"',
    )
    .optional(),
  hours: z
    .strictObject({
      start: TimeOfDay,
      end: TimeOfDay,
      weekdays: z.array(z.int().min(0).max(6)).optional(),
    })
    .optional(),
});

const WireName = z.enum(["chat", "responses", "messages", "gemini", "converse", ...RELAYED_APIS]);
const ModalityName = z.enum(["text", "image", "audio", "video", "file"]);
const AbilityName = z.enum([
  "tools",
  "parallel_tools",
  "structured_output",
  "reasoning",
  "vision",
  "prompt_caching",
  "web_search",
]);

const ModelEntry = z.strictObject({
  id: z.string().regex(/^[a-z0-9][a-z0-9_-]*\/\S+$/, "must be `<provider>/<name>`"),
  name: z.string().min(1).optional(),
  title: z.string().min(1).optional(),
  kind: z.enum(MODEL_KINDS).optional(),
  aliases: z.array(z.string().min(1)).optional(),
  context_length: z.int().positive().nullable().optional(),
  max_output_tokens: z.int().positive().nullable().optional(),
  input_modalities: z.array(ModalityName).min(1).optional(),
  output_modalities: z.array(ModalityName).min(1).optional(),
  supported: z.array(AbilityName).optional(),
  wires: z.array(WireName).min(1).optional(),
  pricing: z.union([PricingEntry, z.array(PricingEntry).min(1)]).optional(),
  priced_like: z.string().optional(),
  same_as: z.string().min(1).optional(),
});

const VariableName = z
  .string()
  .regex(/^[A-Z][A-Z0-9_]*$/, "must be the name of an environment variable");

/** Names the key in the settings of a provider, beside those of `credentials`. */
export const GATEWAY_CREDENTIAL = "gateway";

const ProviderEntry = z.strictObject({
  id: z
    .string()
    .regex(/^[a-z0-9][a-z0-9_-]{0,31}$/, "must be lowercase letters, digits, `-` and `_`"),
  base_url: z.url({ protocol: /^https?$/ }),
  wires: z.array(WireName).min(1),
  api_key_env: VariableName.optional(),
  stops_billing_on_abort: z.boolean().default(false),
  request_timeout_seconds: z.int().positive().optional(),
  stream_timeout_seconds: z.int().positive().optional(),
});

/** One more key of the gateway at a provider. A file can be replaced while the gateway runs, an environment variable cannot. */
const CredentialEntry = z
  .strictObject({
    provider: z.string().min(1),
    name: z
      .string()
      .regex(/^[a-z0-9][a-z0-9_-]{0,31}$/, "must be lowercase letters, digits, `-` and `_`")
      .refine((name) => name !== GATEWAY_CREDENTIAL, "is the name of the key in the settings"),
    api_key_env: VariableName.optional(),
    api_key_file: z.string().min(1).optional(),
    weight: z.number().min(0).max(1_000).default(1),
  })
  .refine(
    (entry) => (entry.api_key_env === undefined) !== (entry.api_key_file === undefined),
    "needs either `api_key_env` or `api_key_file`",
  );

const FileSchema = z.strictObject({
  $schema: z.string().optional(),
  providers: z.array(ProviderEntry).default([]),
  credentials: z.array(CredentialEntry).default([]),
  models: z.array(ModelEntry).default([]),
  hide: z.array(z.string().min(1)).default([]),
});

export type ModelsFile = z.infer<typeof FileSchema>;
export type OperatorModel = z.infer<typeof ModelEntry>;
/** A provider declared by the operator: any server that supports one of our wires. */
export type OperatorProvider = z.infer<typeof ProviderEntry>;
export type OperatorCredential = z.infer<typeof CredentialEntry>;

/** Parses the models file. Throws one error that lists all problems, each with its path. */
export function parseModelsFile(text: string): ModelsFile {
  const parsed = FileSchema.safeParse(parseJson(text));
  if (!parsed.success)
    throw new Error(
      `The models file is not valid:\n${parsed.error.issues.map(issueText).join("\n")}`,
    );
  const repeated = [
    ...duplicateIds(parsed.data.models, "models"),
    ...duplicateIds(parsed.data.providers, "providers"),
    ...duplicateIds(
      parsed.data.credentials.map(({ provider, name }) => ({ id: `${provider}/${name}` })),
      "credentials",
    ),
  ];
  if (repeated.length > 0) throw new Error(`The models file is not valid:\n${repeated.join("\n")}`);
  return parsed.data;
}

/** True if the id matches a pattern of `hide`, in which `*` matches anything. */
export function isHidden(patterns: readonly string[], id: string): boolean {
  return patterns.some((pattern) =>
    new RegExp(
      `^${pattern
        .split("*")
        .map((part) => RegExp.escape(part))
        .join(".*")}$`,
    ).test(id),
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Error(
      `The models file is not valid JSON in line ${jsonErrorLine(text)}: ${cause instanceof Error ? cause.message : String(cause)}. Check for a missing or trailing comma, bracket or quote there.`,
      { cause },
    );
  }
}

function issueText(issue: z.core.$ZodIssue): string {
  const path = issue.path
    .map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`))
    .join("");
  return `  ${path.replace(/^\./, "") || "(the whole file)"}: ${issue.message}`;
}

function duplicateIds(entries: readonly { readonly id: string }[], list: string): string[] {
  const seen = new Set<string>();
  return entries.flatMap(({ id }, index) => {
    if (seen.has(id))
      return [
        `  ${list}[${index}]${list === "credentials" ? "" : ".id"}: "${id}" is defined twice`,
      ];
    seen.add(id);
    return [];
  });
}

function isParsable(read: () => unknown): boolean {
  try {
    read();
    return true;
  } catch {
    return false;
  }
}
