// The sign-in checks of `postern doctor`: the settings, then the discovery document of the issuer.

import * as oidc from "openid-client";
import { type IdentityProvider, identityProviderOf } from "./identity-providers.ts";
import { CALLBACK_PATH, discover, type IdentitySettings, isLoopbackUrl } from "./sign-in.ts";

export interface IdentityFinding {
  readonly level: "ok" | "warning" | "error";
  readonly message: string;
}

export interface IdentityCheckOptions {
  readonly baseUrl: string;
  /** Undefined if no issuer is set. */
  readonly identity: IdentitySettings | undefined;
}

export async function checkIdentity(
  options: IdentityCheckOptions,
): Promise<readonly IdentityFinding[]> {
  const { baseUrl, identity } = options;
  const base = new URL(baseUrl);
  if (identity === undefined)
    return isLoopbackUrl(base)
      ? [
          okFinding(
            "Sign-in: the development identity provider accepts any email address and prints the code on the terminal",
          ),
        ]
      : [
          warningFinding(
            "OIDC_ISSUER is not set: people cannot sign in, so no account can be claimed.",
          ),
        ];
  const provider = identityProviderOf(identity.issuer);
  return [
    okFinding(
      `Sign-in: ${provider.name} at ${identity.issuer}; register the redirect URI ${baseUrl}${CALLBACK_PATH}`,
    ),
    ...settingFindings(identity, base),
    ...providerFindings(identity, provider),
    ...(await issuerFindings(identity)),
  ];
}

function settingFindings(identity: IdentitySettings, base: URL): readonly IdentityFinding[] {
  const issuer = new URL(identity.issuer);
  const findings: IdentityFinding[] = [];
  if (base.protocol !== "https:" && !isLoopbackUrl(base))
    findings.push(
      errorFinding("POSTERN_BASE_URL must be https: session cookies are protected only there."),
    );
  if (issuer.protocol !== "https:" && !isLoopbackUrl(issuer))
    findings.push(errorFinding("OIDC_ISSUER must be https."));
  if (identity.clientSecret === undefined)
    findings.push(
      warningFinding(
        "OIDC_CLIENT_SECRET is not set: register this client at the issuer as a public client with PKCE.",
      ),
    );
  return findings;
}

function providerFindings(
  identity: IdentitySettings,
  provider: IdentityProvider,
): readonly IdentityFinding[] {
  const findings: IdentityFinding[] = [];
  const issuer = new URL(identity.issuer);
  if (provider.isShared?.(issuer) === true && identity.allowedTenants.length === 0)
    findings.push(
      errorFinding(
        "This issuer serves all organizations, and each can assert any email. Sign-in is refused until you set OIDC_ALLOWED_TENANTS or use the issuer of one tenant.",
      ),
    );
  if (provider.verifiedClaim !== undefined)
    findings.push(
      warningFinding(
        `${provider.name} sends no email_verified. Add the optional claims email and ${provider.verifiedClaim} to the ID token, or every sign-in is refused.`,
      ),
    );
  if (provider.name === "Google" && identity.allowedTenants.length > 0)
    findings.push(
      warningFinding(
        "With OIDC_ALLOWED_TENANTS, only Google Workspace accounts of these domains can sign in; gmail.com accounts send no domain.",
      ),
    );
  return findings;
}

async function issuerFindings(identity: IdentitySettings): Promise<readonly IdentityFinding[]> {
  try {
    const configuration = await discover(identity);
    const metadata = configuration.serverMetadata();
    const findings: IdentityFinding[] = [
      okFinding("The discovery document of the issuer is valid."),
    ];
    if (!metadata.supportsPKCE("S256"))
      findings.push(
        warningFinding("The issuer does not advertise PKCE with S256; Postern sends it anyway."),
      );
    if (metadata.scopes_supported?.includes("email") === false)
      findings.push(errorFinding('The issuer does not support the scope "email".'));
    if (metadata.jwks_uri === undefined)
      findings.push(errorFinding("The discovery document of the issuer has no jwks_uri."));
    findings.push(...(await clientFindings(identity, configuration)));
    return findings;
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error);
    return [
      errorFinding(
        `The issuer cannot be used: ${cause}. OIDC_ISSUER must be exactly the "issuer" of its discovery document.`,
      ),
    ];
  }
}

// The code is invented: the issuer checks the client first, and then refuses the code.
async function clientFindings(
  { clientId, clientSecret }: IdentitySettings,
  configuration: oidc.Configuration,
): Promise<readonly IdentityFinding[]> {
  try {
    const parameters = { code: "postern-doctor", redirect_uri: "https://postern.invalid/" };
    await oidc.genericGrantRequest(configuration, "authorization_code", parameters);
  } catch (error) {
    const code = error instanceof oidc.ResponseBodyError ? error.error : undefined;
    const isRefused = code === "invalid_client" || code === "unauthorized_client";
    if (isRefused || error instanceof oidc.WWWAuthenticateChallengeError)
      return [
        errorFinding(
          `The issuer does not accept the client ${clientId}: check OIDC_CLIENT_ID and ${clientSecret === undefined ? "set OIDC_CLIENT_SECRET" : "OIDC_CLIENT_SECRET"}.`,
        ),
      ];
    if (code === undefined)
      return [warningFinding("The issuer did not say whether it accepts the client.")];
  }
  return [okFinding("The issuer accepts the client.")];
}

function okFinding(message: string): IdentityFinding {
  return { level: "ok", message };
}

function warningFinding(message: string): IdentityFinding {
  return { level: "warning", message };
}

function errorFinding(message: string): IdentityFinding {
  return { level: "error", message };
}
