// A gateway with accounts, keys, people and claims, on a store and a clock that the test controls, and a minimal browser:
// a cookie jar that calls the request handler.

import { type Secret, secret } from "../../src/base/crypto/secret.ts";
import { createLog } from "../../src/base/log.ts";
import { type ClaimLimits, type Claims, createClaims } from "../../src/claims/claims.ts";
import { createFaultPage } from "../../src/http/pages/fault-page.tsx";
import type { Peer } from "../../src/http/request-context.ts";
import { createRequestHandler } from "../../src/http/request-handler.ts";
import { createClientIpResolver } from "../../src/http/request/client-ip.ts";
import { createIdempotency } from "../../src/idempotency/idempotency.ts";
import { createKeys, type Keys } from "../../src/keys/keys.ts";
import { getWallet } from "../../src/ledger/ledger.ts";
import { recordPerson } from "../../src/people/people.ts";
import { createSessions, type Session, type Sessions } from "../../src/people/sessions.ts";
import { createSignIn, type IdentitySettings, type SignIn } from "../../src/people/sign-in.ts";
import type { Db } from "../../src/store/db.ts";
import { createTestRoutes } from "./test-routes.ts";

export const T0 = Date.parse("2026-11-21T09:30:00Z");
export const GRANT = "urn:postern:agent-auth:grant-type:claim";
export const ISSUER = "https://id.test";

export interface Harness {
  readonly db: Db;
  readonly baseUrl: string;
  readonly master: Secret;
  readonly keys: Keys;
  readonly claims: Claims;
  readonly sessions: Sessions;
  readonly signIn: SignIn | undefined;
  /** The actions in the audit log of an account, oldest first. */
  readonly auditedActions: (accountId: string) => Promise<readonly string[]>;
  /** The lines of the error log. */
  readonly logged: readonly string[];
  readonly clock: { now: number };
  readonly handle: (request: Request, address?: string) => Promise<Response>;
}

export interface HarnessOptions {
  readonly baseUrl?: string;
  readonly limits?: ClaimLimits;
  readonly identity?: IdentitySettings;
  readonly vendor?: string;
  /** Replaces the frozen clock: a real identity provider signs tokens with the real time. */
  readonly clock?: () => number;
}

export function createHarness(db: Db, options: HarnessOptions = {}): Harness {
  const baseUrl = options.baseUrl ?? "http://127.0.0.1:8787";
  const master = secret("a secret of the tests that is long enough");
  let frozenNow = T0;
  const now = options.clock ?? (() => frozenNow);
  const clock = {
    get now() {
      return now();
    },
    set now(at: number) {
      frozenNow = at;
    },
  };
  const keys = createKeys({ db, master, prefix: "pst" });
  const claims = createClaims({
    master,
    limits: options.limits ?? { startsPerAccount: 0, bonusPerDay: 0n },
  });
  const sessions = createSessions({ db, master, baseUrl });
  const signIn =
    options.identity === undefined
      ? undefined
      : createSignIn({ settings: options.identity, baseUrl, master });
  const idempotency = createIdempotency(master);
  const logged: string[] = [];
  const serve = createRequestHandler({
    routes: createTestRoutes({
      db,
      keys,
      claims,
      sessions,
      signIn,
      master,
      baseUrl,
      vendor: options.vendor ?? "postern",
    }),
    baseUrl,
    log: createLog({
      level: "error",
      isPretty: true,
      now,
      write: (line) => void logged.push(line),
    }),
    now,
    keys: { find: keys.find },
    sessions: { find: sessions.find },
    responses: { faultPage: createFaultPage(undefined) },
    writes: {
      db,
      beginIdempotent: idempotency.begin,
      finishIdempotent: idempotency.finish,
    },
    clientIpOf: createClientIpResolver([]),
    isDraining: () => false,
  });
  const auditedActions: Harness["auditedActions"] = async (accountId) => {
    const sql = "select action from audit where account_id = ? order by id";
    return (await db.all(sql, [accountId])).map(({ action }) => String(action));
  };
  const handle: Harness["handle"] = (request, address = "203.0.113.7") => {
    const peer: Peer = { address: () => address, disableIdleTimeout: () => {} };
    return serve(request, peer);
  };
  return {
    db,
    baseUrl,
    master,
    keys,
    claims,
    sessions,
    signIn,
    auditedActions,
    logged,
    clock,
    handle,
  };
}

