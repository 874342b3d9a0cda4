// Accounts, which agents create without authentication and people in the console. It owns the table account.

import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { type DataRules, dataRulesText, parseDataRules } from "../base/data-rules.ts";
import { Fault, invalid } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { type Nano, NANO_PER_CREDIT } from "../base/money/money.ts";
import { grant, openWallet } from "../ledger/ledger.ts";
import { type Reader, text, textOrNull, type Tx, integer, integerOrNull } from "../store/db.ts";
import { authorize } from "./members.ts";

/** Specification, Limits: 0.05 USD. */
export const STARTING_CREDIT: Nano = 50_000n * NANO_PER_CREDIT;

export interface Account {
  readonly id: string;
  readonly name: string | null;
  readonly email: string | null;
  /** The person who created it in the console; null if an agent created it. */
  readonly createdBy: string | null;
  readonly createdAt: number;
  readonly claimedAt: number | null;
  /** Whether every call of its keys gets a signed receipt. */
  readonly signsReceipts: boolean;
  /** Days until logged prompts are deleted; null for the operator's setting. */
  readonly promptRetentionDays: number | null;
  /** What providers may do with the data of its calls; null for no rules. */
  readonly dataPolicy: string | null;
}

export interface NewAccount {
  readonly name?: string | null;
  /** The person who creates it in the console. */
  readonly createdBy?: string;
  readonly email: string | null;
  /** The narrow network of the client. */
  readonly network: string;
  /** The operator of the agent that signed the request. */
  readonly verifiedAgent?: string | undefined;
  /** Zero once the day's budget is used up. */
  readonly startingCredit: Nano;
  readonly now: number;
}

export async function createAccount(tx: Tx, request: NewAccount): Promise<Account> {
  const { name = null, email, createdBy = null, network, startingCredit, now } = request;
  const { verifiedAgent = null } = request;
  const id = newId("acct", now);
  await tx.run(
    `insert into account (id, name, email, created_by, created_at, created_from, verified_agent)
     values (?, ?, ?, ?, ?, ?, ?)`,
    [id, name, email, createdBy, now, network, verifiedAgent],
  );
  await openWallet(tx, id);
  if (startingCredit > 0n)
    await grant(tx, {
      id: `start.${id}`,
      accountId: id,
      amount: startingCredit,
      now,
      reason: "starting credit",
    });
  const unset = { claimedAt: null, signsReceipts: false };
  const settings = { promptRetentionDays: null, dataPolicy: null };
  return { id, name, email, createdBy, createdAt: now, ...unset, ...settings };
}

/** Called once the account has its first key, which is the actor if an agent created it. It cannot have a webhook yet. */
export async function recordAccountCreated(
  tx: Tx,
  { email, name }: Account,
  act: Act,
): Promise<void> {
  await recordAuditEntry(tx, {
    ...act,
    action: "account.created",
    target: act.accountId,
    detail: { ...(email !== null && { email }), ...(name !== null && { name }) },
  });
}

/** Says whether members must sign in with the workspace's identity provider. Does nothing if it is so already. */
export async function setSsoRequired(tx: Tx, act: Act, required: boolean): Promise<void> {
  const { accountId, now } = act;
  const changed = await tx.run(
    `update account set sso_required_at = ? where id = ? and sso_required_at is ${required ? "" : "not "}null`,
    [required ? now : null, accountId],
  );
  if (changed === 0) return;
  const detail = { required, required_before: !required };
  await recordAuditEntry(tx, {
    ...act,
    action: "sso.requirement_changed",
    target: accountId,
    detail,
  });
}

/** Since when single sign-on is required; undefined if it is not. */
export async function ssoRequiredSince(
  reader: Reader,
  accountId: string,
): Promise<number | undefined> {
  const row = await reader.get("select sso_required_at from account where id = ?", [accountId]);
  return (row && integerOrNull(row, "sso_required_at")) ?? undefined;
}

/** Where single sign-on is required, the owner's sign-in without it is an exception that others can see. */
export async function recordOwnerSignIn(
  tx: Tx,
  personId: string,
  { network, now }: { readonly network: string; readonly now: number },
): Promise<void> {
  const rows = await tx.all(
    `select account.id from membership join account on account.id = membership.account_id
     where person_id = ? and role = 'owner' and sso_required_at is not null order by account.id`,
    [personId],
  );
  for (const row of rows) {
    const accountId = text(row, "id");
    const actor = { type: "person", id: personId } as const;
    const entry = { accountId, actor, action: "sso.bypassed", target: personId } as const;
    await recordAuditEntry(tx, { ...entry, network, now });
  }
}

const NAME_MAX = 80;

/** Does nothing if the account already has the name; an empty name removes it. */
export async function renameAccount(tx: Tx, act: Act, typed: string): Promise<void> {
  const { accountId } = act;
  const name = parseAccountName(typed);
  await authorize(tx, act, "workspace.rename");
  const renamed = await tx.run(
    "update account set name = ? where id = ? and coalesce(name, '') <> ?",
    [name, accountId, name ?? ""],
  );
  if (renamed === 0) return;
  const entry = { ...act, action: "account.renamed", target: accountId, detail: { name } } as const;
  await recordAuditEntry(tx, entry);
}

