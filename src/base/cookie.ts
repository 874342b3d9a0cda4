// Cookies of the pages for people: never readable by scripts, never sent along by another site's posts. On https the
// name begins with `__Host-`, which a browser accepts from this very host alone; a cookie for a part of the site, which may
// not bear that, with `__Secure-`.

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
    const sign = pair.indexOf("=");
    if (sign !== -1 && pair.slice(0, sign).trim() === name) return pair.slice(sign + 1).trim();
  }
  return undefined;
}
