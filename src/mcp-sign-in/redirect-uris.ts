// Which redirect URIs a client may register, and whether that of a request is one of them.

import { isSafeText } from "../base/text/safe-text.ts";

const URI_MAX_CHARACTERS = 300;
const LOOPBACK_HOSTS: ReadonlySet<string> = new Set(["127.0.0.1", "[::1]", "localhost"]);
const HOST = /^(?:[a-z0-9._-]*|\[[0-9a-f:]+\])$/;
/** Schemes of editors, which their systems register without the period that RFC 8252, section 7.1 asks for. */
const EDITOR_SCHEMES: ReadonlySet<string> = new Set([
  "cursor:",
  "vscode:",
  "vscode-insiders:",
  "windsurf:",
  "zed:",
]);

/** What is wrong with a redirect URI: "must begin with …". Undefined if a client may register it. */
export function problemOfRedirectUri(uri: string): string | undefined {
  const url = URL.canParse(uri) ? new URL(uri) : undefined;
  if (url === undefined || uri.length > URI_MAX_CHARACTERS || !isSafeText(uri) || /\s/.test(uri))
    return `must be an absolute URI of at most ${URI_MAX_CHARACTERS} characters`;
  if (uri.includes("#")) return "must not have a fragment";
  // URLs may have hosts that a content security policy reads as something else, such as another directive.
  if (!HOST.test(url.hostname)) return "must have a host of letters, digits, periods and hyphens";
  if (url.username !== "" || url.password !== "") return "must not have a user name or password";
  if (url.protocol === "https:" || isLoopbackUrl(url) || isPrivateUseScheme(url)) return undefined;
  return "must begin with https://, or with http:// and a loopback host";
}

/** Exactly one of the registered ones. Only the port of a loopback URI is chosen anew at each sign-in (RFC 8252, section 7.3). */
export function isRegisteredRedirectUri(registered: readonly string[], uri: string): boolean {
  if (problemOfRedirectUri(uri) !== undefined) return false;
  if (registered.includes(uri)) return true;
  const url = new URL(uri);
  return (
    isLoopbackUrl(url) &&
    registered.some(
      (other) => isLoopbackUrl(new URL(other)) && withoutPort(other) === withoutPort(uri),
    )
  );
}

/** Whether a program on the person's own computer gets the code. */
export function isLoopbackRedirect(uri: string): boolean {
  return isLoopbackUrl(new URL(uri));
}

/** What a person recognizes of the URI: its host, or the scheme of an app. */
export function redirectTarget(uri: string): string {
  const url = new URL(uri);
  return isWebUrl(url) ? url.host : url.protocol;
}

/** The source of the policy `form-action` that lets a form be redirected there. The policy has no syntax for an IPv6 address. */
export function formTarget(uri: string): string {
  const { protocol, hostname, origin } = new URL(uri);
  return isWebUrl({ protocol }) && !hostname.startsWith("[") ? origin : protocol;
}

export function withParameters(
  uri: string,
  parameters: Readonly<Record<string, string | undefined>>,
): string {
  const url = new URL(uri);
  for (const [name, value] of Object.entries(parameters))
    if (value !== undefined) url.searchParams.set(name, value);
  return url.href;
}

function isWebUrl({ protocol }: Pick<URL, "protocol">): boolean {
  return protocol === "https:" || protocol === "http:";
}

function isLoopbackUrl({ protocol, hostname }: URL): boolean {
  return protocol === "http:" && LOOPBACK_HOSTS.has(hostname);
}

/** `com.example.app:/callback`. Browsers run nothing of a scheme with a period. */
function isPrivateUseScheme({ protocol }: URL): boolean {
  return EDITOR_SCHEMES.has(protocol) || /^[a-z][a-z0-9-]*(\.[a-z0-9-]+)+:$/.test(protocol);
}

/** Compared as text, so that nothing but the port is normalized. */
function withoutPort(uri: string): string {
  return uri.replace(/^(http:\/\/(?:\[[^\]]*\]|[^/:?]*)):\d+/i, "$1");
}
