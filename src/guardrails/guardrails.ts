// Guardrails of a workspace: what checks the requests and replies of its calls. It owns the table guardrail.

import { authorize } from "../accounts/members.ts";
import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { Fault, invalid } from "../base/fault.ts";
import type { GuardPhase } from "../base/guard.ts";
import { parseEndpoint } from "../base/network/public-endpoint.ts";
import { integer, type Reader, type Row, text, type Tx } from "../store/db.ts";
import type { Entity } from "./patterns.ts";

/** Each adds the time of a request to a call. */
const HOOKS_MAX = 3;
const GUARDRAILS_MAX = 10;

export interface HookSettings {
  readonly type: "hook";
  readonly phases: readonly GuardPhase[];
  readonly url: string;
  /** What happens to a call whose hook does not answer. */
  readonly on_failure: "deny" | "allow";
  readonly timeout_ms: number;
}

export interface PatternSettings {
  readonly type: "patterns";
  readonly phases: readonly GuardPhase[];
  readonly entities: readonly Entity[];
  readonly action: "mask" | "deny";
}

/** Asks a decisions model whether a text is about a blocked topic. Each check is a call that is charged. */
export interface TopicSettings {
  readonly type: "topics";
  readonly phases: readonly GuardPhase[];
  readonly topics: readonly string[];
  readonly model: string;
  /** The probability from which a text is denied. */
  readonly threshold: number;
  /** What happens to a call whose check fails. */
  readonly on_failure: "deny" | "allow";
}

export type GuardrailSettings = HookSettings | PatternSettings | TopicSettings;

/** Before its model is chosen. */
type NewSettings =
  | HookSettings
  | PatternSettings
  | (Omit<TopicSettings, "model"> & { readonly model?: string | undefined });

export interface Guardrail {
  readonly name: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly settings: GuardrailSettings;
}

export interface NewGuardrail {
  readonly name: string;
  readonly settings: NewSettings;
  /** In development, a hook may be on the gateway's own machine. */
  readonly allowLoopback: boolean;
  /** The models that answer decisions now. */
  readonly decisionModels: readonly string[];
}

/** Creates the guardrail, or replaces its settings. */
export async function saveGuardrail(
  tx: Tx,
  act: Act,
  { name, settings, allowLoopback, decisionModels }: NewGuardrail,
): Promise<Guardrail> {
  const { accountId, now } = act;
  await authorize(tx, act, "guardrails.change");
  // Serializes concurrent changes, so that the counts are exact.
  await tx.lockMany("account", "id", [accountId]);
  const existing = await listGuardrails(tx, accountId);
  const others = existing.filter((other) => other.name !== name);
  assertBelowLimits(others, settings);
  const checked =
    settings.type === "topics"
      ? { ...settings, model: decisionModelOf(settings.model, decisionModels) }
      : withCheckedUrl(settings, allowLoopback);
  const createdAt = existing.find((one) => one.name === name)?.createdAt ?? now;
  await tx.run(
    `insert into guardrail (account_id, name, created_at, updated_at, settings) values (?, ?, ?, ?, ?)
     on conflict (account_id, name) do update set updated_at = excluded.updated_at, settings = excluded.settings`,
    [accountId, name, createdAt, now, JSON.stringify(checked)],
  );
  await recordAuditEntry(tx, {
    ...act,
    action: "guardrail.saved",
    target: name,
    detail: auditDetail(checked),
  });
  return { name, createdAt, updatedAt: now, settings: checked };
}

function assertBelowLimits(others: readonly Guardrail[], { type }: NewSettings): void {
  const hooks = others.filter(({ settings }) => settings.type === "hook").length;
  if (type === "hook" && hooks >= HOOKS_MAX) throw tooMany(`${HOOKS_MAX} hooks`);
  if (others.length >= GUARDRAILS_MAX) throw tooMany(`${GUARDRAILS_MAX} guardrails`);
}

function tooMany(most: string): Fault {
  return new Fault("conflict", "too many guardrails", {
    message: `A workspace can have ${most}. Delete one first.`,
    next: [{ method: "GET", url: "/v1/guardrails", why: "List the guardrails." }],
  });
}

function decisionModelOf(wanted: string | undefined, models: readonly string[]): string {
  const [first] = models;
  if (first === undefined)
    throw new Fault("conflict", "no decisions model", {
      message:
        "No model of this gateway answers decisions, so it cannot check topics. Use a guardrail of the type `hook` instead, or ask the operator to add a provider of decisions.",
      param: "type",
    });
  if (wanted === undefined) return first;
  if (models.includes(wanted)) return wanted;
  throw invalid("model", `\`model\` must be a model that answers decisions: ${models.join(", ")}.`);
}

function withCheckedUrl(
  settings: HookSettings | PatternSettings,
  allowLoopback: boolean,
): GuardrailSettings {
  if (settings.type !== "hook") return settings;
  const endpoint = parseEndpoint(settings.url, allowLoopback);
  if (typeof endpoint === "string") throw invalid("url", `\`url\` ${endpoint}.`);
  return { ...settings, url: endpoint.url.href };
}

/** Has only the host of a URL: the path or the query can contain a secret of the endpoint. */
function auditDetail(settings: GuardrailSettings) {
  if (settings.type === "topics") {
    const { type, phases, topics, model, threshold, on_failure } = settings;
    return { type, phases, topics, model, threshold, on_failure };
  }
  return settings.type === "hook"
    ? {
        type: settings.type,
        host: new URL(settings.url).host,
        phases: settings.phases,
        on_failure: settings.on_failure,
      }
    : {
        type: settings.type,
        phases: settings.phases,
        entities: settings.entities,
        action: settings.action,
      };
}

export async function deleteGuardrail(tx: Tx, act: Act, name: string): Promise<void> {
  await authorize(tx, act, "guardrails.change");
  const deleted = await tx.run("delete from guardrail where account_id = ? and name = ?", [
    act.accountId,
    name,
  ]);
  if (deleted === 0) throw noSuchGuardrail(name);
  await recordAuditEntry(tx, { ...act, action: "guardrail.deleted", target: name });
}

export async function getGuardrail(
  reader: Reader,
  accountId: string,
  name: string,
): Promise<Guardrail> {
  const row = await reader.get("select * from guardrail where account_id = ? and name = ?", [
    accountId,
    name,
  ]);
  if (row === undefined) throw noSuchGuardrail(name);
  return toGuardrail(row);
}

/** In the order in which calls meet them: patterns first, so that a decisions model or a hook gets the masked text; then the oldest first. */
export async function listGuardrails(
  reader: Reader,
  accountId: string,
): Promise<readonly Guardrail[]> {
  const rows = await reader.all(
    "select * from guardrail where account_id = ? order by created_at, name",
    [accountId],
  );
  const guardrails = rows.map(toGuardrail);
  return (["patterns", "topics", "hook"] as const).flatMap((type) =>
    guardrails.filter(({ settings }) => settings.type === type),
  );
}

function noSuchGuardrail(name: string): Fault {
  return new Fault("not_found", "no such guardrail", {
    message: `This workspace has no guardrail "${name}". List the guardrails with GET /v1/guardrails.`,
    param: "name",
    next: [{ method: "GET", url: "/v1/guardrails", why: "List the guardrails." }],
  });
}

function toGuardrail(row: Row): Guardrail {
  return {
    name: text(row, "name"),
    createdAt: integer(row, "created_at"),
    updatedAt: integer(row, "updated_at"),
    // Safe because only `saveGuardrail` writes this column.
    settings: JSON.parse(text(row, "settings")) as GuardrailSettings,
  };
}
