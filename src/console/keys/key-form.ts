// The form of a key's settings: its fields as text, and the settings that they mean.

import { z } from "zod";
import { dataRulesText, parseDataRules } from "../../base/data-rules.ts";
import { invalid } from "../../base/fault.ts";
import { plainAmount } from "../../base/money/amount-text.ts";
import { usdText } from "../../base/money/money.ts";
import { DAY_MS, utcDay } from "../../base/time.ts";
import type { FormError } from "../../http/pages/page-response.ts";
import { MODEL_CALL_SCOPES } from "../../http/scopes.ts";
import { toCredentialSettings } from "../../keys/key-credential.ts";
import { POLICY_SCHEMA } from "../../keys/key-record.ts";
import type { KeySettings, PolicyChange } from "../../keys/key-settings.ts";
import type { Key } from "../../keys/key.ts";
import { USAGE_APIS } from "../../usage/usage.ts";
import { parseLimit } from "./limit-form.ts";

export const RESTRICTION_FIELDS = [
  "allowed_models",
  "allowed_providers",
  "allowed_endpoints",
  "allowed_mcp_servers",
  "requests_per_minute",
  "tokens_per_minute",
  "max_concurrent_calls",
  "max_price_per_million_usd",
  "session_limit_usd",
  "session",
  "data_policy",
  "receipts",
  "cache_ttl",
  "prompt_logging",
  "alert_percents",
] as const;

const FIELD_NAMES = [
  "name",
  "limit_usd",
  "limit_window",
  "last_day",
  "access",
  ...RESTRICTION_FIELDS,
  "oidc_issuer",
  "oidc_subject",
] as const;
export type KeyField = (typeof FIELD_NAMES)[number];

/** The entered values. */
export type KeyFormValues = Readonly<Partial<Record<KeyField, string | undefined>>>;

/** What is wrong, and with which field; without one, with the form. */
export interface KeyFormError {
  readonly field: KeyField | undefined;
  readonly message: string;
}

export const KEY_FIELDS = {
  name: z.string().optional(),
  limit_usd: z.string().optional(),
  limit_window: z.string().optional(),
  last_day: z.string().optional(),
  access: z.enum(["all", "models", "custom"]).optional(),
  allowed_models: z.string().optional(),
  allowed_providers: z.string().optional(),
  allowed_endpoints: z.string().optional(),
  allowed_mcp_servers: z.string().optional(),
  requests_per_minute: z.string().optional(),
  tokens_per_minute: z.string().optional(),
  max_concurrent_calls: z.string().optional(),
  max_price_per_million_usd: z.string().optional(),
  session_limit_usd: z.string().optional(),
  session: z.string().optional(),
  data_policy: z.string().optional(),
  receipts: z.string().optional(),
  cache_ttl: z.string().optional(),
  prompt_logging: z.string().optional(),
  alert_percents: z.string().optional(),
};

/** Only the form of a new key has these fields. */
export const IDENTITY_FIELDS = {
  oidc_issuer: z.string().optional(),
  oidc_subject: z.string().optional(),
};

/** The form of a key as it is. */
export function keyFormValues(key: Key): KeyFormValues {
  const { policy, limit, expiresAt, scopes } = key;
  const plain = (value: string | number | undefined): string => String(value ?? "");
  const lines = (values: readonly string[] | undefined): string => values?.join("\n") ?? "";
  return {
    name: key.name ?? "",
    limit_usd: limit === null ? "" : usdText(limit),
    limit_window: key.limitWindow ?? "",
    last_day: expiresAt === null ? "" : utcDay(expiresAt - 1),
    access: scopes === null ? "all" : isModelCallsOnly(scopes) ? "models" : "custom",
    allowed_models: lines(policy.models),
    allowed_providers: lines(policy.providers),
    allowed_endpoints: lines(policy.endpoints),
    allowed_mcp_servers: policy.mcpServers?.length === 0 ? NONE : lines(policy.mcpServers),
    requests_per_minute: plain(policy.requestsPerMinute),
    tokens_per_minute: plain(policy.tokensPerMinute),
    max_concurrent_calls: plain(policy.concurrentCalls),
    max_price_per_million_usd: plain(policy.maxPriceUsd),
    session_limit_usd: plain(policy.sessionLimitUsd),
    session: plain(policy.session),
    data_policy: dataRulesText(policy.dataPolicy ?? {}),
    receipts: plain(policy.receipts && "true"),
    cache_ttl: plain(policy.cacheSeconds),
    prompt_logging: plain(policy.promptLogging && "true"),
    alert_percents: key.alertPercents?.join(", ") ?? "",
  };
}

