// The development identity provider: a real OpenID Connect provider on a port of its own that signs in any email with a
// code printed on the terminal. It keeps everything in memory, and refuses to exist beside anything but a loopback address.

import { createHash, generateKeyPairSync } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Adapter, AdapterPayload, Configuration, JWK, Provider } from "oidc-provider";
import { foldEmail } from "../base/email.ts";
import { once } from "../base/once.ts";
import { randomBase62, randomDigits, sameText, type Secret, secret } from "../base/secret.ts";
import { codePage, devPageHeaders, emailPage, stoppedPage } from "./dev-pages.tsx";
import {
  CALLBACK_PATH,
  type IdentitySettings,
  isLoopback,
  OPERATOR_CALLBACK_PATH,
} from "./sign-in.ts";

const CLIENT_ID = "postern";
const SECRET_CHARACTERS = 43;
const CODE_DIGITS = 6;
const TRIES_MAX = 5;
const INTERACTION_SECONDS = 600;
const SESSION_SECONDS = 86_400;
const KEPT_MAX = 10_000;
const BODY_MAX_BYTES = 4_096;
const EMAIL = /^[^@\s]{1,64}@[^@\s.]+(\.[^@\s.]+)+$/;

export interface DevIdentityOptions {
  /** Postern's own address; anything but loopback is refused. */
  readonly baseUrl: string;
  /** Any free one is taken where this one is not. */
  readonly port: number;
  /** Where the codes are shown: the terminal. */
  readonly print: (line: string) => void;
}

export interface DevIdentity {
  readonly settings: IdentitySettings;
  readonly close: () => Promise<void>;
}

type Interaction = Awaited<ReturnType<Provider["interactionDetails"]>>;

interface Pending {
  readonly email: string;
  readonly code: string;
  tries: number;
}

interface Desk {
  readonly provider: Provider;
  /** What the library answers by itself. */
  readonly standard: ReturnType<Provider["callback"]>;
  readonly pending: Map<string, Pending>;
  /** Whom each subject stands for. */
  readonly emails: Map<string, string>;
  readonly options: DevIdentityOptions;
  readonly headers: Readonly<Record<string, string>>;
}

export async function startDevIdentity(options: DevIdentityOptions): Promise<DevIdentity> {
  const base = new URL(options.baseUrl);
  if (!isLoopback(base))
    throw new Error(
      `the development identity provider signs in anybody as anybody, so it never runs beside ${options.baseUrl}; set OIDC_ISSUER`,
    );
  const server = createServer();
  const port = await listening(server, options.port, base.hostname.replaceAll(/[[\]]/g, ""));
  const issuer = `http://${base.hostname}:${port}`;
  const clientSecret = secret(randomBase62(SECRET_CHARACTERS));
  const headers = devPageHeaders(base.origin);
  // Made for the first who signs in: its library and its key take half as long as the start of the gateway, and 30 MB.
  const desk = once(async (): Promise<Desk> => {
    const emails = new Map<string, string>();
    const configuration = configurationOf(base, clientSecret, emails);
    const provider = new (await importProvider(options.print))(issuer, configuration);
    const standard = provider.callback();
    return { provider, standard, pending: bounded(), emails, options, headers };
  });
  server.on("request", (request, response) => {
    desk()
      .then((opened) =>
        request.url?.startsWith("/interaction/") === true
          ? interact(opened, request, response)
          : opened.standard(request, response),
      )
      .catch(() =>
        show(headers, response, stoppedPage("This sign-in is over. Go back and begin again.")),
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

function listening(server: Server, port: number, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause: Error & { readonly code?: string }) => {
      if (cause.code === "EADDRINUSE" && port !== 0) resolve(listening(server, 0, host));
      else reject(cause);
    });
    server.listen(port, host, () => {
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : port);
    });
  });
}

// The library warns that this runtime is not Node, where the tests walk the whole ceremony on it, and a dependency of
// it uses a name that is deprecated: neither is news to whoever tries Postern.
async function importProvider(print: DevIdentityOptions["print"]): Promise<typeof Provider> {
  process.noDeprecation = true;
  const { warn } = console;
  console.warn = (...words: unknown[]) => {
    if (!String(words[0]).includes("Unsupported runtime")) warn(...words);
  };
  try {
    return (await import("oidc-provider")).Provider;
  } catch (cause) {
    print(`  Nobody can sign in: the package oidc-provider cannot be loaded (${String(cause)})`);
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
    // There is one client, and it is the house itself: nobody needs to consent to it.
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
      context.body = stoppedPage(out.error_description ?? out.error);
    },
  };
}

