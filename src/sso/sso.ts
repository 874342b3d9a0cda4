// Single sign-on of workspaces: the OpenID Connect client of each workspace's identity provider.

import type { MasterSecret } from "../base/crypto/encryption.ts";
import { invalid } from "../base/fault.ts";
import type { ResolveTxt } from "../base/network/dns-txt.ts";
import type { ResolveHost } from "../base/network/public-endpoint.ts";
import { createPublicFetch, type PublicFetch } from "../base/network/public-fetch.ts";
import { createSignIn, discover, type SignIn } from "../people/sign-in.ts";
import type { Reader } from "../store/db.ts";
import {
  findConnection,
  parseIssuer,
  readIdentitySettings,
  type SsoConnection,
} from "./connections.ts";

const CLIENTS_MAX = 1_000;

export interface Sso {
  readonly master: MasterSecret;
  readonly allowLoopback: boolean;
  readonly resolveTxt: ResolveTxt;
  /** Undefined if the workspace has no identity provider. */
  readonly findSignIn: (
    reader: Reader,
    accountId: string,
  ) => Promise<{ readonly connection: SsoConnection; readonly signIn: SignIn } | undefined>;
  /** Throws `invalid_request` unless the discovery document of the issuer can be read. */
  readonly checkIssuer: (typed: string) => Promise<void>;
  readonly redirectUri: (accountId: string) => string;
}

export interface SsoDeps {
  readonly master: MasterSecret;
  readonly baseUrl: string;
  /** Development only. */
  readonly allowLoopback: boolean;
  readonly resolve: ResolveHost;
  readonly resolveTxt: ResolveTxt;
}

export function ssoPath(accountId: string): string {
  return `/signin/sso/${accountId}`;
}

export function createSso(deps: SsoDeps): Sso {
  const { master, baseUrl, allowLoopback, resolve, resolveTxt } = deps;
  const fetch = createPublicFetch({ allowLoopback, resolve });
  // By the id of the connection and its secret; the oldest is dropped for a new one.
  const clients = new Map<string, SignIn>();
  return {
    master,
    allowLoopback,
    resolveTxt,
    redirectUri: (accountId) => `${baseUrl}${ssoPath(accountId)}/callback`,
    findSignIn: async (reader, accountId) => {
      const connection = await findConnection(reader, accountId);
      if (connection === undefined) return undefined;
      const settings = await readIdentitySettings(reader, connection, master);
      const key = `${connection.id} ${settings.clientSecret?.reveal() ?? ""}`;
      const known = clients.get(key);
      if (known !== undefined) return { connection, signIn: known };
      const [oldest] = clients.keys();
      if (clients.size >= CLIENTS_MAX && oldest !== undefined) clients.delete(oldest);
      // The callback and the pending sign-in belong to one connection: the response of another issuer cannot complete it.
      const endpoint = {
        callbackPath: `${ssoPath(accountId)}/callback`,
        cookie: "postern_sso",
        path: "/",
        binding: `postern_sso|${connection.id}`,
      };
      const signIn = createSignIn({ settings, baseUrl, master, endpoint, fetch });
      clients.set(key, signIn);
      return { connection, signIn };
    },
    checkIssuer: (typed) => checkIssuer(typed, { allowLoopback, fetch }),
  };
}

async function checkIssuer(
  typed: string,
  { allowLoopback, fetch }: { readonly allowLoopback: boolean; readonly fetch: PublicFetch },
): Promise<void> {
  const issuer = parseIssuer(typed, allowLoopback);
  try {
    await discover({ issuer, clientId: "check", allowedTenants: [] }, fetch);
  } catch {
    // The cause could reveal names of the gateway's own network.
    throw invalid(
      "issuer",
      `The discovery document of ${issuer} cannot be read, or its "issuer" differs. Copy the issuer exactly as your identity provider shows it.`,
    );
  }
}