function isModelCallsOnly(scopes: readonly string[]): boolean {
  return new Set(scopes).symmetricDifference(new Set<string>(MODEL_CALL_SCOPES)).size === 0;
}

/** The settings that differ from those of the key. A field that was not sent stays as it is. */
export function parseKeyForm(form: KeyFormValues, before: KeyFormValues = {}): KeySettings {
  const isChanged = (field: KeyField): boolean =>
    form[field] !== undefined && form[field].trim() !== (before[field] ?? "");
  const { name = "", last_day: lastDay = "", access } = form;
  const policy = parsePolicy(form, isChanged);
  return {
    ...(isChanged("name") && { name: name.trim() || null }),
    ...((isChanged("limit_usd") || isChanged("limit_window")) && parseLimit(form)),
    ...(isChanged("last_day") && { expiresAt: parseLastDay(lastDay.trim()) }),
    ...(isChanged("access") && access !== "custom" && { scopes: scopesOf(access) }),
    ...(Object.keys(policy).length > 0 && { policy }),
    ...(isChanged("alert_percents") && {
      alertPercents: policyField(form, "alert_percents", (text) => listOf(text).map(numberOf)),
    }),
  };
}

/** The credential of a new key that has no secret; undefined if the form names no issuer. */
export function parseIdentity({
  oidc_issuer: issuer = "",
  oidc_subject: subject = "",
}: KeyFormValues): KeySettings["credential"] {
  if (issuer.trim() === "" && subject.trim() === "") return undefined;
  return toCredentialSettings({ type: "oidc", issuer: issuer.trim(), subject: subject.trim() });
}

function scopesOf(access: string | undefined): KeySettings["scopes"] {
  return access === "models" ? MODEL_CALL_SCOPES : null;
}

function parsePolicy(form: KeyFormValues, isChanged: (field: KeyField) => boolean): PolicyChange {
  const list = (field: PolicyParam) => policyField(form, field, listOf);
  const number = (field: PolicyParam) => policyField(form, field, numberOf);
  const price = (field: PolicyParam) =>
    policyField(form, field, (text) => numberOf(plainAmount(text)))?.toString() ?? null;
  const flag = (field: PolicyParam): true | null => (form[field] === "true" ? true : null);
  const changes: Readonly<Partial<Record<KeyField, () => PolicyChange>>> = {
    allowed_models: () => ({ models: list("allowed_models") }),
    allowed_providers: () => ({ providers: list("allowed_providers") }),
    allowed_endpoints: () => ({ endpoints: list("allowed_endpoints") }),
    allowed_mcp_servers: () => ({
      mcpServers: policyField(form, "allowed_mcp_servers", (text) =>
        text === NONE ? [] : listOf(text),
      ),
    }),
    session: () => ({ session: policyField(form, "session", String) }),
    receipts: () => ({ receipts: flag("receipts") }),
    prompt_logging: () => ({ promptLogging: flag("prompt_logging") }),
    cache_ttl: () => ({ cacheSeconds: number("cache_ttl") }),
    requests_per_minute: () => ({ requestsPerMinute: number("requests_per_minute") }),
    tokens_per_minute: () => ({ tokensPerMinute: number("tokens_per_minute") }),
    max_concurrent_calls: () => ({ concurrentCalls: number("max_concurrent_calls") }),
    max_price_per_million_usd: () => ({ maxPriceUsd: price("max_price_per_million_usd") }),
    session_limit_usd: () => ({ sessionLimitUsd: price("session_limit_usd") }),
    data_policy: () => ({
      dataPolicy: parseDataRules(policyField(form, "data_policy", String) ?? "") ?? null,
    }),
  };
  const parsed = FIELD_NAMES.filter(isChanged).map((field) => changes[field]?.() ?? {});
  return Object.assign({}, ...parsed);
}