async function interact(
  desk: Desk,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const interaction = await desk.provider.interactionDetails(request, response);
  const { uid, params } = interaction;
  if (request.method !== "POST") {
    const hint = params["login_hint"];
    return show(
      desk.headers,
      response,
      emailPage(uid, { email: typeof hint === "string" ? hint : "" }),
    );
  }
  const fields = new URLSearchParams(await bodyOf(request));
  const email = fields.get("email")?.trim();
  if (email !== undefined) return sendCode(desk, response, uid, email);
  const pending = desk.pending.get(uid);
  if (pending === undefined) return show(desk.headers, response, emailPage(uid, { email: "" }));
  if (!sameText(fields.get("code")?.replaceAll(/\s/g, "") ?? "", pending.code))
    return await mistyped(desk, request, response, { uid, pending });
  desk.pending.delete(uid);
  const subject = subjectOf(pending.email);
  desk.emails.set(subject, pending.email);
  await forgetSession(desk, interaction);
  await desk.provider.interactionFinished(request, response, { login: { accountId: subject } });
}

// Where somebody else is signed in, the library would log them out by a page with a script; here it is done beforehand.
async function forgetSession({ provider }: Desk, interaction: Interaction): Promise<void> {
  const { session } = interaction;
  if (session?.uid === undefined) return;
  await (await provider.Session.findByUid(session.uid))?.destroy();
  delete interaction.session;
  await interaction.save(INTERACTION_SECONDS);
}

function sendCode(desk: Desk, response: ServerResponse, uid: string, email: string): void {
  if (!EMAIL.test(email))
    return show(
      desk.headers,
      response,
      emailPage(uid, { email, wrong: "That is not an email address." }),
    );
  const code = randomDigits(CODE_DIGITS);
  const tries = desk.pending.get(uid)?.tries ?? 0;
  desk.pending.set(uid, { email, code, tries });
  desk.options.print(`  Sign-in code for ${email}: ${code}`);
  show(desk.headers, response, codePage(uid, { email }));
}

async function mistyped(
  desk: Desk,
  request: IncomingMessage,
  response: ServerResponse,
  { uid, pending }: { readonly uid: string; readonly pending: Pending },
): Promise<void> {
  pending.tries += 1;
  const left = TRIES_MAX - pending.tries;
  if (left > 0) {
    const wrong = `That is not the code. ${left} more ${left === 1 ? "try" : "tries"}.`;
    return show(desk.headers, response, codePage(uid, { email: pending.email, wrong }));
  }
  desk.pending.delete(uid);
  await desk.provider.interactionFinished(request, response, {
    error: "access_denied",
    error_description: "too many wrong codes",
  });
}

function show(headers: Desk["headers"], response: ServerResponse, page: string): void {
  if (response.headersSent) return void response.end();
  response.writeHead(200, headers).end(page);
}

/** The same email is the same human after a restart too. */
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
  const kept = bounded<AdapterPayload>();
  const ids = bounded<string>();
  return (name) => ({
    upsert: async (id, payload) => {
      kept.set(`${name} ${id}`, payload);
      if (payload.uid !== undefined) ids.set(`${name} ${payload.uid}`, id);
    },
    find: async (id) => kept.get(`${name} ${id}`),
    findByUid: async (uid) => kept.get(`${name} ${ids.get(`${name} ${uid}`) ?? ""}`),
    findByUserCode: async () => undefined,
    consume: async (id) => {
      const payload = kept.get(`${name} ${id}`);
      if (payload !== undefined) payload.consumed = Math.floor(Date.now() / 1_000);
    },
    destroy: async (id) => void kept.delete(`${name} ${id}`),
    revokeByGrantId: async (grantId) => {
      for (const [key, payload] of kept) if (payload.grantId === grantId) kept.delete(key);
    },
  });
}

/** A map that forgets its oldest entry where it would grow without end. */
function bounded<T>(): Map<string, T> {
  const map = new Map<string, T>();
  const set = map.set.bind(map);
  map.set = (key, value) => {
    const oldest = map.keys().next().value;
    if (map.size >= KEPT_MAX && oldest !== undefined) map.delete(oldest);
    return set(key, value);
  };
  return map;
}
