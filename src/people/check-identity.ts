// What `postern doctor` says about sign-in: reads the settings, then asks the issuer itself.

import { type IdentityProvider, providerOf } from "./providers.ts";
import { CALLBACK_PATH, discover, type IdentitySettings, isLoopback } from "./sign-in.ts";

export interface Finding {
  readonly level: "ok" | "warning" | "error";
  readonly message: string;
}

export interface IdentityCheck {
  readonly baseUrl: string;
  /** Absent where no issuer is set. */
  readonly identity: IdentitySettings | undefined;
}

export async function checkIdentity(check: IdentityCheck): Promise<readonly Finding[]> {
  const { baseUrl, identity } = check;
  const base = new URL(baseUrl);
  if (identity === undefined)
    return isLoopback(base)
      ? [ok("the bundled provider of development: any address, the code on the terminal")]
      : [warn("OIDC_ISSUER is not set: humans cannot sign in, so no account can be claimed.")];
  const provider = providerOf(identity.issuer);
  return [
    ok(
      `Sign-in: ${provider.name} at ${identity.issuer}; its redirect address must be ${baseUrl}${CALLBACK_PATH}`,
    ),
    ...settingFindings(identity, base),
    ...providerFindings(identity, provider),
    ...(await issuerFindings(identity)),
  ];
}

function settingFindings(identity: IdentitySettings, base: URL): readonly Finding[] {
  const issuer = new URL(identity.issuer);
  const findings: Finding[] = [];
  if (base.protocol !== "https:" && !isLoopback(base))
    findings.push(
      bad(
        "POSTERN_BASE_URL must be https: browsers keep session cookies from being stolen only there.",
      ),
    );
  if (issuer.protocol !== "https:" && !isLoopback(issuer))
    findings.push(bad("OIDC_ISSUER must be https."));
  if (identity.clientSecret === undefined)
    findings.push(
      warn(
        "OIDC_CLIENT_SECRET is not set: the issuer must treat this client as a public one, with PKCE.",
      ),
    );
  return findings;
}

function providerFindings(
  identity: IdentitySettings,
  provider: IdentityProvider,
): readonly Finding[] {
  const findings: Finding[] = [];
  const issuer = new URL(identity.issuer);
  if (provider.isShared?.(issuer) === true && identity.allowedTenants.length === 0)
    findings.push(
      bad(
        "This issuer serves every organization, and each can name any email. Set OIDC_ALLOWED_TENANTS, or the issuer of one tenant; until then nobody can sign in.",
      ),
    );
  if (provider.verifiedClaim !== undefined)
    findings.push(
      warn(
        `${provider.name} sends no email_verified. Add the optional claims email and ${provider.verifiedClaim} to the ID token, or every sign-in is refused.`,
      ),
    );
  if (provider.name === "Google" && identity.allowedTenants.length > 0)
    findings.push(
      warn(
        "With OIDC_ALLOWED_TENANTS, only Google Workspace accounts of these domains can sign in; gmail.com accounts name no domain.",
      ),
    );
  return findings;
}

async function issuerFindings(identity: IdentitySettings): Promise<readonly Finding[]> {
  try {
    const metadata = (await discover(identity)).serverMetadata();
    const findings: Finding[] = [
      ok("The issuer's discovery document is there and names this issuer."),
    ];
    if (!metadata.supportsPKCE("S256"))
      findings.push(warn("The issuer does not advertise PKCE with S256; it is sent all the same."));
    if (metadata.scopes_supported?.includes("email") === false)
      findings.push(bad('The issuer does not offer the scope "email".'));
    if (metadata.jwks_uri === undefined) findings.push(bad("The issuer names no jwks_uri."));
    return findings;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return [
      bad(
        `The issuer cannot be used: ${why}. Is OIDC_ISSUER exactly the "issuer" of its discovery document?`,
      ),
    ];
  }
}

function ok(message: string): Finding {
  return { level: "ok", message };
}

function warn(message: string): Finding {
  return { level: "warning", message };
}

function bad(message: string): Finding {
  return { level: "error", message };
}
