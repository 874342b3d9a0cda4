// API key scopes. Every route names the scope it requires. A key has all scopes unless it was created with fewer.

/** Each scope with its description. */
export const SCOPES = {
  "models:read": "read stored responses, batches and files",
  "models:write":
    "call models and run batches, read and delete stored responses, batches and files",
  "account:close": "close and reopen the account",
  "account:export": "export all data of the account",
  "usage:read": "read the account, its balance, usage and settings",
  "account:write":
    "read sinks, change the account: its name, what it stores, presets, guardrails, sinks and MCP servers",
  "keys:read": "list keys",
  "keys:write": "list and create keys, change, rotate and revoke itself and keys that it created",
  "keys:manage": "change and revoke keys that others created, delete their provider keys",
  "billing:read": "read invoices, billing details, budgets, alerts and auto top-up",
  "billing:write":
    "read invoices, change billing details, budgets, alerts and auto top-up, buy credits",
  "provider_keys:read": "list the account's own provider keys",
  "provider_keys:write": "list, add, change and delete the account's own provider keys",
  "webhooks:read": "read webhooks, deliveries and events",
  "webhooks:write": "read, add, change and delete webhooks, send deliveries again",
  "audit:read": "read the audit log",
  "claim:read": "see whether a person has claimed or joined the account",
  "claim:write": "ask a person to claim or join the account",
} as const;

export type Scope = keyof typeof SCOPES;

/** What lists of scopes can contain: only keys without a limit, a policy and a list of scopes have `keys:manage`. */
export type ListableScope = Exclude<Scope, "keys:manage">;

// Safe because it has exactly the keys of SCOPES.
export const SCOPE_NAMES = Object.keys(SCOPES) as Scope[];

export const LISTABLE_SCOPES = SCOPE_NAMES.filter(isListable);

/** The scopes that a key with a spending limit can have: none lets it exceed the limit. */
export const LIMITED_KEY_SCOPES: readonly ListableScope[] = [
  "models:write",
  "usage:read",
  "keys:write",
  "billing:read",
  "provider_keys:write",
  "claim:read",
];

/** What most programs need. With `claim:read`, the agent that started a claim still learns its result. */
export const MODEL_CALL_SCOPES: readonly ListableScope[] = [
  "models:write",
  "usage:read",
  "claim:read",
];

/** What a client of the MCP server gets if it asks for nothing else. A developer can grant all of it. */
export const MCP_SIGN_IN_SCOPES: readonly ListableScope[] = [...MODEL_CALL_SCOPES, "keys:read"];

const ALL: ReadonlySet<Scope> = new Set(SCOPE_NAMES);
const LISTABLE: ReadonlySet<Scope> = new Set(LISTABLE_SCOPES);
const LIMITED = withReads(LIMITED_KEY_SCOPES);

/** The scopes of a key. `scopes` is null if the key was created without a list of scopes. */
export function grantedScopes(
  scopes: readonly Scope[] | null,
  hasLimit: boolean,
): ReadonlySet<Scope> {
  if (scopes === null) return hasLimit ? LIMITED : ALL;
  return withReads(scopes).intersection(hasLimit ? LIMITED : LISTABLE);
}

export function isScopeOfLimitedKeys(scope: Scope): boolean {
  return LIMITED.has(scope);
}

/** The shortest list that grants these scopes; null for all. */
export function listOfScopes(granted: ReadonlySet<Scope>): readonly ListableScope[] | null {
  return granted.size === ALL.size ? null : withoutImplied(granted).filter(isListable);
}

function withoutImplied(granted: ReadonlySet<Scope>): readonly Scope[] {
  const implied = new Set([...granted].filter(isWrite).map(toRead));
  return SCOPE_NAMES.filter((name) => granted.has(name) && !implied.has(name));
}

/** Adds the read scope of each write scope: a key that may write may also read. */
function withReads(scopes: readonly Scope[]): ReadonlySet<Scope> {
  return new Set(
    SCOPE_NAMES.filter(
      (name) => scopes.includes(name) || scopes.some((scope) => toRead(scope) === name),
    ),
  );
}

function isWrite(scope: Scope): boolean {
  return scope.endsWith(":write");
}

function toRead(scope: Scope): string {
  return scope.replace(/:write$/, ":read");
}

function isListable(name: Scope): name is ListableScope {
  return name !== "keys:manage";
}

export function isListableScope(name: string): name is ListableScope {
  return Object.hasOwn(SCOPES, name) && name !== "keys:manage";
}

/** What a key may do, in plain words: "do everything", or "call models; list keys". */
export function describeScopes(granted: ReadonlySet<Scope>): string {
  if (granted.size === ALL.size) return "do everything";
  return withoutImplied(granted)
    .map((name) => SCOPES[name])
    .join("; ");
}
