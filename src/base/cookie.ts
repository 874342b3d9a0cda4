// Cookies of the pages for people: never readable by scripts, never sent along by another site's posts. On https the
// name begins with `__Host-`, which a browser accepts from this very host alone; a cookie for a part of the site, which may
// not bear that, with `__Secure-`.

export interface CookieForm {
  readonly name: (plain: string) => string;
  readonly set: (plain: string, value: string, seconds: number) => string;
  readonly clear: (plain: string) => string;
}

export function cookieForm(baseUrl: string, path = "/"): CookieForm {
  const secure = new URL(baseUrl).protocol === "https:";
  const prefix = path === "/" ? "__Host-" : "__Secure-";
  const name: CookieForm["name"] = (plain) => (secure ? prefix + plain : plain);
  const set: CookieForm["set"] = (plain, value, seconds) =>
    `${name(plain)}=${value}; Path=${path}; Max-Age=${seconds}; HttpOnly; SameSite=Lax${secure ? "; Secure" : ""}`;
  return { name, set, clear: (plain) => set(plain, "", 0) };
}

export function cookieNamed(cookies: string | null, name: string): string | undefined {
  for (const pair of (cookies ?? "").split(";")) {
    const sign = pair.indexOf("=");
    if (sign !== -1 && pair.slice(0, sign).trim() === name) return pair.slice(sign + 1).trim();
  }
  return undefined;
}
