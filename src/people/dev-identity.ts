// The development identity provider: an OpenID Connect provider on its own port that signs in any email with a code
// printed on the terminal. It keeps its state in memory and starts only if the base URL is a loopback address.

import { createHash, generateKeyPairSync } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Adapter, AdapterPayload, Configuration, JWK, Provider } from "oidc-provider";
import {
  randomBase62,
  randomDigits,
  timingSafeEqualText,
  type Secret,
  secret,
} from "../base/crypto/secret.ts";
import { lazy } from "../base/lazy.ts";
import { foldEmail } from "../base/text/email.ts";
import { codePage, devPageHeaders, emailPage, errorPage } from "./dev-identity-pages.tsx";
import {
  CALLBACK_PATH,
  type IdentitySettings,
  isLoopbackUrl,
  OPERATOR_CALLBACK_PATH,
} from "./sign-in.ts";

const CLIENT_ID = "postern";
const SECRET_CHARACTERS = 43;
const CODE_DIGITS = 6;
const CODE_ATTEMPTS_MAX = 5;
const INTERACTION_SECONDS = 600;
const SESSION_SECONDS = 86_400;
const MAP_ENTRIES_MAX = 10_000;
const BODY_MAX_BYTES = 4_096;
const EMAIL = /^[^@\s]{1,64}@[^@\s.]+(\.[^@\s.]+)+$/;

export interface DevIdentityOptions {
  /** The gateway's base URL; must be a loopback address. */
  readonly baseUrl: string;
  /** If it is in use, a free port is chosen. */
  readonly port: number;
  /** Prints the codes on the terminal. */
  readonly print: (line: string) => void;
}

export interface DevIdentity {
  readonly settings: IdentitySettings;
  readonly close: () => Promise<void>;
}

type Interaction = Awaited<ReturnType<Provider["interactionDetails"]>>;

interface PendingCode {
  readonly email: string;
  readonly code: string;
  tries: number;
}

interface DevIdentityContext {
  readonly provider: Provider;
  /** The library's handler for all standard endpoints. */
  readonly handler: ReturnType<Provider["callback"]>;
  readonly pendingCodes: Map<string, PendingCode>;
  /** Emails by subject. */
  readonly emails: Map<string, string>;
  readonly options: DevIdentityOptions;
  readonly headers: Readonly<Record<string, string>>;
}

export async function startDevIdentity(options: DevIdentityOptions): Promise<DevIdentity> {
  const base = new URL(options.baseUrl);
  if (!isLoopbackUrl(base))
    throw new Error(
      `the development identity provider signs in anyone with any email, so it does not start with the base URL ${options.baseUrl}; set OIDC_ISSUER`,
    );
  const server = createServer();
  const port = await listenOrFallback(server, options.port, base.hostname.replaceAll(/[[\]]/g, ""));
  const issuer = `http://${base.hostname}:${port}`;
  const clientSecret = secret(randomBase62(SECRET_CHARACTERS));
  const headers = devPageHeaders(base.origin);
  // Created on the first sign-in: loading the library and generating the key take half of the startup time, and 30 MB.
  const openContext = lazy(async (): Promise<DevIdentityContext> => {
    const emails = new Map<string, string>();
    const configuration = configurationOf(base, clientSecret, emails);
    const provider = new (await importProvider(options.print))(issuer, configuration);
    const handler = provider.callback();
    return { provider, handler, pendingCodes: boundedMap(), emails, options, headers };
  });
  server.on("request", (request, response) => {
    openContext()
      .then((opened) =>
        request.url?.startsWith("/interaction/") === true
          ? handleInteraction(opened, request, response)
          : opened.handler(request, response),
      )
      .catch(() =>
        show(headers, response, errorPage("This sign-in has expired. Go back and sign in again.")),
      );
  });
  return {
    settings: { issuer, clientId: CLIENT_ID, clientSecret, allowedTenants: [] },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function listenOrFallback(server: Server, port: number, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause: Error & { readonly code?: string }) => {
      if (cause.code === "EADDRINUSE" && port !== 0) resolve(listenOrFallback(server, 0, host));
      else reject(cause);
    });
    server.listen(port, host, () => {
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : port);
    });
  });
}

