// An HTTP client that behaves like a browser: it keeps cookies by path, follows redirects and submits forms. As in browsers,
// cookies are shared by all ports of a host.

export interface HttpPage {
  readonly status: number;
  readonly url: URL;
  readonly text: string;
}

export interface HttpBrowser {
  readonly visit: (url: string) => Promise<HttpPage>;
  /** Submits the first form of a page with its hidden fields and these fields. */
  readonly submit: (page: HttpPage, fields: Readonly<Record<string, string>>) => Promise<HttpPage>;
}

interface Cookie {
  readonly name: string;
  readonly value: string;
  readonly path: string;
}

const REDIRECTS_MAX = 12;

export function createHttpBrowser(): HttpBrowser {
  let cookies: Cookie[] = [];
  const storeCookie = (line: string): void => {
    const [pair = "", ...attributes] = line.split(";").map((part) => part.trim());
    const name = pair.slice(0, pair.indexOf("="));
    const path = attributes.find((attribute) => /^path=/i.test(attribute))?.slice(5) ?? "/";
    const isExpired = attributes.some(
      (attribute) => /^max-age=0$/i.test(attribute) || isPast(attribute),
    );
    cookies = cookies.filter((cookie) => cookie.name !== name || cookie.path !== path);
    if (!isExpired) cookies.push({ name, value: pair.slice(name.length + 1), path });
  };
  const request = async (url: URL, init: RequestInit, hops: number): Promise<HttpPage> => {
    const matching = cookies.filter(
      ({ path }) => url.pathname === path || url.pathname.startsWith(path.replace(/\/?$/, "/")),
    );
    const headers = new Headers(init.headers);
    headers.set("cookie", matching.map(({ name, value }) => `${name}=${value}`).join("; "));
    const response = await fetch(url, { ...init, headers, redirect: "manual" });
    for (const line of response.headers.getSetCookie()) storeCookie(line);
    const location = response.headers.get("location");
    if (location === null || response.status < 300 || response.status > 399)
      return { status: response.status, url, text: await response.text() };
    if (hops === 0) throw new Error(`too many redirects, the last to ${location}`);
    return request(new URL(location, url), {}, hops - 1);
  };
  return {
    visit: (url) => request(new URL(url), {}, REDIRECTS_MAX),
    submit: (page, fields) => {
      const form = /<form[^>]*action="([^"]+)"[^>]*>(.*?)<\/form>/s.exec(page.text);
      if (form === null) throw new Error(`no form on ${page.url.href}: ${page.text.slice(0, 300)}`);
      const hidden = [
        ...(form[2] ?? "").matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g),
      ];
      const body = new URLSearchParams({
        ...Object.fromEntries(hidden.map(([, name = "", value = ""]) => [name, value])),
        ...fields,
      });
      const headers = {
        "content-type": "application/x-www-form-urlencoded",
        "sec-fetch-site": "same-origin",
      };
      return request(
        new URL(form[1] ?? "", page.url),
        { method: "POST", headers, body: body.toString() },
        REDIRECTS_MAX,
      );
    },
  };
}

function isPast(attribute: string): boolean {
  return /^expires=/i.test(attribute) && Date.parse(attribute.slice(8)) < Date.now();
}
