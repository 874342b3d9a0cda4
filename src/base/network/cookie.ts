// Cookies of the browser pages: `HttpOnly` and `SameSite=Lax`. Over HTTPS, the name has the prefix `__Host-`, which
// binds the cookie to this host; a cookie with a path other than `/` cannot have it and gets `__Secure-`.

export interface CookieBuilder {
  readonly name: (baseName: string) => string;
  readonly set: (baseName: string, value: string, seconds: number) => string;
  readonly clear: (baseName: string) => string;
}

export function createCookieBuilder(baseUrl: string, path = "/"): CookieBuilder {
  const secure = new URL(baseUrl).protocol === "https:";
  const prefix = path === "/" ? "__Host-" : "__Secure-";
  const name: CookieBuilder["name"] = (baseName) => (secure ? prefix + baseName : baseName);
  const set: CookieBuilder["set"] = (baseName, value, seconds) =>
    `${name(baseName)}=${value}; Path=${path}; Max-Age=${seconds}; HttpOnly; SameSite=Lax${secure ? "; Secure" : ""}`;
  return { name, set, clear: (baseName) => set(baseName, "", 0) };
}

export function readCookie(cookies: string | null, name: string): string | undefined {
  for (const pair of (cookies ?? "").split(";")) {
    const equals = pair.indexOf("=");
    if (equals !== -1 && pair.slice(0, equals).trim() === name)
      return pair.slice(equals + 1).trim();
  }
  return undefined;
}
