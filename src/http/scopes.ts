// What an API key may do. Every route names the scope that it needs; a key has all scopes unless it was given fewer.

/** Each scope, as people read it. */
export const SCOPES = {
  "models:read": "read stored responses",
  "models:write": "call models, read and delete stored responses",
  "usage:read": "read the account, its balance and its usage",
  "keys:read": "list keys",
  "keys:write": "list, create, change and revoke keys",
  "billing:read": "read invoices, budgets, alerts and auto top-up",
  "billing:write": "read and change these, and buy credits",
  "provider_keys:read": "list own provider keys",
  "provider_keys:write": "list, add and delete own provider keys",
  "webhooks:read": "list webhooks, deliveries and events",
  "webhooks:write": "list, add and change webhooks",
  "audit:read": "read the audit log",
  "claim:read": "ask whether a claim is done",
  "claim:write": "start a claim, and so invite people",
} as const;

export type Scope = keyof typeof SCOPES;

// Safe because it has exactly the keys of SCOPES.
export const SCOPE_NAMES = Object.keys(SCOPES) as Scope[];

/** The most that a key with a spending limit gets: nothing that reaches beyond its limit. */
export const LIMITED_KEY_SCOPES: readonly Scope[] = [
  "models:write",
  "usage:read",
  "keys:write",
  "billing:read",
  "provider_keys:write",
  "claim:read",
];

const ALL: ReadonlySet<Scope> = new Set(SCOPE_NAMES);
const LIMITED = withReads(LIMITED_KEY_SCOPES);

/** What a key may do; `scopes` is null if it was not given fewer than all. */
export function grantedScopes(
  scopes: readonly Scope[] | null,
  hasLimit: boolean,
): ReadonlySet<Scope> {
  const most = hasLimit ? LIMITED : ALL;
  return scopes === null ? most : withReads(scopes).intersection(most);
}

/** */
function withReads(scopes: readonly Scope[]): ReadonlySet<Scope> {
  return new Set(
    SCOPE_NAMES.filter(
      (name) => scopes.includes(name) || scopes.some((scope) => toRead(scope) === name),
    ),
  );
}

function toRead(scope: Scope): string {
  return scope.replace(/:write$/, ":read");
}

export function isScope(name: string): name is Scope {
  return Object.hasOwn(SCOPES, name);
}
