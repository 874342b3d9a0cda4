// Differences of the common identity providers from the OpenID Connect standard.

export interface IdentityProvider {
  readonly name: string;
  readonly matches: (issuer: URL) => boolean;
  /** The `prompt` that lets a person choose another account. */
  readonly switchPrompt: "select_account" | "login";
  /** A claim other than `email_verified` that says that the email is verified. */
  readonly verifiedClaim?: string;
  /** Whether the issuer serves many organizations, each of which could assert any email. */
  readonly isShared?: (issuer: URL) => boolean;
}

const ENTRA_SHARED = /^\/(common|organizations|consumers)(\/|$)/;

const IDENTITY_PROVIDERS: readonly IdentityProvider[] = [
  {
    name: "Google",
    matches: ({ host }) => host === "accounts.google.com",
    switchPrompt: "select_account",
  },
  {
    name: "Microsoft Entra",
    matches: ({ host }) =>
      /^login\.(microsoftonline\.(com|us)|partner\.microsoftonline\.cn)$/.test(host),
    switchPrompt: "select_account",
    verifiedClaim: "xms_edov",
    isShared: ({ pathname }) => ENTRA_SHARED.test(pathname),
  },
  {
    name: "WorkOS AuthKit",
    matches: ({ host }) => host.endsWith(".authkit.app"),
    switchPrompt: "login",
  },
  { name: "Auth0", matches: ({ host }) => host.endsWith(".auth0.com"), switchPrompt: "login" },
  {
    name: "Keycloak",
    matches: ({ pathname }) => /\/realms\/[^/]+\/?$/.test(pathname),
    switchPrompt: "login",
  },
];

const GENERIC_PROVIDER: IdentityProvider = {
  name: "OpenID Connect",
  matches: () => true,
  switchPrompt: "login",
};

export function identityProviderOf(issuer: string): IdentityProvider {
  const url = new URL(issuer);
  return IDENTITY_PROVIDERS.find((provider) => provider.matches(url)) ?? GENERIC_PROVIDER;
}