export interface Agent {
  readonly key: string;
  readonly accountId: string;
  readonly start: (email: unknown, headers?: Record<string, string>) => Promise<Response>;
  readonly poll: (fields?: Record<string, string> | string) => Promise<Response>;
  readonly get: (path: string) => Promise<Response>;
}

export async function register(harness: Harness, address?: string): Promise<Agent> {
  const response = await harness.handle(
    new Request(`${harness.baseUrl}/v1/accounts`, { method: "POST" }),
    address,
  );
  const { account, api_key } = await readJson<{ account: { id: string }; api_key: string }>(
    response,
  );
  return agentOf(harness, api_key, account.id);
}

export function agentOf(harness: Harness, key: string, accountId: string): Agent {
  const authorization = `Bearer ${key}`;
  return {
    key,
    accountId,
    start: (email, headers = {}) =>
      harness.handle(
        new Request(`${harness.baseUrl}/agent/identity/claim`, {
          method: "POST",
          headers: { authorization, "content-type": "application/json", ...headers },
          body: JSON.stringify({ email }),
        }),
      ),
    poll: (fields = { grant_type: GRANT }) =>
      harness.handle(
        new Request(`${harness.baseUrl}/oauth2/token`, {
          method: "POST",
          headers: { authorization, "content-type": "application/x-www-form-urlencoded" },
          body: typeof fields === "string" ? fields : new URLSearchParams(fields).toString(),
        }),
      ),
    get: (path) =>
      harness.handle(new Request(`${harness.baseUrl}${path}`, { headers: { authorization } })),
  };
}

export interface StartResponse {
  readonly claim_attempt_id: string;
  readonly status: string;
  readonly expires_at: string;
  readonly claim_attempt: {
    readonly user_code: string;
    readonly expires_in: number;
    readonly interval: number;
    readonly verification_uri: string;
    readonly verification_uri_complete: string;
  };
  readonly next?: readonly { readonly url: string }[];
}

export async function startedClaim(pending: Promise<Response>): Promise<StartResponse> {
  const response = await pending;
  if (response.status !== 200)
    throw new Error(`start: ${response.status} ${await response.text()}`);
  return await readJson<StartResponse>(response);
}

export interface Browser {
  readonly cookies: Map<string, string>;
  readonly go: (path: string, init?: RequestInit) => Promise<Response>;
  /** Opens the path and follows redirects within the gateway. */
  readonly visit: (path: string) => Promise<Page>;
  readonly post: (
    path: string,
    fields: Record<string, string>,
    headers?: Record<string, string>,
  ) => Promise<Page>;
}

export interface Page {
  readonly status: number;
  readonly text: string;
  readonly headers: Headers;
  readonly path: string;
}

/** The form token of a page. */
export function csrfOf(page: Page): string {
  return /name="csrf" value="([^"]+)"/.exec(page.text)?.[1] ?? "";
}

export function titleOf({ text }: Page): string {
  return /<h1>(.*?)<\/h1>/s.exec(text)?.[1] ?? "";
}

/** The text of a page without its elements. */
export function textOf({ text }: Page): string {
  return text
    .replaceAll(/<[^>]*>/g, " ")
    .replaceAll(/\s+/g, " ")
    .replaceAll(/ (?=[,.])/g, "");
}