// Suppresses two warnings: the library's about the runtime (the tests cover all that is used of it), and Node's about a
// deprecated API in one of its dependencies.
async function importProvider(print: DevIdentityOptions["print"]): Promise<typeof Provider> {
  process.noDeprecation = true;
  const { warn } = console;
  console.warn = (...words: unknown[]) => {
    if (!String(words[0]).includes("Unsupported runtime")) warn(...words);
  };
  try {
    return (await import("oidc-provider")).Provider;
  } catch (cause) {
    print(`  Sign-in does not work: cannot load the package oidc-provider (${String(cause)})`);
    throw cause;
  } finally {
    console.warn = warn;
  }
}

function configurationOf(
  base: URL,
  clientSecret: Secret,
  emails: ReadonlyMap<string, string>,
): Configuration {
  return {
    adapter: memoryAdapters(),
    jwks: { keys: [signingKey()] },
    cookies: { keys: [randomBase62(SECRET_CHARACTERS)] },
    clients: [
      {
        client_id: CLIENT_ID,
        client_secret: clientSecret.reveal(),
        redirect_uris: [CALLBACK_PATH, OPERATOR_CALLBACK_PATH].map((path) => base.origin + path),
        response_types: ["code"],
        grant_types: ["authorization_code"],
      },
    ],
    pkce: { required: () => true },
    features: { devInteractions: { enabled: false }, rpInitiatedLogout: { enabled: false } },
    claims: { openid: ["sub"], email: ["email", "email_verified"] },
    ttl: {
      Interaction: INTERACTION_SECONDS,
      Session: SESSION_SECONDS,
      Grant: SESSION_SECONDS,
      AuthorizationCode: 60,
      AccessToken: 600,
      IdToken: 600,
    },
    findAccount: (_context, subject) => {
      const email = emails.get(subject);
      if (email === undefined) return undefined;
      return {
        accountId: subject,
        claims: () => ({ sub: subject, email, email_verified: true }),
      };
    },
    // The only client is the gateway itself, so no consent page is shown.
    loadExistingGrant: async ({ oidc }) => {
      const { client, session, provider } = oidc;
      if (client === undefined || session?.accountId === undefined) return undefined;
      const grant = new provider.Grant({
        clientId: client.clientId,
        accountId: session.accountId,
      });
      grant.addOIDCScope("openid email profile");
      await grant.save();
      return grant;
    },
    renderError: (context, out) => {
      context.type = "html";
      context.body = errorPage(out.error_description ?? out.error);
    },
  };
}

async function handleInteraction(
  context: DevIdentityContext,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const interaction = await context.provider.interactionDetails(request, response);
  const { uid, params } = interaction;
  if (request.method !== "POST") {
    const hint = params["login_hint"];
    return show(
      context.headers,
      response,
      emailPage(uid, { email: typeof hint === "string" ? hint : "" }),
    );
  }
  const fields = new URLSearchParams(await bodyOf(request));
  const email = fields.get("email")?.trim();
  if (email !== undefined) return sendCode(context, response, uid, email);
  const pending = context.pendingCodes.get(uid);
  if (pending === undefined) return show(context.headers, response, emailPage(uid, { email: "" }));
  if (!timingSafeEqualText(fields.get("code")?.replaceAll(/\s/g, "") ?? "", pending.code))
    return await rejectCode(context, request, response, { uid, pending });
  context.pendingCodes.delete(uid);
  const subject = subjectOf(pending.email);
  context.emails.set(subject, pending.email);
  await destroySession(context, interaction);
  await context.provider.interactionFinished(request, response, { login: { accountId: subject } });
}

