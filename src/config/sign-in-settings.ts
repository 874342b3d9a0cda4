// Settings of sign-in: the OpenID Connect provider, and the port of the bundled one.

import { z } from "zod";
import { type Secret, secret } from "../base/crypto/secret.ts";
import { commaSeparated, integer, settings, type SettingValues } from "./setting-schemas.ts";

/** The OpenID Connect issuer that signs people in. */
export interface OidcConfig {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret?: Secret;
  readonly allowedTenants: readonly string[];
}

export const IDENTITY_SETTINGS = settings({
  OIDC_ISSUER: [
    z.url({ protocol: /^https?$/, error: "must be an http:// or https:// address" }).optional(),
    "the bundled provider in development",
    "The exact `issuer` of the OpenID Connect provider that signs people in, see `docs/site/identity.md`.",
  ],
  OIDC_CLIENT_ID: [z.string().optional(), "", "The client ID at that provider."],
  OIDC_CLIENT_SECRET: [
    z.string().optional(),
    "",
    "The client secret. Leave it out for a public client.",
  ],
  OIDC_ALLOWED_TENANTS: [
    z.string().default("").transform(commaSeparated),
    "",
    "Organizations whose members may sign in, separated by commas. Not set: all.",
  ],
  POSTERN_CLIENT_DOCUMENTS: [
    z.enum(["on", "off"]).default("on"),
    "on",
    "`off` if the gateway cannot reach the Internet: MCP clients then register, instead of naming a metadata document that the gateway fetches.",
  ],
  POSTERN_IDENTITY_PORT: [
    integer(0, 65_535).optional(),
    "<port> + 1",
    "The port of the bundled identity provider in development.",
  ],
});

export function oidcConfigFrom(env: SettingValues<typeof IDENTITY_SETTINGS>): {
  readonly identity?: OidcConfig;
  readonly hasClientDocuments: boolean;
} {
  const { OIDC_ISSUER: issuer, OIDC_CLIENT_ID: clientId, OIDC_CLIENT_SECRET } = env;
  const hasClientDocuments = env.POSTERN_CLIENT_DOCUMENTS === "on";
  if (issuer === undefined || clientId === undefined) return { hasClientDocuments };
  return {
    hasClientDocuments,
    identity: {
      issuer,
      clientId,
      ...(OIDC_CLIENT_SECRET === undefined ? {} : { clientSecret: secret(OIDC_CLIENT_SECRET) }),
      allowedTenants: env.OIDC_ALLOWED_TENANTS,
    },
  };
}