/** Whether every call of the account gets a signed receipt. Processes that know its keys from their cache follow in seconds. */
export async function setReceipts(tx: Tx, act: Act, signs: boolean): Promise<void> {
  const { accountId } = act;
  await authorize(tx, act, "workspace.rename");
  const value = signs ? 1 : 0;
  const changed = await tx.run(
    "update account set signs_receipts = ? where id = ? and signs_receipts <> ?",
    [value, accountId, value],
  );
  if (changed === 0) return;
  const detail = { receipts: signs };
  await recordAuditEntry(tx, {
    ...act,
    action: "account.receipts_changed",
    target: accountId,
    detail,
  });
}

/** What providers may do with the data of all calls, such as `zdr, region=eu`; null for no rules. */
export async function setDataPolicy(tx: Tx, act: Act, typed: string | null): Promise<void> {
  const { accountId, actor } = act;
  const rules = parseDataRules(typed ?? "");
  if (rules === undefined)
    throw invalid(
      "data_policy",
      "`data_policy` must be zdr, deny or region=<name>, or several of them separated by commas.",
    );
  await authorize(tx, act, "workspace.rename");
  const [row] = await tx.lockMany("account", "id", [accountId]);
  const before = textOrNull(row ?? {}, "data_policy");
  const isLoosened = loosens(parseDataRules(before ?? "") ?? {}, rules);
  if (isLoosened && actor.type === "key" && row?.["claimed_at"] !== null)
    throw new Fault("forbidden", "a key cannot loosen the data policy", {
      message:
        "The account is claimed: a key can add rules to `data_policy`, and only people remove or replace one, on the Settings page of the console.",
      param: "data_policy",
    });
  const policy = dataRulesText(rules) || null;
  if (policy === before) return;
  await tx.run("update account set data_policy = ? where id = ?", [policy, accountId]);
  await recordAuditEntry(tx, {
    ...act,
    action: "account.data_policy_changed",
    target: accountId,
    detail: { data_policy: policy, data_policy_before: before },
  });
}

function loosens(before: DataRules, rules: DataRules): boolean {
  return (["zdr", "data_collection", "region"] as const).some(
    (rule) => before[rule] !== undefined && before[rule] !== rules[rule],
  );
}

/** Whether the usage of its calls is queued for sinks. Processes that know its keys from their cache follow in seconds. */
export async function setExportsUsage(tx: Tx, accountId: string, exports: boolean): Promise<void> {
  await tx.run("update account set exports_usage = ? where id = ?", [exports ? 1 : 0, accountId]);
}

const PROMPT_RETENTION_MAX_DAYS = 365;

/** Returns false if it was so already. */
export async function setPromptRetention(tx: Tx, act: Act, days: number | null): Promise<boolean> {
  const { accountId } = act;
  await authorize(tx, act, "responses.change");
  if (days !== null && (!Number.isInteger(days) || days < 1 || days > PROMPT_RETENTION_MAX_DAYS))
    throw invalid(
      "prompt_retention_days",
      `\`prompt_retention_days\` must be a whole number from 1 to ${PROMPT_RETENTION_MAX_DAYS}.`,
    );
  const changed = await tx.run(
    "update account set prompt_retention_days = ? where id = ? and coalesce(prompt_retention_days, 0) <> ?",
    [days, accountId, days ?? 0],
  );
  if (changed === 0) return false;
  await recordAuditEntry(tx, {
    ...act,
    action: "account.prompt_retention_changed",
    target: accountId,
    detail: { days },
  });
  return true;
}

/** Without surrounding spaces; null for a blank name. */
export function parseAccountName(typed: string): string | null {
  const name = typed.trim();
  if (name.length > NAME_MAX || /\p{Cc}/u.test(name))
    throw invalid(
      "name",
      `\`name\` must be one line of at most ${NAME_MAX} characters. Send an empty name to remove it.`,
    );
  return name === "" ? null : name;
}

export async function getAccount(reader: Reader, id: string): Promise<Account> {
  const row = await reader.get("select * from account where id = ?", [id]);
  if (row === undefined)
    throw new Fault("not_found", `no account ${id}`, { message: "The account does not exist." });
  return {
    id: text(row, "id"),
    name: textOrNull(row, "name"),
    email: textOrNull(row, "email"),
    createdBy: textOrNull(row, "created_by"),
    createdAt: integer(row, "created_at"),
    claimedAt: integerOrNull(row, "claimed_at"),
    signsReceipts: integer(row, "signs_receipts") === 1,
    promptRetentionDays: integerOrNull(row, "prompt_retention_days"),
    dataPolicy: textOrNull(row, "data_policy"),
  };
}