/** The fields with which the review page says what it has shown. */
function shownFields({ text }: Page): Record<string, string> {
  return Object.fromEntries(
    [...text.matchAll(/name="(shown[^"]*)" value="([^"]*)"/g)].map(([, name = "", value = ""]) => [
      name,
      value,
    ]),
  );
}

/** The fields with which the review page confirms a claim. */
export function confirmFields(page: Page, { claim_attempt_id, claim_attempt }: StartResponse) {
  return {
    ...shownFields(page),
    csrf: csrfOf(page),
    attempt: claim_attempt_id,
    user_code: claim_attempt.user_code,
    decision: "confirm",
  };
}

export function createBrowser(harness: Harness): Browser {
  const cookies = new Map<string, string>();
  const go: Browser["go"] = async (path, init = {}) => {
    const headers = new Headers(init.headers);
    if (cookies.size > 0)
      headers.set("cookie", [...cookies].map(([name, value]) => `${name}=${value}`).join("; "));
    const response = await harness.handle(
      new Request(new URL(path, harness.baseUrl), { ...init, headers, redirect: "manual" }),
    );
    for (const cookie of response.headers.getSetCookie()) {
      const [pair = "", ...attributes] = cookie.split("; ");
      const name = pair.slice(0, pair.indexOf("="));
      if (attributes.includes("Max-Age=0")) cookies.delete(name);
      else cookies.set(name, pair.slice(name.length + 1));
    }
    return response;
  };
  const follow = async (response: Response, path: string): Promise<Page> => {
    const location = response.headers.get("location");
    if (response.status !== 303 || location === null)
      return {
        status: response.status,
        text: await response.text(),
        headers: response.headers,
        path,
      };
    return follow(await go(location), location);
  };
  return {
    cookies,
    go,
    visit: async (path) => follow(await go(path), path),
    post: async (path, fields, headers = { "sec-fetch-site": "same-origin" }) =>
      follow(
        await go(path, {
          method: "POST",
          headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
          body: new URLSearchParams(fields).toString(),
        }),
        path,
      ),
  };
}

export interface Human {
  readonly email: string;
  readonly subject?: string;
  readonly issuer?: string;
}

/** A browser with a session, created without the identity provider. */
export async function signedIn(
  harness: Harness,
  human: Human,
): Promise<Browser & { session: Session }> {
  const browser = createBrowser(harness);
  const { email, subject = email.toLowerCase(), issuer = ISSUER } = human;
  const cookie = await harness.db.write(async (tx) => {
    const person = await recordPerson(
      tx,
      { issuer, subject, email, name: null },
      harness.clock.now,
    );
    return harness.sessions.begin(tx, {
      personId: person.id,
      network: "198.51.100.0/24",
      browser: "test",
      cookies: null,
      now: harness.clock.now,
    });
  });
  const [pair = ""] = cookie.split("; ");
  const name = pair.slice(0, pair.indexOf("="));
  browser.cookies.set(name, pair.slice(name.length + 1));
  const session = await harness.sessions.find(pair, harness.clock.now);
  if (session === undefined) throw new Error("no session");
  return { ...browser, session };
}

/** Opens the link, confirms with the code and returns the resulting page. */
export async function claimAs(
  harness: Harness,
  human: Human,
  start: StartResponse,
  extraFields: Record<string, string> = {},
): Promise<Page> {
  const browser = await signedIn(harness, human);
  const page = await browser.visit(linkOf(start));
  return browser.post("/claim", { ...confirmFields(page, start), ...extraFields });
}

export function linkOf(start: StartResponse): string {
  return start.claim_attempt.verification_uri_complete;
}

export async function balanceOf(harness: Harness, accountId: string): Promise<bigint> {
  const wallet = await getWallet(harness.db, accountId);
  return wallet.promo + wallet.paid;
}

/** The JSON body, unchecked: a wrong type fails in the assertion that reads it. */
export async function readJson<T>(response: Response | Promise<Response>): Promise<T> {
  return (await (await response).json()) as T;
}
