// What is particular about the common identity providers. Whatever is not listed here is taken as the standard says.

export interface IdentityProvider {
  readonly name: string;
  readonly matches: (issuer: URL) => boolean;
  /** The `prompt` that lets a person choose another account than the one they are signed in with. */
  readonly switchPrompt: "select_account" | "login";
  /** A claim beside `email_verified` by which this provider says that the email is proven. */
  readonly verifiedClaim?: string;
  /** Whether one issuer address serves many organizations, any of which could name any email. */
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