type PolicyParam = keyof typeof POLICY_SCHEMA;

/** The value by the schema of the API; null for an empty field. */
function policyField<T>(
  form: KeyFormValues,
  param: PolicyParam,
  parse: (text: string) => T,
): T | null {
  const text = form[param]?.trim() ?? "";
  if (text === "") return null;
  const value = parse(text);
  if (!POLICY_SCHEMA[param].safeParse(value).success) throw invalid(param, FIELD_RULES[param]);
  return value;
}

const FIELD_RULES: Readonly<Record<PolicyParam, string>> = {
  allowed_models: "Enter at most 50 model ids, one per line. `*` stands for any characters.",
  allowed_providers: "Enter at most 50 provider ids, one per line. `*` stands for any characters.",
  allowed_endpoints: `Enter one per line: ${USAGE_APIS.join(", ")}.`,
  allowed_mcp_servers: "Enter at most 50 names of MCP servers, one per line, or none.",
  session: "Enter 1 to 64 letters, digits and `_.:@+-`.",
  receipts: "Choose whether every call gets a receipt.",
  cache_ttl: "Enter a whole number of seconds from 1 to 86400, or leave the field empty.",
  prompt_logging: "Choose whether requests and replies are kept.",
  requests_per_minute: "Enter a whole number of at least 1, or leave the field empty.",
  tokens_per_minute: "Enter a whole number of at least 1, or leave the field empty.",
  max_concurrent_calls: "Enter a whole number of at least 1, or leave the field empty.",
  max_price_per_million_usd: "Enter an amount in US dollars, such as 2.50.",
  session_limit_usd: "Enter an amount in US dollars, such as 5.",
  data_policy: "Enter zdr, deny or region=us, separated by commas.",
  alert_percents: "Enter up to five whole numbers from 1 to 100, separated by commas.",
};

/** What an empty list is entered as: an empty field restricts nothing. */
const NONE = "none";

function listOf(text: string): string[] {
  return text.split(/[\s,]+/).filter((entry) => entry !== "");
}

/** Stricter than Number(), which reads `0x10` and a blank. */
function numberOf(text: string): number {
  return /^\d{1,12}(\.\d{1,9})?$/.test(text) ? Number(text) : NaN;
}

/** A key works until the end of its last day (UTC). */
function parseLastDay(lastDay: string): number | null {
  if (lastDay === "") return null;
  const startsAt = /^\d{4}-\d\d-\d\d$/.test(lastDay) ? Date.parse(lastDay) : NaN;
  // Date.parse reads February 30 as March 2.
  if (Number.isNaN(startsAt) || utcDay(startsAt) !== lastDay)
    throw invalid("last_day", "Enter the expiry date as YYYY-MM-DD, such as 2027-01-31.");
  return startsAt + DAY_MS;
}

/** The inputs of fields that have other names in the API. */
const INPUTS: Readonly<Record<string, KeyField>> = {
  expires_at: "last_day",
  "credential.issuer": "oidc_issuer",
  "credential.subject": "oidc_subject",
};

/** The error that the form shows beside its field. */
export function keyFormError({ field, message }: FormError): KeyFormError {
  const name = INPUTS[field ?? ""] ?? field;
  return { field: FIELD_NAMES.find((each) => each === name), message };
}