// For another user the library would show a logout page that needs a script, so the old session is destroyed first.
async function destroySession(
  { provider }: DevIdentityContext,
  interaction: Interaction,
): Promise<void> {
  const { session } = interaction;
  if (session?.uid === undefined) return;
  await (await provider.Session.findByUid(session.uid))?.destroy();
  delete interaction.session;
  await interaction.save(INTERACTION_SECONDS);
}

function sendCode(
  context: DevIdentityContext,
  response: ServerResponse,
  uid: string,
  email: string,
): void {
  if (!EMAIL.test(email))
    return show(
      context.headers,
      response,
      emailPage(uid, { email, error: "Enter a valid email address." }),
    );
  const code = randomDigits(CODE_DIGITS);
  const tries = context.pendingCodes.get(uid)?.tries ?? 0;
  context.pendingCodes.set(uid, { email, code, tries });
  context.options.print(`  Sign-in code for ${email}: ${code}`);
  show(context.headers, response, codePage(uid, { email }));
}

async function rejectCode(
  context: DevIdentityContext,
  request: IncomingMessage,
  response: ServerResponse,
  { uid, pending }: { readonly uid: string; readonly pending: PendingCode },
): Promise<void> {
  pending.tries += 1;
  const left = CODE_ATTEMPTS_MAX - pending.tries;
  if (left > 0) {
    const error = `Wrong code. ${left} ${left === 1 ? "try" : "tries"} left.`;
    return show(context.headers, response, codePage(uid, { email: pending.email, error }));
  }
  context.pendingCodes.delete(uid);
  await context.provider.interactionFinished(request, response, {
    error: "access_denied",
    error_description: "too many wrong codes",
  });
}

function show(
  headers: DevIdentityContext["headers"],
  response: ServerResponse,
  page: string,
): void {
  if (response.headersSent) return void response.end();
  response.writeHead(200, headers).end(page);
}

/** Derived from the email, so a person keeps the subject across restarts. */
function subjectOf(email: string): string {
  const digest = createHash("sha256").update(foldEmail(email)).digest("hex");
  return `dev-${digest.slice(0, 24)}`;
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let body = "";
  for await (const chunk of request) {
    body += String(chunk);
    if (body.length > BODY_MAX_BYTES) throw new Error("the form is too large");
  }
  return body;
}

function signingKey(): JWK {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2_048 });
  return { ...privateKey.export({ format: "jwk" }), use: "sig", alg: "RS256", kid: "dev" };
}

function memoryAdapters(): (name: string) => Adapter {
  const payloads = boundedMap<AdapterPayload>();
  const ids = boundedMap<string>();
  return (name) => ({
    upsert: async (id, payload) => {
      payloads.set(`${name} ${id}`, payload);
      if (payload.uid !== undefined) ids.set(`${name} ${payload.uid}`, id);
    },
    find: async (id) => payloads.get(`${name} ${id}`),
    findByUid: async (uid) => payloads.get(`${name} ${ids.get(`${name} ${uid}`) ?? ""}`),
    findByUserCode: async () => undefined,
    consume: async (id) => {
      const payload = payloads.get(`${name} ${id}`);
      if (payload !== undefined) payload.consumed = Math.floor(Date.now() / 1_000);
    },
    destroy: async (id) => void payloads.delete(`${name} ${id}`),
    revokeByGrantId: async (grantId) => {
      for (const [key, payload] of payloads) if (payload.grantId === grantId) payloads.delete(key);
    },
  });
}

/** A map that evicts its oldest entry at MAP_ENTRIES_MAX. */
function boundedMap<T>(): Map<string, T> {
  const map = new Map<string, T>();
  const set = map.set.bind(map);
  map.set = (key, value) => {
    const oldest = map.keys().next().value;
    if (map.size >= MAP_ENTRIES_MAX && oldest !== undefined) map.delete(oldest);
    return set(key, value);
  };
  return map;
}
