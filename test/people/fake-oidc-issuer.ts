// A fake OpenID Connect issuer. It signs in without a page, checks PKCE and the redirect URI, and lets a test override any part of the
// response.

import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

export interface IssuerOverrides {
  /** Claims that replace those of the valid ID token; undefined removes one. */
  claims?: Record<string, unknown>;
  userinfo?: Record<string, unknown>;
  signedBy?: "issuer" | "foreign key" | "none";
  /** The error that the authorization endpoint sends back. */
  error?: string;
  isDown?: boolean;
}

export interface FakeIssuer {
  readonly issuer: string;
  overrides: IssuerOverrides;
  /** How often a code was redeemed. */
  redeemedCodes: number;
  /** The parameters of the last authorization request. */
  lastAuthorization: URLSearchParams;
  readonly close: () => Promise<void>;
}

export const CLIENT = { id: "postern-at-fake", secret: "a client secret: with / odd + characters" };

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256" } as const;

export async function startFakeIssuer(): Promise<FakeIssuer> {
  const own = await crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
  const foreign = await crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
  const jwk = {
    ...(await crypto.subtle.exportKey("jwk", own.publicKey)),
    kid: "k",
    alg: "ES256",
    use: "sig",
  };
  const codes = new Map<string, URLSearchParams>();
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const issuer = `http://127.0.0.1:${port}`;
  const fakeIssuer: FakeIssuer = {
    issuer,
    overrides: {},
    redeemedCodes: 0,
    lastAuthorization: new URLSearchParams(),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", issuer);
    const json = (body: unknown, status = 200) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    if (fakeIssuer.overrides.isDown === true) return void json({ error: "server_error" }, 503);
    switch (url.pathname) {
      case "/.well-known/openid-configuration":
        return void json(metadata(issuer));
      case "/jwks":
        return void json({ keys: [jwk] });
      case "/authorize":
        return void response.writeHead(303, { location: authorize(url.searchParams) }).end();
      case "/token":
        return void json(...(await token(request)));
      case "/userinfo":
        return void json({ sub: "subject-1", ...fakeIssuer.overrides.userinfo });
      default:
        return void json({}, 404);
    }
  }

  function authorize(asked: URLSearchParams): string {
    fakeIssuer.lastAuthorization = asked;
    const back = new URL(asked.get("redirect_uri") ?? "");
    back.searchParams.set("state", asked.get("state") ?? "");
    if (fakeIssuer.overrides.error !== undefined)
      back.searchParams.set("error", fakeIssuer.overrides.error);
    else {
      const code = crypto.randomUUID();
      codes.set(code, asked);
      back.searchParams.set("code", code);
    }
    return back.href;
  }

  async function token(request: IncomingMessage): Promise<[unknown, number]> {
    let body = "";
    for await (const chunk of request) body += String(chunk);
    const fields = new URLSearchParams(body);
    // As issuers do, the client is authenticated before the code is looked up.
    if (fields.get("client_secret") !== CLIENT.secret) return [{ error: "invalid_client" }, 401];
    const asked = codes.get(fields.get("code") ?? "");
    codes.delete(fields.get("code") ?? "");
    const challenge = createHash("sha256")
      .update(fields.get("code_verifier") ?? "")
      .digest("base64url");
    const isSameRequest =
      challenge === asked?.get("code_challenge") &&
      fields.get("redirect_uri") === asked.get("redirect_uri");
    if (asked === undefined || !isSameRequest) return [{ error: "invalid_grant" }, 400];
    fakeIssuer.redeemedCodes += 1;
    const claims = { ...validClaims(issuer, asked.get("nonce")), ...fakeIssuer.overrides.claims };
    return [{ access_token: "t", token_type: "Bearer", id_token: await signed(claims) }, 200];
  }

  async function signed(claims: Record<string, unknown>): Promise<string> {
    const by = fakeIssuer.overrides.signedBy ?? "issuer";
    const header = by === "none" ? { alg: "none" } : { alg: "ES256", kid: "k" };
    const encode = (part: unknown) => Buffer.from(JSON.stringify(part)).toString("base64url");
    const text = `${encode(header)}.${encode(claims)}`;
    if (by === "none") return `${text}.`;
    const key = by === "issuer" ? own.privateKey : foreign.privateKey;
    const signature = await crypto.subtle.sign(
      { name: "ECDSA", hash: "SHA-256" },
      key,
      Buffer.from(text),
    );
    return `${text}.${Buffer.from(signature).toString("base64url")}`;
  }

  return fakeIssuer;
}

function validClaims(issuer: string, nonce: string | null): Record<string, unknown> {
  const now = Math.floor(Date.now() / 1_000);
  return {
    iss: issuer,
    sub: "subject-1",
    aud: CLIENT.id,
    iat: now,
    exp: now + 300,
    nonce,
    email: "human@example.com",
    email_verified: true,
    name: "Human",
  };
}

function metadata(issuer: string): unknown {
  return {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/jwks`,
    userinfo_endpoint: `${issuer}/userinfo`,
    response_types_supported: ["code"],
    subject_types_supported: ["public"],
    id_token_signing_alg_values_supported: ["ES256"],
    token_endpoint_auth_methods_supported: ["client_secret_post"],
    code_challenge_methods_supported: ["S256"],
    scopes_supported: ["openid", "email", "profile"],
  };
}
